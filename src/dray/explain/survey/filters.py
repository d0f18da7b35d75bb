"""The gates that a device has to pass for a request, on one node, ready to be asked one by one.

The allocator stops where upstream would stop: at the first failure, and at a device that some check
has ruled out. Here every check is asked of every device, nothing is raised, and what a check says
does not depend on what the others say.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from dray.allocator.checks import constraints, taints
from dray.allocator.inventory import pools
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.inventory.selectors import Selectors
from dray.allocator.model import rejections
from dray.allocator.model.attributes import Value
from dray.allocator.model.candidates import Candidate, Check, Slot
from dray.allocator.model.requests import Alternative
from dray.allocator.model.trail import Trail
from dray.allocator.problem import eligibility
from dray.allocator.problem.node_problem import NodeAlternative, NodeProblem, NodeRequest
from dray.allocator.problem.resolution import ResolvedAlternative, ResolvedClaim, ResolvedRequest
from dray.allocator.search.check_sequence import CheckSequence
from dray.api.types.dra import DeviceToleration

_TOLERATES_ALL = (DeviceToleration(operator="Exists"),)


class FilterKind(enum.StrEnum):
    """What a gate looks at, in the order in which people ask."""

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
    """One gate. A selector is told by its number and text, one of a class by the class as well."""

    kind: FilterKind
    index: int = 0
    expression: str = ""
    device_class: str = ""

    @property
    def is_selector(self) -> bool:
        return self.kind in (FilterKind.CLASS, FilterKind.SELECTOR)


_FILTERS = {kind: DeviceFilter(kind) for kind in FilterKind}


class FilterResult(NamedTuple):
    """What a gate makes of the devices of a node."""

    filter: DeviceFilter
    passing: int
    failing: int = 0
    """Devices on which the check cannot be evaluated."""


class CannotEvaluate(msgspec.Struct, frozen=True, tag_field="rejection", tag=True):
    """A selector, a derived attribute or a capacity fails on the device; upstream's words."""

    detail: str


FilterRejection = rejections.DeviceRejection | CannotEvaluate
"""What a gate has against a device."""


