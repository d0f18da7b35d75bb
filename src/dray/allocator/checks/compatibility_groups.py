"""Compatibility groups: partitions share a counter set only if their groups intersect.

Follows experimental/compatibility_groups.go: a device without groups goes only with others without.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.checks.counters import HoldersOn, both_draw
from dray.allocator.model import rejections
from dray.allocator.model.candidates import Candidate, Check, Slot
from dray.allocator.model.rejections import DeviceRejection
from dray.allocator.model.requests import Alternative
from dray.allocator.model.trail import Trail
from dray.api.types.dra import Device

_NONE: frozenset[str] = frozenset()


class Intersection(NamedTuple):
    """The compatibility groups that all devices on one counter set have in common."""

    has_members: bool = False
    all_empty: bool = False
    groups: frozenset[str] = _NONE

    def admits(self, groups: frozenset[str]) -> bool:
        if not self.has_members:
            return True
        if not groups or self.all_empty:
            return self.all_empty and not groups
        return not self.groups.isdisjoint(groups)

    def add(self, groups: frozenset[str]) -> Intersection:
        if not self.has_members:
            return Intersection(True, not groups, groups)
        if self.all_empty or not groups:
            return self
        return Intersection(True, False, self.groups & groups)


def of_allocated(devices: Iterable[Device]) -> dict[str, Intersection]:
    """Return the common groups of the allocated devices, by counter set."""
    present: dict[str, Intersection] = {}
    for device in devices:
        for consumption in device.consumes_counters:
            groups = frozenset(consumption.compatibility_groups)
            existing = present.get(consumption.counter_set, Intersection())
            present[consumption.counter_set] = existing.add(groups)
    return present


class Groups(Check):
    """Checks that a device is compatible with the others on its counter sets."""

    name = rejections.CheckName.GROUPS
    __slots__ = ("_charged", "_holders_on", "_present", "_shared", "applies_to")

    def __init__(
        self,
        present: Sequence[Mapping[str, Intersection]],
        *,
        partitions: int,
        shared: int,
        holders_on: HoldersOn,
    ) -> None:
        self._present = [dict(pool) for pool in present]
        self._shared = shared
        self._charged = 0
        self._holders_on = holders_on
        self.applies_to = partitions

    def take(self, slot: Slot, device: Candidate, trail: Trail) -> DeviceRejection | None:
        # A further share of a device that is in use changes nothing for its counter sets; upstream
        # does not compare its groups again.
        if device.is_shareable and device.bit & (self._shared | self._charged):
            return None
        mark = trail.mark()
        present = self._present[device.pool_index]
        for consumption in device.device.consumes_counters:
            name = consumption.counter_set
            groups = frozenset(consumption.compatibility_groups)
            existing = present.get(name)
            intersection = existing or Intersection()
            if not intersection.admits(groups):
                trail.unwind(mark)
                return self._incompatible(device, name, groups, intersection)
            trail.push(_put_back, present, name, existing)
            present[name] = intersection.add(groups)
        if device.is_shareable:
            trail.push(self._restore, self._charged)
            self._charged |= device.bit
        return None

    def can_conflict(
        self, slot: Slot, candidates: int, other: Alternative, picked: Candidate
    ) -> bool:
        return both_draw(self.applies_to, candidates, picked)

    def state_key(self, device: Candidate) -> Hashable:
        return bool(device.bit & (self._shared | self._charged))

    def _incompatible(
        self, device: Candidate, counter_set: str, groups: frozenset[str], present: Intersection
    ) -> rejections.GroupsIncompatible:
        return rejections.GroupsIncompatible(
            device.id,
            counter_set,
            groups=tuple(sorted(groups)),
            present=tuple(sorted(present.groups)),
            holders=self._holders_on(device.pool_index, counter_set),
        )

    def _restore(self, charged: int) -> None:
        self._charged = charged


def _put_back(
    present: dict[str, Intersection], counter_set: str, existing: Intersection | None
) -> None:
    if existing is None:
        del present[counter_set]
    else:
        present[counter_set] = existing
