"""The filters that devices of one node have to pass for a request, evaluated one by one.

The allocator stops where upstream would stop: at the first error, and at the first check that
rejects a device. Here every check is evaluated on every device, nothing is raised, and the result
of one check does not depend on the others.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from dray.allocator.checks import taints
from dray.allocator.checks.constraints import Constraint, Constraints
from dray.allocator.inventory import pools
from dray.allocator.inventory.node_classes import FoundDevices
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.inventory.selectors import Selectors
from dray.allocator.model import rejections
from dray.allocator.model.candidates import Candidate, Check, Slot
from dray.allocator.model.rejections import CheckName, DeviceRejection
from dray.allocator.model.requests import Alternative
from dray.allocator.model.trail import Trail
from dray.allocator.problem import eligibility, node_problem
from dray.allocator.problem.node_problem import NodeAlternative, NodeProblem, NodeRequest
from dray.allocator.problem.resolution import ResolvedAlternative, ResolvedClaim, ResolvedRequest
from dray.allocator.search.check_sequence import CheckSequence
from dray.api.types.dra import DeviceToleration

_TOLERATES_ALL = (DeviceToleration(operator="Exists"),)


class FilterKind(enum.StrEnum):
    """Subjects of filters, in the order in which explanations show it."""

    CLASS = "class"
    SELECTOR = "selector"
    NODE = "node"
    FEATURES = "features"
    TAINTS = "taints"
    TAKEN = "taken"
    CAPACITY = "capacity"
    GROUPS = "groups"
    COUNTERS = "counters"
    CONSTRAINTS = "constraints"


class DeviceFilter(msgspec.Struct, frozen=True):
    """One filter. A selector has its index and text; one of a class also the class."""

    kind: FilterKind
    index: int = 0
    expression: str = ""
    device_class: str = ""

    @property
    def is_selector(self) -> bool:
        return self.kind in (FilterKind.CLASS, FilterKind.SELECTOR)


_FILTERS = {kind: DeviceFilter(kind) for kind in FilterKind}


class FilterResult(NamedTuple):
    """The devices of a node that pass a filter."""

    filter: DeviceFilter
    passing: int
    failing: int = 0
    """Devices on which the check cannot be evaluated."""


class CannotEvaluate(msgspec.Struct, frozen=True, tag_field="rejection", tag=True):
    """A selector, derived attribute or capacity raises an error on the device; upstream's text."""

    detail: str


FilterRejection = DeviceRejection | CannotEvaluate
"""Why a device does not pass a filter."""