class NodeFilters:
    """The gates of one node for some claims."""

    def __init__(
        self, inventory: NodeInventory, claims: Sequence[ResolvedClaim], selectors: Selectors
    ) -> None:
        self.inventory = inventory
        self._selectors = selectors
        self._unanswered: dict[NodeAlternative, int] = {}
        """Devices whose capacity cannot be compared with what an option asks for."""
        self.steps = [self._step(request) for claim in claims for request in claim.requests]
        self._problem = NodeProblem(inventory, claims, self.steps)
        applying = {
            plan.option: found
            for plan in self._problem.plans()
            if (found := self._constraints_on(plan, claims[plan.claim]))
        }
        if applying:
            self._problem.constraints = constraints.Constraints(
                applying, self._value, lambda _, attribute: inventory.value_masks(attribute)
            )
        self._checks = CheckSequence(self._problem)

    def wanted(self, plan: NodeAlternative) -> int:
        """How many devices of the node the option needs; for All, all that match."""
        if not plan.option.is_all:
            return plan.count
        matching = eligibility.selected_devices(plan.resolved, self.inventory).accepted
        if self.inventory.features.consumable_capacity:
            matching &= plan.selected
        return max(matching.bit_count(), 1)

    def answers(self, plan: NodeAlternative) -> Iterator[FilterResult]:
        """What every gate says about every device, in order; nothing is asked before its turn."""
        inventory = self.inventory
        for test in plan.resolved.tests:
            kind = FilterKind.SELECTOR if test.device_class is None else FilterKind.CLASS
            device_filter = DeviceFilter(kind, test.number, test.text, test.device_class or "")
            yield FilterResult(device_filter, *test.selector.matches(inventory))
        yield FilterResult(_FILTERS[FilterKind.NODE], *inventory.on_node)
        everything = inventory.everything
        yield FilterResult(_FILTERS[FilterKind.FEATURES], everything & ~self._disabled(plan))
        yield FilterResult(_FILTERS[FilterKind.TAINTS], everything & ~self._tainted(plan))
        taken = 0 if plan.option.admin_access else inventory.taken
        yield FilterResult(_FILTERS[FilterKind.TAKEN], everything & ~taken)
        asked = {check.name: check for check in self._checks.of(plan)}
        yield self._capacity(plan, asked.get(rejections.CheckName.CAPACITY))
        yield self._ask(FilterKind.GROUPS, asked.get(rejections.CheckName.GROUPS), plan)
        yield self._narrow(FilterKind.COUNTERS, asked.get(rejections.CheckName.COUNTERS), plan)
        constraining = asked.get(rejections.CheckName.CONSTRAINTS)
        if plan.option.derived or inventory.features.list_type_attributes:
            yield self._ask(FilterKind.CONSTRAINTS, constraining, plan)
        else:
            yield self._narrow(FilterKind.CONSTRAINTS, constraining, plan)

    def rejection(
        self, plan: NodeAlternative, device_filter: DeviceFilter, device: Candidate
    ) -> FilterRejection | None:
        """What one gate has against one device that does not pass it."""
        for rejection in eligibility.device_rejections(plan.resolved, self.inventory, device):
            if _is_of(rejection, device_filter):
                return rejection
        check = self._check_behind(plan, device_filter, device)
        if check is not None:
            return _asked(check, plan.slots[0], device)
        return self._failure(plan, device_filter, device)

    def _check_behind(
        self, plan: NodeAlternative, device_filter: DeviceFilter, device: Candidate
    ) -> Check | None:
        if device_filter.kind is FilterKind.CAPACITY and not plan.selected & device.bit:
            return None
        for check in self._checks.of(plan):
            if _KIND_OF[check.name] is device_filter.kind and check.applies_to & device.bit:
                return check
        return None

    def _failure(
        self, plan: NodeAlternative, device_filter: DeviceFilter, device: Candidate
    ) -> CannotEvaluate | None:
        for test in plan.resolved.tests if device_filter.is_selector else ():
            if (test.number, test.device_class or "") == (
                device_filter.index,
                device_filter.device_class,
            ):
                answer = test.selector.answer(device)
                return CannotEvaluate(answer) if isinstance(answer, str) else None
        if device_filter.kind in (FilterKind.NODE, FilterKind.CAPACITY):
            untested = plan.resolved._replace(tests=())
            return CannotEvaluate(eligibility.failure(untested, self.inventory, device).detail)
        return None

    def _step(self, request: ResolvedRequest) -> NodeRequest:
        plans = [self._plan(option) for option in request.options if option.failure is None]
        return NodeRequest(request, plans)

    def _plan(self, resolved: ResolvedAlternative) -> NodeAlternative:
        plan = NodeAlternative(resolved)
        plan.slots = [Slot(plan.claim, plan.option, 0)]
        inventory = self.inventory
        if inventory.features.consumable_capacity:
            plan.demands, able = eligibility.capacity_demands(
                plan.option, inventory, inventory.everything
            )
            plan.selected, self._unanswered[plan] = able
        return plan

    def _disabled(self, plan: NodeAlternative) -> int:
        """Devices that a feature gate or the lack of a node's feature keeps away."""
        inventory = self.inventory
        tolerant = msgspec.structs.replace(plan.option, tolerations=_TOLERATES_ALL)
        disabled = eligibility.excluded_devices(tolerant, inventory) if inventory.suspects else 0
        if not pools.has_binding_conditions(inventory.features):
            disabled |= inventory.where(lambda each: bool(each.device.binding_conditions))
        return disabled

    def _tainted(self, plan: NodeAlternative) -> int:
        if not self.inventory.features.device_taints:
            return 0
        tainted = 0
        for device in self.inventory.members(self.inventory.suspects):
            if taints.first_untolerated(device.taints, plan.option.tolerations) is not None:
                tainted |= device.bit
        return tainted

    def _capacity(self, plan: NodeAlternative, check: Check | None) -> FilterResult:
        """Devices that are large enough, and of those the ones that have enough left."""
        able, unanswered = self.inventory.everything, 0
        if self.inventory.features.consumable_capacity:
            able, unanswered = plan.selected, self._unanswered[plan]
        if check is not None:
            able = check.filter_candidates(plan.slots[0], able, 1)
        return FilterResult(_FILTERS[FilterKind.CAPACITY], able, unanswered)

    def _narrow(self, kind: FilterKind, check: Check | None, plan: NodeAlternative) -> FilterResult:
        """Which devices a check would take, where it finds all of them as a set."""
        passing = self.inventory.everything
        if check is not None:
            passing = check.filter_candidates(plan.slots[0], passing, 1)
        return FilterResult(_FILTERS[kind], passing)

    def _ask(self, kind: FilterKind, check: Check | None, plan: NodeAlternative) -> FilterResult:
        """Which devices a check would take if nothing else were picked, one by one."""
        passing, failing = self.inventory.everything, 0
        if check is None:
            return FilterResult(_FILTERS[kind], passing)
        for device in self.inventory.members(passing & check.applies_to):
            found = _asked(check, plan.slots[0], device)
            if found is not None:
                passing ^= device.bit
            if isinstance(found, CannotEvaluate):
                failing |= device.bit
        return FilterResult(_FILTERS[kind], passing, failing)

    def _constraints_on(
        self, plan: NodeAlternative, claim: ResolvedClaim
    ) -> list[constraints.Constraint]:
        lists = self.inventory.features.list_type_attributes
        found = []
        for number, constraint in enumerate(claim.parsed.constraints):
            state = constraints.build(number, constraint, compares_lists=lists)
            if state is not None and constraints.applies_to(constraint, plan.option):
                found.append(state)
                plan.is_constrained = True
        return found

    def _value(self, option: Alternative, device: Candidate, attribute: str) -> Value | None:
        expression = option.derived.get(attribute)
        if expression is None:
            return self.inventory.value(device, attribute)
        return self._selectors.derived(expression).value(device, attribute)


