"""The search problem of one node: what each request could use there, before anything is picked.

The checks that look at a device alone are done here and become sets of devices; those that depend
on other picks are left to the search. An alternative does them when a search comes to it: of a
prioritized list, most nodes need the first few. Upstream evaluates allocationMode All before the
search, in the order of the requests, so errors come in that order
(incubating/allocator_incubating.go Allocate, validateDeviceRequest).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from dray.allocator.checks import capacity, constraints
from dray.allocator.inventory.node_classes import FoundDevices
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.inventory.selectors import Selectors
from dray.allocator.model import rejections
from dray.allocator.model.attributes import Value
from dray.allocator.model.candidates import Candidate, slots_for
from dray.allocator.model.requests import Alternative
from dray.allocator.problem import eligibility
from dray.allocator.problem.resolution import ResolvedAlternative, ResolvedClaim, ResolvedRequest
from dray.api.types.dra import ALLOCATION_RESULTS_MAX_SIZE


class NodeAlternative:
    """One alternative of a request on one node.

    Its devices are found when one of `eligible`, `selected`, `failing` and `demands` is first read.
    """

    __slots__ = (
        "_found",
        "_inventory",
        "_is_new",
        "all_mode_devices",
        "claim",
        "count",
        "is_constrained",
        "parsed",
        "resolved",
        "slots",
    )

    def __init__(self, resolved: ResolvedAlternative, inventory: NodeInventory) -> None:
        parsed = resolved.parsed
        self._inventory = inventory
        self._is_new = True
        self._found: FoundDevices | None = None
        self.resolved = resolved
        self.claim = resolved.claim
        self.parsed = parsed
        self.all_mode_devices: Sequence[Candidate] | None = None
        """allocationMode All: exactly these devices."""
        self.count = parsed.count if parsed.count > 0 else 0
        self.slots = resolved.slots
        self.is_constrained = False

    # Properties and not `__getattr__`, which makes all attributes slow.

    @property
    def eligible(self) -> int:
        """The devices that pass every check that looks at a device alone."""
        return (self._found or self._find_devices()).eligible

    @property
    def selected(self) -> int:
        """The devices that pass those of these checks whose evaluation may raise an error."""
        return (self._found or self._find_devices()).selected

    @property
    def failing(self) -> int:
        """The devices on which a selector or a capacity raises an error when they are visited."""
        return (self._found or self._find_devices()).failing

    @property
    def demands(self) -> eligibility.Demands:
        return (self._found or self._find_devices()).demands

    def looks_first(self) -> bool:
        """Return True once, the first time, if the devices have not been found by then."""
        is_first, self._is_new = self._is_new, False
        return is_first

    def set_devices(self, found: FoundDevices) -> None:
        """Use these devices instead of finding them."""
        self._found = found

    def _find_devices(self) -> FoundDevices:
        self._is_new = False
        # What is asked for, the features and the devices decide: nodes of a class agree. The
        # demands belong to one resolved alternative, so they stand for it.
        found = self._inventory.found_for(self.resolved.demands, self._find)
        self._found = found
        return found

    def _find(self) -> FoundDevices:
        inventory = self._inventory
        selected, failing = eligibility.selected_devices(self.resolved, inventory)
        demands: eligibility.Demands = []
        if inventory.features.consumable_capacity:
            demands, able = eligibility.capacity_demands(self.resolved, inventory, selected)
            selected &= able.matching
            failing |= able.failing
        excluded = eligibility.excluded_devices(self.parsed, inventory)
        return FoundDevices(selected & ~excluded, selected, failing, demands)

    def demand(self, device: Candidate) -> capacity.Demand:
        """Return what the alternative takes of an eligible device; needs DRAConsumableCapacity."""
        for members, demand in self.demands:
            if members & device.bit:
                return demand
        raise LookupError(device.id)


class NodeRequest:
    """One request on one node: its alternatives in order of preference."""

    __slots__ = ("alternatives", "claim", "is_prioritized", "name")

    def __init__(self, resolved: ResolvedRequest, alternatives: Sequence[NodeAlternative]) -> None:
        self.claim = resolved.claim
        self.name = resolved.request.name
        self.is_prioritized = resolved.request.is_prioritized
        self.alternatives = alternatives


class NodeProblem:
    """All claims of a pod on one node."""

    __slots__ = (
        "_by_parsed",
        "_find_may_fail",
        "_may_fail",
        "claims",
        "constraints",
        "inventory",
        "requests",
        "single_alternative",
    )

    def __init__(
        self,
        inventory: NodeInventory,
        claims: Sequence[ResolvedClaim],
        requests: Sequence[NodeRequest],
        find_may_fail: Callable[[], bool] = lambda: False,
    ) -> None:
        self.inventory = inventory
        self.claims = claims
        self.requests = requests
        self.constraints: constraints.Constraints | None = None
        self.single_alternative = _single_alternative(requests)
        """The only alternative of the only request, if it needs one device; else None."""
        self._by_parsed: dict[Alternative, NodeAlternative] | None = None
        self._may_fail: bool | None = None
        self._find_may_fail = find_may_fail

    @property
    def may_fail(self) -> bool:
        """Whether a search may visit a device that raises an error: no branch may be left out."""
        if self._may_fail is None:
            self._may_fail = self._find_may_fail()
        return self._may_fail

    def alternatives(self) -> Iterator[NodeAlternative]:
        for request in self.requests:
            yield from request.alternatives

    def demand(self, parsed: Alternative, device: Candidate) -> capacity.Demand:
        if self._by_parsed is None:
            self._by_parsed = {found.parsed: found for found in self.alternatives()}
        return self._by_parsed[parsed].demand(device)

    def equivalence_key(self, device: Candidate) -> Hashable:
        """Return a key that is equal for devices that no request and no check can tell apart.

        The picks so far are not in it; `CheckSequence.state_keys` adds them.
        """
        bit = device.bit
        key: list[Hashable] = [
            (bool(alternative.selected & bit), bool(alternative.eligible & bit))
            for alternative in self.alternatives()
        ]
        if self.constraints is not None:
            key += [
                self.constraints.constrained_values(alternative.parsed, device)
                for alternative in self.alternatives()
                if alternative.eligible & bit
            ]
        if device.is_shareable:
            kinds = enumerate(self.inventory.capacities())
            key.append(next(number for number, (_, members) in kinds if members & bit))
        if device.device.consumes_counters:
            key += [device.pool_index, device.need]
            key += [
                (counter.counter_set, frozenset(counter.compatibility_groups))
                for counter in device.device.consumes_counters
            ]
        return tuple(key)


def build(
    inventory: NodeInventory, claims: Sequence[ResolvedClaim], selectors: Selectors
) -> NodeProblem:
    """Build the search problem of one node.

    Raises AllocationError for the first invalid request, in request order.
    """
    return _Builder(inventory, selectors).build(claims)


def constraint_states(
    claim: ResolvedClaim, requests: Sequence[NodeRequest], *, compares_lists: bool
) -> dict[Alternative, list[constraints.Constraint]]:
    """Return the constraints on each alternative of a claim; mark these alternatives."""
    applying: dict[Alternative, list[constraints.Constraint]] = {}
    for number, constraint in enumerate(claim.parsed.constraints):
        state = constraints.build(number, constraint, compares_lists=compares_lists)
        for request in requests:
            for alternative in request.alternatives:
                if state and constraints.applies_to(constraint, alternative.parsed):
                    applying.setdefault(alternative.parsed, []).append(state)
                    alternative.is_constrained = True
    return applying


def value_reader(inventory: NodeInventory, selectors: Selectors) -> constraints.ValueOf:
    """Return the function that reads attributes on a node, derived ones by their expression."""

    def value_of(parsed: Alternative, device: Candidate, attribute: str) -> Value | None:
        expression = parsed.derived.get(attribute)
        if expression is None:
            return inventory.value(device, attribute)
        return selectors.derived(expression).value(device, attribute)

    return value_of


class _Builder:
    __slots__ = ("_features", "_inventory", "_selectors", "_value_of")

    def __init__(self, inventory: NodeInventory, selectors: Selectors) -> None:
        self._inventory = inventory
        self._features = inventory.features
        self._selectors = selectors
        self._value_of: constraints.ValueOf | None = None

    def build(self, claims: Sequence[ResolvedClaim]) -> NodeProblem:
        requests: list[NodeRequest] = []
        applying: dict[Alternative, list[constraints.Constraint]] = {}
        for claim in claims:
            of_claim = [self._request(request) for request in claim.requests]
            if not claim.has_few_devices:
                _require_few_results(of_claim)
            if claim.failure is not None:
                raise claim.failure.with_traceback(None)
            if claim.parsed.constraints:
                lists = self._features.list_type_attributes
                applying |= constraint_states(claim, of_claim, compares_lists=lists)
            requests += of_claim
        problem = NodeProblem(
            self._inventory, claims, requests, lambda: self._may_fail_at_all(requests, applying)
        )
        if applying:
            self._value_of = value_reader(self._inventory, self._selectors)
            problem.constraints = constraints.Constraints(
                applying, self._value_of, self._value_masks
            )
        return problem

    def _request(self, resolved: ResolvedRequest) -> NodeRequest:
        if resolved.failure is not None:
            raise resolved.failure.with_traceback(None)
        alternatives = [self._alternative(parsed) for parsed in resolved.alternatives]
        return NodeRequest(resolved, alternatives)

    def _alternative(self, resolved: ResolvedAlternative) -> NodeAlternative:
        if resolved.failure is not None:
            raise resolved.failure.with_traceback(None)
        alternative = NodeAlternative(resolved, self._inventory)
        if not resolved.slots and alternative.parsed.is_all:
            self._set_all_mode_devices(alternative)
        return alternative

    def _set_all_mode_devices(self, alternative: NodeAlternative) -> None:
        alternative.all_mode_devices = list(self._all_devices(alternative))
        alternative.count = len(alternative.all_mode_devices)
        alternative.slots = slots_for(alternative.claim, alternative.parsed, alternative.count)

    def _all_devices(self, alternative: NodeAlternative) -> Iterator[Candidate]:
        """Yield the devices for allocationMode All.

        Upstream goes from pool to pool, so an unusable pool is reported before errors on devices
        of later pools, and after those of earlier ones.
        """
        by_pool: dict[int, list[Candidate]] = {}
        for device in self._inventory.members(alternative.selected | alternative.failing):
            by_pool.setdefault(device.pool_index, []).append(device)
        pool_index = -1
        for pool in self._inventory.pools:
            if not pool.is_usable:
                state = "being updated" if pool.is_incomplete else "invalid"
                raise rejections.AllocationError(
                    f"asks for all devices, but resource pool {pool.id} is currently {state}",
                    claim=alternative.claim,
                    request=f"request {alternative.parsed.own_name}",
                )
            pool_index += 1
            for device in by_pool.get(pool_index, ()):
                if alternative.failing & device.bit:
                    raise eligibility.failure(alternative.resolved, self._inventory, device)
                yield device

    def _may_fail_at_all(
        self,
        requests: Sequence[NodeRequest],
        applying: Mapping[Alternative, Sequence[constraints.Constraint]],
    ) -> bool:
        return any(
            self._may_fail(alternative, applying)
            for request in requests
            for alternative in request.alternatives
        )

    def _may_fail(
        self,
        alternative: NodeAlternative,
        applying: Mapping[Alternative, Sequence[constraints.Constraint]],
    ) -> bool:
        if alternative.all_mode_devices is not None:
            # A constraint that excludes one of all devices is an error, not a rejection.
            return alternative.is_constrained
        if alternative.failing:
            return True
        if not (alternative.is_constrained and alternative.parsed.derived):
            return False
        return any(
            self._fails_to_derive(alternative, state.attribute)
            for state in applying[alternative.parsed]
            if state.attribute in alternative.parsed.derived
        )

    def _fails_to_derive(self, alternative: NodeAlternative, attribute: str) -> bool:
        value_of = self._value_of
        assert value_of is not None, "only constraints read values"
        try:
            for device in self._inventory.members(alternative.eligible):
                value_of(alternative.parsed, device, attribute)
        except rejections.AllocationError:
            return True
        return False

    def _value_masks(self, parsed: Alternative, attribute: str) -> Mapping[Value, int] | None:
        if attribute in parsed.derived or self._features.list_type_attributes:
            return None
        return self._inventory.value_masks(attribute)


def _single_alternative(requests: Sequence[NodeRequest]) -> NodeAlternative | None:
    if len(requests) != 1 or len(requests[0].alternatives) != 1:
        return None
    (alternative,) = requests[0].alternatives
    return alternative if alternative.count == 1 and alternative.all_mode_devices is None else None


def _require_few_results(requests: Sequence[NodeRequest]) -> None:
    counts = [[alternative.count for alternative in request.alternatives] for request in requests]
    needed = sum(map(min, counts))
    if needed > ALLOCATION_RESULTS_MAX_SIZE:
        raise rejections.AllocationError(
            f"number of requested devices {needed} exceeds the claim limit of "
            f"{ALLOCATION_RESULTS_MAX_SIZE}",
            claim=requests[0].claim,
        )
