"""Claims meet a node: what each request could use there, before anything is picked.

What looks at a device alone has become a set of devices here; what depends on other picks is left
to the checks that `search` runs. Upstream evaluates "All" at once, in the order of the requests, so
failures come in that order (incubating/allocator_incubating.go Allocate, validateDeviceRequest).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from dray.allocator.checks import capacity, constraints
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.inventory.selectors import Selectors
from dray.allocator.model import rejections
from dray.allocator.model.attributes import Value
from dray.allocator.model.candidates import Candidate, Slot
from dray.allocator.model.requests import Alternative
from dray.allocator.problem import eligibility
from dray.allocator.problem.resolution import ResolvedAlternative, ResolvedClaim, ResolvedRequest
from dray.api.types.dra import ALLOCATION_RESULTS_MAX_SIZE


class NodeAlternative:
    """One option of a request on one node."""

    __slots__ = (
        "accepted",
        "claim",
        "count",
        "demands",
        "failing",
        "is_constrained",
        "option",
        "resolved",
        "selected",
        "slots",
        "wanted",
    )

    def __init__(self, resolved: ResolvedAlternative) -> None:
        self.resolved = resolved
        self.claim = resolved.claim
        self.option = resolved.option
        self.accepted = 0
        """Devices that pass every check which looks at a device alone."""
        self.selected = 0
        """Devices that pass those of them which may fail."""
        self.failing = 0
        """Devices on which a selector or a capacity fails once the search comes to them."""
        self.demands: eligibility.Demands = []
        self.wanted: Sequence[Candidate] | None = None
        """allocationMode All: these devices, no others."""
        self.count = max(self.option.count, 0)
        self.slots = resolved.slots
        self.is_constrained = False

    def demand(self, device: Candidate) -> capacity.Demand:
        """What the option takes of a device that it accepts, where the gate for shares is on."""
        for members, demand in self.demands:
            if members & device.bit:
                return demand
        raise LookupError(device.id)


class NodeRequest:
    """One request on one node: its options in order of preference."""

    __slots__ = ("claim", "is_prioritized", "name", "plans")

    def __init__(self, resolved: ResolvedRequest, plans: Sequence[NodeAlternative]) -> None:
        self.claim = resolved.claim
        self.name = resolved.request.name
        self.is_prioritized = resolved.request.is_prioritized
        self.plans = plans


class NodeProblem:
    """All claims of a pod on one node."""

    __slots__ = ("claims", "constraints", "inventory", "may_fail", "single", "steps")

    def __init__(
        self,
        inventory: NodeInventory,
        claims: Sequence[ResolvedClaim],
        steps: Sequence[NodeRequest],
    ) -> None:
        self.inventory = inventory
        self.claims = claims
        self.steps = steps
        self.constraints: constraints.Constraints | None = None
        self.single = _single_plan(steps)
        """The only option of the only request, if that asks for one device."""
        self.may_fail = False
        """The search may come upon a failure, so no branch of it may be left out."""

    def plans(self) -> Iterator[NodeAlternative]:
        for step in self.steps:
            yield from step.plans

    def demand(self, option: Alternative, device: Candidate) -> capacity.Demand:
        for plan in self.plans():
            if plan.option is option:
                return plan.demand(device)
        raise LookupError(option.name)

    def equivalence_key(self, device: Candidate) -> Hashable:
        """Equal for devices that no request and no check can tell apart by what they are."""
        bit = device.bit
        looks: list[Hashable] = [
            (bool(plan.selected & bit), bool(plan.accepted & bit)) for plan in self.plans()
        ]
        if self.constraints is not None:
            looks += [
                self.constraints.profile(plan.option, device)
                for plan in self.plans()
                if plan.accepted & bit
            ]
        if device.is_shareable:
            kinds = enumerate(self.inventory.capacities())
            looks.append(next(number for number, (_, members) in kinds if members & bit))
        if device.device.consumes_counters:
            looks += [device.section, device.need]
            looks += [
                (counter.counter_set, frozenset(counter.compatibility_groups))
                for counter in device.device.consumes_counters
            ]
        return tuple(looks)


def build(
    inventory: NodeInventory, claims: Sequence[ResolvedClaim], selectors: Selectors
) -> NodeProblem:
    """Raises Failure as upstream would before it picks the first device."""
    return _Builder(inventory, selectors).build(claims)


class _Builder:
    __slots__ = ("_features", "_inventory", "_selectors")

    def __init__(self, inventory: NodeInventory, selectors: Selectors) -> None:
        self._inventory = inventory
        self._features = inventory.features
        self._selectors = selectors

    def build(self, claims: Sequence[ResolvedClaim]) -> NodeProblem:
        steps: list[NodeRequest] = []
        applying: dict[Alternative, list[constraints.Constraint]] = {}
        for claim in claims:
            of_claim = [self._step(request) for request in claim.requests]
            _require_few_results(of_claim)
            _raise_if(claim.failure)
            if claim.parsed.constraints:
                self._apply_constraints(claim, of_claim, applying)
            steps += of_claim
        problem = NodeProblem(self._inventory, claims, steps)
        if applying:
            problem.constraints = constraints.Constraints(applying, self._value, self._value_masks)
        problem.may_fail = any(self._may_fail(plan, applying) for plan in problem.plans())
        return problem

    def _step(self, resolved: ResolvedRequest) -> NodeRequest:
        _raise_if(resolved.failure)
        return NodeRequest(resolved, [self._plan(option) for option in resolved.options])

    def _plan(self, resolved: ResolvedAlternative) -> NodeAlternative:
        _raise_if(resolved.failure)
        plan = NodeAlternative(resolved)
        selected, plan.failing = eligibility.selected_devices(resolved, self._inventory)
        if self._features.consumable_capacity:
            plan.demands, able = eligibility.capacity_demands(
                plan.option, self._inventory, selected
            )
            selected &= able.accepted
            plan.failing |= able.failing
        plan.selected = selected
        plan.accepted = selected & ~eligibility.excluded_devices(plan.option, self._inventory)
        if plan.option.is_all:
            self._want_all(plan)
        return plan

    def _want_all(self, plan: NodeAlternative) -> None:
        plan.wanted = list(self._all_devices(plan))
        plan.count = len(plan.wanted)
        slots = range(min(plan.count, ALLOCATION_RESULTS_MAX_SIZE))
        plan.slots = [Slot(plan.claim, plan.option, ordinal) for ordinal in slots]

    def _all_devices(self, plan: NodeAlternative) -> Iterator[Candidate]:
        """Upstream goes from pool to pool, so a pool that fails hides what comes after it."""
        of_section: dict[int, list[Candidate]] = {}
        for device in self._inventory.members(plan.selected | plan.failing):
            of_section.setdefault(device.section, []).append(device)
        section = -1
        for pool in self._inventory.pools:
            if not pool.is_usable:
                state = "being updated" if pool.is_incomplete else "invalid"
                raise rejections.AllocationError(
                    f"asks for all devices, but resource pool {pool.id} is currently {state}",
                    claim=plan.claim,
                    request=f"request {plan.option.own_name}",
                )
            section += 1
            for device in of_section.get(section, ()):
                if plan.failing & device.bit:
                    raise eligibility.failure(plan.resolved, self._inventory, device)
                yield device

    def _apply_constraints(
        self,
        claim: ResolvedClaim,
        steps: Sequence[NodeRequest],
        applying: dict[Alternative, list[constraints.Constraint]],
    ) -> None:
        lists = self._features.list_type_attributes
        for number, constraint in enumerate(claim.parsed.constraints):
            state = constraints.build(number, constraint, compares_lists=lists)
            assert state is not None, "one of unknown kind is a failure of the claim"
            for step in steps:
                for plan in step.plans:
                    if constraints.applies_to(constraint, plan.option):
                        applying.setdefault(plan.option, []).append(state)
                        plan.is_constrained = True

    def _may_fail(
        self,
        plan: NodeAlternative,
        applying: Mapping[Alternative, Sequence[constraints.Constraint]],
    ) -> bool:
        if plan.wanted is not None:
            # A constraint that keeps one of all devices away is a failure, not a no.
            return plan.is_constrained
        if plan.failing:
            return True
        if not (plan.is_constrained and plan.option.derived):
            return False
        return any(
            self._fails_to_derive(plan, state.attribute)
            for state in applying[plan.option]
            if state.attribute in plan.option.derived
        )

    def _fails_to_derive(self, plan: NodeAlternative, attribute: str) -> bool:
        try:
            for device in self._inventory.members(plan.accepted):
                self._value(plan.option, device, attribute)
        except rejections.AllocationError:
            return True
        return False

    def _value(self, option: Alternative, device: Candidate, attribute: str) -> Value | None:
        expression = option.derived.get(attribute)
        if expression is None:
            return self._inventory.value(device, attribute)
        return self._selectors.derived(expression).value(device, attribute)

    def _value_masks(self, option: Alternative, attribute: str) -> Mapping[Value, int] | None:
        if attribute in option.derived or self._features.list_type_attributes:
            return None
        return self._inventory.value_masks(attribute)


def _single_plan(steps: Sequence[NodeRequest]) -> NodeAlternative | None:
    if len(steps) != 1 or len(steps[0].plans) != 1:
        return None
    (plan,) = steps[0].plans
    return plan if plan.count == 1 and plan.wanted is None else None


def _raise_if(failure: rejections.AllocationError | None) -> None:
    if failure is not None:
        raise failure.with_traceback(None)


def _require_few_results(steps: Sequence[NodeRequest]) -> None:
    needed = sum([min([plan.count for plan in step.plans]) for step in steps])
    if needed > ALLOCATION_RESULTS_MAX_SIZE:
        raise rejections.AllocationError(
            f"number of requested devices {needed} exceeds the claim limit of "
            f"{ALLOCATION_RESULTS_MAX_SIZE}",
            claim=steps[0].claim,
        )