class NodeFilters:
    """The filters of one node for some claims."""

    def __init__(
        self, inventory: NodeInventory, claims: Sequence[ResolvedClaim], selectors: Selectors
    ) -> None:
        self.inventory = inventory
        self._incomparable: dict[NodeAlternative, int] = {}
        """Devices whose capacity cannot be compared with the request, by alternative."""
        self.requests = [self._request(request) for claim in claims for request in claim.requests]
        self._problem = NodeProblem(inventory, claims, self.requests)
        applying: dict[Alternative, list[Constraint]] = {}
        lists = inventory.features.list_type_attributes
        for number, claim in enumerate(claims):
            of_claim = [request for request in self.requests if request.claim == number]
            applying |= node_problem.constraint_states(claim, of_claim, compares_lists=lists)
        if applying:
            self._problem.constraints = Constraints(
                applying,
                node_problem.value_reader(inventory, selectors),
                lambda _, attribute: inventory.value_masks(attribute),
            )
        self._checks = CheckSequence(self._problem)

    def alternatives(self) -> Iterator[NodeAlternative]:
        return self._problem.alternatives()

    def needed(self, alternative: NodeAlternative) -> int:
        """Return how many devices of the node the alternative needs; for All, all that match."""
        if not alternative.parsed.is_all:
            return alternative.count
        matching = eligibility.selected_devices(alternative.resolved, self.inventory).matching
        if self.inventory.features.consumable_capacity:
            matching &= alternative.selected
        return max(matching.bit_count(), 1)

    def results(self, alternative: NodeAlternative) -> Iterator[FilterResult]:
        """Yield the result of every filter on all devices, in order and only when it is needed."""
        inventory = self.inventory
        for located in alternative.resolved.selectors:
            kind = FilterKind.SELECTOR if located.device_class is None else FilterKind.CLASS
            of_class = located.device_class or ""
            device_filter = DeviceFilter(kind, located.number, located.text, of_class)
            yield FilterResult(device_filter, *located.selector.matches(inventory))
        yield FilterResult(_FILTERS[FilterKind.NODE], *inventory.on_node)
        everything = inventory.everything
        yield FilterResult(_FILTERS[FilterKind.FEATURES], everything & ~self._disabled(alternative))
        yield FilterResult(_FILTERS[FilterKind.TAINTS], everything & ~self._tainted(alternative))
        taken = 0 if alternative.parsed.admin_access else inventory.taken
        yield FilterResult(_FILTERS[FilterKind.TAKEN], everything & ~taken)
        checks = {check.name: check for check in self._checks.of(alternative)}
        yield self._capacity(alternative, checks.get(CheckName.CAPACITY))
        yield self._filter_one_by_one(FilterKind.GROUPS, checks.get(CheckName.GROUPS), alternative)
        yield self._filter_as_set(FilterKind.COUNTERS, checks.get(CheckName.COUNTERS), alternative)
        constraint_check = checks.get(CheckName.CONSTRAINTS)
        if alternative.parsed.derived or inventory.features.list_type_attributes:
            yield self._filter_one_by_one(FilterKind.CONSTRAINTS, constraint_check, alternative)
        else:
            yield self._filter_as_set(FilterKind.CONSTRAINTS, constraint_check, alternative)

    def rejection(
        self, alternative: NodeAlternative, device_filter: DeviceFilter, device: Candidate
    ) -> FilterRejection | None:
        """Return why one device does not pass one filter, or None."""
        resolved = alternative.resolved
        for rejection in eligibility.device_rejections(resolved, self.inventory, device):
            if _belongs_to(rejection, device_filter):
                return rejection
        check = self._check_behind(alternative, device_filter, device)
        if check is not None:
            return _try_take(check, alternative.slots[0], device)
        return self._evaluation_error(alternative, device_filter, device)

    def _check_behind(
        self, alternative: NodeAlternative, device_filter: DeviceFilter, device: Candidate
    ) -> Check | None:
        if device_filter.kind is FilterKind.CAPACITY and not alternative.selected & device.bit:
            return None
        for check in self._checks.of(alternative):
            if _KIND_OF[check.name] is device_filter.kind and check.applies_to & device.bit:
                return check
        return None

    def _evaluation_error(
        self, alternative: NodeAlternative, device_filter: DeviceFilter, device: Candidate
    ) -> CannotEvaluate | None:
        for located in alternative.resolved.selectors if device_filter.is_selector else ():
            place = (located.number, located.device_class or "")
            if place == (device_filter.index, device_filter.device_class):
                result = located.selector.result(device)
                return CannotEvaluate(result) if isinstance(result, str) else None
        if device_filter.kind in (FilterKind.NODE, FilterKind.CAPACITY):
            untested = alternative.resolved._replace(selectors=())
            return CannotEvaluate(eligibility.failure(untested, self.inventory, device).detail)
        return None

    def _request(self, request: ResolvedRequest) -> NodeRequest:
        usable = [resolved for resolved in request.alternatives if resolved.failure is None]
        return NodeRequest(request, [self._alternative(resolved) for resolved in usable])

    def _alternative(self, resolved: ResolvedAlternative) -> NodeAlternative:
        inventory = self.inventory
        alternative = NodeAlternative(resolved, inventory)
        alternative.slots = [Slot(alternative.claim, alternative.parsed, 0)]
        # What each filter leaves is asked for one by one, in `_devices`.
        selected = 0
        demands: eligibility.Demands = []
        if inventory.features.consumable_capacity:
            demands, able = eligibility.capacity_demands(resolved, inventory, inventory.everything)
            selected, self._incomparable[alternative] = able
        alternative.set_devices(FoundDevices(0, selected, 0, demands))
        return alternative

    def _disabled(self, alternative: NodeAlternative) -> int:
        """Return the devices that a feature gate, or a feature missing on the node, excludes."""
        inventory = self.inventory
        tolerant = msgspec.structs.replace(alternative.parsed, tolerations=_TOLERATES_ALL)
        disabled = eligibility.excluded_devices(tolerant, inventory)
        if not pools.has_binding_conditions(inventory.features):
            disabled |= inventory.where(lambda candidate: bool(candidate.device.binding_conditions))
        return disabled

    def _tainted(self, alternative: NodeAlternative) -> int:
        if not self.inventory.features.device_taints:
            return 0
        tainted = 0
        for device in self.inventory.members(self.inventory.possibly_excluded):
            if taints.first_untolerated(device.taints, alternative.parsed.tolerations) is not None:
                tainted |= device.bit
        return tainted

    def _capacity(self, alternative: NodeAlternative, check: Check | None) -> FilterResult:
        """Filter devices that are large enough and have enough left."""
        able, incomparable = self.inventory.everything, 0
        if self.inventory.features.consumable_capacity:
            able, incomparable = alternative.selected, self._incomparable[alternative]
        if check is not None:
            able = check.filter_candidates(alternative.slots[0], able, 1)
        return FilterResult(_FILTERS[FilterKind.CAPACITY], able, incomparable)

    def _filter_as_set(
        self, kind: FilterKind, check: Check | None, alternative: NodeAlternative
    ) -> FilterResult:
        """Filter devices by a check that can work on sets."""
        passing = self.inventory.everything
        if check is not None:
            passing = check.filter_candidates(alternative.slots[0], passing, 1)
        return FilterResult(_FILTERS[kind], passing)

    def _filter_one_by_one(
        self, kind: FilterKind, check: Check | None, alternative: NodeAlternative
    ) -> FilterResult:
        """Filter devices by a check that has to take them one by one, with nothing else picked."""
        passing, failing = self.inventory.everything, 0
        if check is None:
            return FilterResult(_FILTERS[kind], passing)
        for device in self.inventory.members(passing & check.applies_to):
            states = _try_take(check, alternative.slots[0], device)
            if states is not None:
                passing ^= device.bit
            if isinstance(states, CannotEvaluate):
                failing |= device.bit
        return FilterResult(_FILTERS[kind], passing, failing)