_KIND_OF = {
    rejections.CheckName.USAGE: FilterKind.TAKEN,
    rejections.CheckName.BINDING_CONDITIONS: FilterKind.FEATURES,
    rejections.CheckName.CLASS_SELECTORS: FilterKind.CLASS,
    rejections.CheckName.REQUEST_SELECTORS: FilterKind.SELECTOR,
    rejections.CheckName.NODE_SELECTION: FilterKind.NODE,
    rejections.CheckName.CAPACITY: FilterKind.CAPACITY,
    rejections.CheckName.NODE_OPERATIONS: FilterKind.FEATURES,
    rejections.CheckName.GROUPS: FilterKind.GROUPS,
    rejections.CheckName.COUNTERS: FilterKind.COUNTERS,
    rejections.CheckName.TAINTS: FilterKind.TAINTS,
    rejections.CheckName.CONSTRAINTS: FilterKind.CONSTRAINTS,
}


def _is_of(rejection: rejections.DeviceRejection, device_filter: DeviceFilter) -> bool:
    if isinstance(rejection, rejections.SelectorNotMatched):
        place = (rejection.index, rejection.device_class or "")
        return device_filter.is_selector and place == (
            device_filter.index,
            device_filter.device_class,
        )
    if isinstance(rejection, rejections.CountersDisabled):
        return device_filter.kind is FilterKind.FEATURES
    return _KIND_OF[rejection.check] is device_filter.kind


def _asked(check: Check, slot: Slot, device: Candidate) -> FilterRejection | None:
    trail = Trail()
    try:
        return _in_order(check.take(slot, device, trail))
    except rejections.AllocationError as failure:
        return CannotEvaluate(failure.detail)
    finally:
        trail.unwind(0)


def _in_order(rejection: rejections.DeviceRejection | None) -> rejections.DeviceRejection | None:
    """The verdict with holders by name: the order in which they came says nothing."""
    holders = getattr(rejection, "holders", ())
    if rejection is None or not holders:
        return rejection
    return msgspec.structs.replace(rejection, holders=tuple(sorted(holders)))
