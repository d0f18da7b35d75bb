"""matchAttribute and distinctAttribute over the devices of one claim.

Constraints are monotonic: a device that is rejected now stays rejected when more are picked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dray.allocator.model import rejections
from dray.allocator.model.attributes import INCOMPARABLE, Value
from dray.allocator.model.candidates import Candidate, Check, Slot
from dray.allocator.model.rejections import DeviceRejection
from dray.allocator.model.requests import Alternative
from dray.allocator.model.trail import Trail
from dray.api.types.dra import DeviceConstraint

ValueOf = Callable[[Alternative, Candidate, str], Value | None]
"""Returns the value of an attribute, or None; raises AllocationError if deriving it fails."""

MasksOf = Callable[[Alternative, str], Mapping[Value, int] | None]
"""Returns the devices by value, or None if values are derived or lists."""


def applies_to(constraint: DeviceConstraint, alternative: Alternative) -> bool:
    """Return whether a constraint names an alternative, its parent request, or no request."""
    return not constraint.requests or alternative.is_named(constraint.requests)


class MatchAttribute:
    """matchAttribute: all devices have the same value; lists have a member in common."""

    __slots__ = ("_value", "attribute", "compares_lists", "number")

    def __init__(self, number: int, attribute: str, compares_lists: bool) -> None:
        self.number = number
        self.attribute = attribute
        self.compares_lists = compares_lists
        self._value: Value | None = None

    @property
    def value(self) -> Value | None:
        """Return what the picked devices have in common, or None before the first."""
        return self._value

    def add(self, device: Candidate, value: Value, trail: Trail) -> DeviceRejection | None:
        common = self._value
        if common is None:
            # Upstream lets a single value that it cannot compare pass, unless it compares lists.
            if value is INCOMPARABLE and self.compares_lists:
                return rejections.AttributeIncomparable(device.id, self.number, self.attribute)
            narrowed = value
        elif value is INCOMPARABLE:
            return rejections.AttributeIncomparable(device.id, self.number, self.attribute)
        elif value == common:
            return None
        else:
            narrowed = Value(value.kind, common.members & value.members)
            if common.kind != value.kind or not narrowed.members:
                return rejections.AttributeDiffers(
                    device.id, self.number, self.attribute, str(value), str(common)
                )
        trail.push(self._restore, common)
        self._value = narrowed
        return None

    def filter_candidates(self, masks: Mapping[Value, int], candidates: int, needed: int) -> int:
        if self._value is not None:
            return candidates & masks.get(self._value, 0)
        # Before the first pick: a value with fewer devices than needed cannot be the common one.
        kept = 0
        for value, members in masks.items():
            members = members & candidates
            if members.bit_count() >= needed and (value is not INCOMPARABLE or needed == 1):
                kept |= members
        return kept

    def _restore(self, value: Value | None) -> None:
        self._value = value


class DistinctAttribute:
    """distinctAttribute: no two devices have the same value, or lists with a common member."""

    __slots__ = ("attribute", "compares_lists", "number", "values")

    def __init__(self, number: int, attribute: str, compares_lists: bool) -> None:
        self.number = number
        self.attribute = attribute
        self.compares_lists = compares_lists
        self.values: list[Value] = []

    def add(self, device: Candidate, value: Value, trail: Trail) -> DeviceRejection | None:
        if value is INCOMPARABLE and (self.compares_lists or self.values):
            return rejections.AttributeIncomparable(device.id, self.number, self.attribute)
        if any(
            other.kind == value.kind and not other.members.isdisjoint(value.members)
            for other in self.values
        ):
            return rejections.AttributeRepeated(device.id, self.number, self.attribute, str(value))
        trail.push(self.values.pop)
        self.values.append(value)
        return None

    def filter_candidates(self, masks: Mapping[Value, int], candidates: int, needed: int) -> int:
        kept = values = 0
        for value, members in masks.items():
            members = members & candidates
            if members and value not in self.values:
                kept |= members
                values += 1
        return kept if values >= needed else 0


Constraint = MatchAttribute | DistinctAttribute


def build(number: int, constraint: DeviceConstraint, *, compares_lists: bool) -> Constraint | None:
    """Return the state of a constraint, or None if its kind is unknown."""
    if constraint.match_attribute is not None:
        return MatchAttribute(number, constraint.match_attribute, compares_lists)
    if constraint.distinct_attribute is not None:
        return DistinctAttribute(number, constraint.distinct_attribute, compares_lists)
    return None


class Constraints(Check):
    """Checks every constraint that applies to a slot, in the order of the claim."""

    name = rejections.CheckName.CONSTRAINTS
    __slots__ = ("_masks_of", "_value_of", "applies_to", "applying")

    def __init__(
        self,
        applying: Mapping[Alternative, Sequence[Constraint]],
        value_of: ValueOf,
        masks_of: MasksOf,
    ) -> None:
        self.applying = applying
        """By alternative, in the order of the claim."""
        self._value_of = value_of
        self._masks_of = masks_of
        self.applies_to = -1

    def take(self, slot: Slot, device: Candidate, trail: Trail) -> DeviceRejection | None:
        mark = trail.mark()
        for constraint in self.applying[slot.alternative]:
            number, attribute = constraint.number, constraint.attribute
            value = self._value_of(slot.alternative, device, attribute)
            rejection = (
                rejections.AttributeAbsent(device.id, number, attribute)
                if value is None
                else constraint.add(device, value, trail)
            )
            if rejection is not None:
                trail.unwind(mark)
                return rejection
        return None

    def filter_candidates(self, slot: Slot, candidates: int, needed: int) -> int:
        for constraint in self.applying[slot.alternative]:
            masks = self.masks(slot.alternative, constraint)
            if masks is not None:
                candidates = constraint.filter_candidates(masks, candidates, needed)
        return candidates

    def masks(self, alternative: Alternative, constraint: Constraint) -> Mapping[Value, int] | None:
        """Return the devices by value, or None if values are derived or lists."""
        return self._masks_of(alternative, constraint.attribute)

    def constrained_values(
        self, alternative: Alternative, device: Candidate
    ) -> tuple[Value | None, ...]:
        """Return the values of a device that the constraints on an alternative compare."""
        return tuple(
            self._value_of(alternative, device, constraint.attribute)
            for constraint in self.applying.get(alternative, ())
        )

    def can_conflict(
        self, slot: Slot, candidates: int, other: Alternative, picked: Candidate
    ) -> bool:
        mine = self.applying[slot.alternative]
        return any(constraint in mine for constraint in self.applying.get(other, ()))