_KIND_OF = {
    CheckName.USAGE: FilterKind.TAKEN,
    CheckName.BINDING_CONDITIONS: FilterKind.FEATURES,
    CheckName.CLASS_SELECTORS: FilterKind.CLASS,
    CheckName.REQUEST_SELECTORS: FilterKind.SELECTOR,
    CheckName.NODE_SELECTION: FilterKind.NODE,
    CheckName.CAPACITY: FilterKind.CAPACITY,
    CheckName.NODE_OPERATIONS: FilterKind.FEATURES,
    CheckName.GROUPS: FilterKind.GROUPS,
    CheckName.COUNTERS: FilterKind.COUNTERS,
    CheckName.TAINTS: FilterKind.TAINTS,
    CheckName.CONSTRAINTS: FilterKind.CONSTRAINTS,
}


def _belongs_to(rejection: DeviceRejection, device_filter: DeviceFilter) -> bool:
    if isinstance(rejection, rejections.SelectorNotMatched):
        place = (device_filter.index, device_filter.device_class)
        return device_filter.is_selector and place == (
            rejection.index,
            rejection.device_class or "",
        )
    if isinstance(rejection, rejections.CountersDisabled):
        return device_filter.kind is FilterKind.FEATURES
    return _KIND_OF[rejection.check] is device_filter.kind


def _try_take(check: Check, slot: Slot, device: Candidate) -> FilterRejection | None:
    trail = Trail()
    try:
        return _with_sorted_holders(check.take(slot, device, trail))
    except rejections.AllocationError as failure:
        return CannotEvaluate(failure.detail)
    finally:
        trail.unwind(0)


def _with_sorted_holders(rejection: DeviceRejection | None) -> DeviceRejection | None:
    """Return the rejection with its holders sorted by name, for texts that do not vary."""
    holders = getattr(rejection, "holders", ())
    if rejection is None or not holders:
        return rejection
    return msgspec.structs.replace(rejection, holders=tuple(sorted(holders)))
