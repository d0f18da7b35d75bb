"""Count the copies of a pod that still fit, and find what limits their number.

They are placed one after the other, as the scheduler would do it, until the next one does not fit.
Quotas are not considered: they belong to namespaces.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model import requests
from dray.allocator.model.rejections import AllocationError, Rejection
from dray.allocator.placement import Allocator, NoFit
from dray.allocator.problem.node_problem import NodeAlternative, NodeProblem
from dray.api.ids import ClaimKey
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.scheduling import steps
from dray.scheduling.claims import device_fit
from dray.scheduling.claims.assignments import NodeAssignment, NodeFit
from dray.scheduling.claims.device_fit import DeviceMatcher, SearchFailed
from dray.scheduling.claims.pod_demand import DemandResolver, PodDemand
from dray.scheduling.decision import Decider
from dray.scheduling.nodes import node_fit, pod_requirements
from dray.scheduling.nodes.node_fit import NodeState, ReasonKind, Reasons
from dray.scheduling.pod_copies import PodCopies
from dray.scheduling.state import SchedulingState
from dray.scheduling.unschedulable import Unschedulable

__all__ = ["FitCount", "NodeCounter", "NodeFitCount", "count", "count_by_node", "room_on"]


_CACHED_KEYS = 4096


class NodeFitCount(NamedTuple):
    """The number of copies that fit on a node, and why the next one does not."""

    pods: int
    reasons: Reasons = ()
    """Every check that the next one does not pass; empty if that was not looked for."""
    rejection: Rejection | None = None
    """What the allocator says, if devices are among the reasons."""


class FitCount(NamedTuple):
    """The number of copies that fit."""

    pods: int
    is_complete: bool = True
    """Whether every node was counted; otherwise there may be more."""
    last: Unschedulable | None = None
    """The decision about the copy that does not fit, if the nodes do not say it."""
    by_node: Mapping[str, NodeFitCount] = {}
    """Every node, if that was asked for."""

    @property
    def error(self) -> str:
        """Return why the scheduler cannot decide about the next copy; empty if it can."""
        return self.last.error if self.last else ""

    def __str__(self) -> str:
        return str(self.pods) if self.is_complete else f"{self.pods}+"


def _never() -> bool:
    return False


def count(
    state: SchedulingState, copies: PodCopies, should_stop: Callable[[], bool] = _never
) -> FitCount:
    """Return how many copies of a pod fit.

    When `should_stop` returns True, the nodes that are left are not counted. The state is the same
    afterwards.
    """
    return _counted(NodeCounter(state, copies, should_stop))


def count_by_node(
    state: SchedulingState, copies: PodCopies, should_stop: Callable[[], bool] = _never
) -> FitCount:
    """Return the same with the number on each node, and what limits it."""
    return _counted(NodeCounter(state, copies, should_stop, wants_reasons=True))


def _counted(counter: NodeCounter) -> FitCount:
    try:
        return counter.run()
    finally:
        counter.release_all()


class _OrderMatters(Exception):
    """The count depends on the order in which nodes are chosen."""


class NodeCounter:
    """Counts node by node, which is right unless one node's count depends on that of others.

    It does where nodes share devices, where a selector fails, and where the pod has rules about
    other pods. Then the scheduling decision places copies until one does not fit.
    """

    def __init__(
        self,
        state: SchedulingState,
        copies: PodCopies,
        should_stop: Callable[[], bool] = _never,
        *,
        wants_reasons: bool = False,
    ) -> None:
        self._state, self._copies, self._should_stop = state, copies, should_stop
        self._wants_reasons = wants_reasons
        self._allocator = Allocator(
            state.inventory, new_share_id=state.new_share_id, should_stop=should_stop
        )
        self._matcher = DeviceMatcher(
            state.inventory, state.classes, state.features, self._allocator
        )
        self._found: PodDemand | None = None
        self._held: list[ClaimKey] = []
        self._by_key: dict[Hashable, NodeFitCount] = {}

    def run(self) -> FitCount:
        """Count all nodes. `release_all` has to follow."""
        by_node: dict[str, NodeFitCount] = {}
        try:
            if self._depends_on_pods():
                raise _OrderMatters
            for node in self._state.nodes:
                if self._should_stop():
                    return _sum(by_node, is_complete=False)
                counted = self._on_node(node)
                if counted.pods or self._wants_reasons:
                    by_node[node.name] = counted
        except steps.Stopped:
            return _sum(by_node, is_complete=False)
        except (AllocationError, SearchFailed, _OrderMatters):
            self.release_all()
            return self._decided()
        return _sum(by_node)

    def alone_on(self, node: NodeState) -> int | None:
        """Return how many copies fit on a node; None if that depends on what other nodes get."""
        before = len(self._held)
        try:
            return self._on_node(node, alone=True).pods
        except (AllocationError, SearchFailed, _OrderMatters):
            self._release(before)
            return None

    def release_all(self) -> None:
        self._release(0)

    @property
    def _demand(self) -> PodDemand:
        """Return what one copy needs. Raises _OrderMatters if that cannot be said."""
        if self._found is None:
            state = self._state
            pod, claims = self._copies.copy(0)
            for claim in claims:
                state.claims.put(claim)
            resolver = DemandResolver(state.inventory, state.claims, state.classes, state.features)
            demand = resolver.demand_of(pod, state.group_of(pod), _NOW)
            for claim in claims:
                state.claims.drop(claim.key)
            if isinstance(demand, Unschedulable):
                raise _OrderMatters
            self._found = demand
        return self._found

    def _depends_on_pods(self) -> bool:
        """Return whether other pods decide, or the owner of the pod, where it may run."""
        demand = self._demand
        pod = demand.pod
        return bool(
            pod.spec.scheduling_gates
            or self._state.group_of(pod)
            or self._state.affinity.checks_for(pod, demand.requirements)
        )

    def _on_node(self, node: NodeState, alone: bool = False) -> NodeFitCount:
        demand = self._demand
        rooms = node_fit.rooms_for(node, demand.requirements, demand.extended.__contains__)
        room = min(rooms.values())
        if not room and not (self._wants_reasons and _may_run(rooms)):
            return NodeFitCount(0, tuple(rooms) if self._wants_reasons else ())
        devices = self._devices_on(node, room, alone)
        pods = min(room, devices.pods)
        if not self._wants_reasons:
            return NodeFitCount(pods)
        of_node = tuple(reason for reason, admitted in rooms.items() if admitted == pods)
        if devices.pods > pods:
            return NodeFitCount(pods, of_node)
        return NodeFitCount(pods, (*of_node, *devices.reasons), devices.rejection)

    def _devices_on(self, node: NodeState, room: int, alone: bool) -> NodeFitCount:
        """Return for how many copies a node has devices, and what limits that.

        Not more than there is room for are counted, and one more if the reasons are wanted.
        """
        demand = self._demand
        most = room + self._wants_reasons
        if not all(self._matcher.is_usable(demand, claim, node) for claim in demand.allocated):
            return NodeFitCount(0, (device_fit.NOT_AVAILABLE,))
        claims, _ = self._matcher.claims_on(demand, node)
        if not claims:
            return NodeFitCount(most)
        try:
            problem = self._allocator.problem(claims, node.name)
        except AllocationError as error:
            if error.on_node_only:
                return NodeFitCount(0, (device_fit.CANNOT_ALLOCATE,))
            raise
        if problem.may_fail:
            raise _OrderMatters
        inventory = problem.inventory
        wanted = _wanted(problem)
        free = wanted & ~inventory.taken
        single = _single(problem)
        is_special = bool(wanted & (inventory.partitions | inventory.shareable))
        if not _is_local(inventory, wanted):
            if alone or single is None or single.count > 1 or is_special:
                raise _OrderMatters
            if room < free.bit_count():
                raise _OrderMatters
            return self._placed_on(node, claims, room)
        if single is None or is_special:
            return self._tried_on(node, claims, problem, most)
        pods = min(most, free.bit_count() // single.count)
        return NodeFitCount(pods, () if pods == most else (device_fit.CANNOT_ALLOCATE,))

    def _tried_on(
        self, node: NodeState, claims: Sequence[ResourceClaim], problem: NodeProblem, most: int
    ) -> NodeFitCount:
        """Place copies on a node to count them, once for nodes that are equal to the claims.

        What is placed on other nodes does not matter here, nor this there.
        """
        key = (requests.signature(claims), *_key(problem))
        if not _wanted(problem) & problem.inventory.shareable and not _has_admin_access(problem):
            # Every copy takes a device, so the room of the node matters only below their number.
            most = min(most, _wanted(problem).bit_count() + 1)
        found = self._by_key.get((most, *key))
        if found is None or problem.inventory.features.device_compatibility_groups:
            before = len(self._held)
            found = self._placed_on(node, claims, most)
            self._release(before)
            if len(self._by_key) >= _CACHED_KEYS:
                self._by_key.clear()
            self._by_key[most, *key] = found
        return found

    def _placed_on(
        self, node: NodeState, claims: Sequence[ResourceClaim], most: int
    ) -> NodeFitCount:
        for number in range(most):
            search = self._matcher.fit_on(self._demand, node)
            fit = steps.run(search, self._should_stop)
            if not isinstance(fit, NodeFit):
                return NodeFitCount(number, fit, self._rejection(node, claims))
            if fit.node_resources:
                # The devices use what other pods need of the node as well.
                raise _OrderMatters
            if not self._hold(node, number, fit):
                break
        return NodeFitCount(most)

    def _hold(self, node: NodeState, number: int, fit: NodeFit) -> bool:
        """Hold the devices of a copy. Returns whether that changed what others can get."""
        inventory = self._state.inventory
        entry = inventory.nodes[node.name]
        before = inventory.inventory(entry).version
        for position, assigned in enumerate(fit.claims):
            if assigned.allocation is not None:
                key = ClaimKey("", f"{node.name}/{number}/{position}")
                inventory.record_allocation(key, assigned.allocation)
                self._held.append(key)
        return inventory.inventory(entry).version != before

    def _rejection(self, node: NodeState, claims: Sequence[ResourceClaim]) -> Rejection | None:
        if not self._wants_reasons:
            return None
        try:
            result = self._allocator.allocate_on(claims, node.name)
        except AllocationError:
            return None
        return result.reason if isinstance(result, NoFit) else None

    def _release(self, start: int) -> None:
        for key in self._held[start:]:
            self._state.inventory.release(key)
        del self._held[start:]

    def _decided(self) -> FitCount:
        """Let the scheduling decision place copies until one does not fit."""
        state = self._state
        decider = Decider(state, should_stop=self._should_stop)
        placed: list[tuple[NodeAssignment, list[ResourceClaim]]] = []
        last: Unschedulable | None = None
        try:
            while last is None and not self._should_stop():
                pod, claims = self._copies.copy(len(placed))
                for claim in claims:
                    state.put(claim)
                (decision,) = decider.decide([pod], _NOW)
                if isinstance(decision, NodeAssignment):
                    placed.append((decision, claims))
                else:
                    last = decision
                    _drop(state, pod, claims)
            is_complete = last is not None and not last.is_retried
            by_node = Counter(assignment.node for assignment, _ in placed)
            return FitCount(len(placed), is_complete, last, self._by_node(by_node))
        finally:
            for assignment, claims in placed:
                state.release(assignment)
                _drop(state, assignment.pod, claims)

    def _by_node(self, placed: Mapping[str, int]) -> dict[str, NodeFitCount]:
        """Return for every node how many copies it got, and why it gets no other."""
        if not self._wants_reasons:
            return {}
        try:
            demand = self._demand
            affinity = self._state.affinity.checks_for(demand.pod, demand.requirements)
            return {
                node.name: NodeFitCount(
                    placed.get(node.name, 0), *self._reasons_now(demand, node, affinity)
                )
                for node in self._state.nodes
            }
        except (AllocationError, SearchFailed, _OrderMatters, steps.Stopped):
            # The decision about the last copy says what is wrong.
            return {name: NodeFitCount(pods) for name, pods in placed.items()}

    def _reasons_now(
        self,
        demand: PodDemand,
        node: NodeState,
        affinity: Callable[[NodeState], Reasons] | None,
    ) -> tuple[Reasons, Rejection | None]:
        rooms = node_fit.rooms_for(node, demand.requirements, demand.extended.__contains__)
        reasons = tuple(reason for reason, room in rooms.items() if not room)
        if not _may_run(rooms):
            return reasons, None
        reasons += affinity(node) if affinity else ()
        fit = steps.run(self._matcher.fit_on(demand, node), self._should_stop)
        if isinstance(fit, NodeFit):
            return reasons, None
        claims, _ = self._matcher.claims_on(demand, node)
        of_devices = any(reason.kind is ReasonKind.DEVICES for reason in fit)
        return (*reasons, *fit), self._rejection(node, claims) if of_devices else None


def _sum(by_node: Mapping[str, NodeFitCount], is_complete: bool = True) -> FitCount:
    pods = sum(counted.pods for counted in by_node.values())
    return FitCount(pods, is_complete, by_node=by_node)


def _drop(state: SchedulingState, pod: Pod, claims: Sequence[ResourceClaim]) -> None:
    state.drop_pod(pod.metadata.key)
    for claim in claims:
        state.claims.drop(claim.key)


_NOW = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
"""Any time will do: the claims have no allocation that could have expired."""


def room_on(node: NodeState) -> int:
    """Return for how many pods without other requirements a node has room."""
    return min(node_fit.rooms_for(node, _NOTHING, lambda _: False).values())


_NOTHING = pod_requirements.requirements_of(Pod())


def _may_run(rooms: node_fit.Rooms) -> bool:
    """Return whether nothing but what is in use keeps pods from a node."""
    return not any(reason.kind is ReasonKind.NODE for reason in rooms)


def _wanted(problem: NodeProblem) -> int:
    """Return the devices that any request could get, whoever holds them."""
    wanted = 0
    for alternative in problem.alternatives():
        is_all = alternative.all_mode_devices is not None
        wanted |= alternative.selected if is_all else alternative.eligible
    return wanted


def _single(problem: NodeProblem) -> NodeAlternative | None:
    """Return the only request, if it takes any free devices that it can get; else None."""
    alternatives = list(problem.alternatives())
    if len(alternatives) != 1:
        return None
    (alternative,) = alternatives
    is_plain = (
        alternative.count > 0
        and alternative.all_mode_devices is None
        and not alternative.is_constrained
        and not alternative.parsed.admin_access
    )
    return alternative if is_plain else None


def _has_admin_access(problem: NodeProblem) -> bool:
    return any(alternative.parsed.admin_access for alternative in problem.alternatives())


def _is_local(inventory: NodeInventory, devices: int) -> bool:
    """Return whether no other node can use these devices of a node or their counters."""
    indexes = {device.pool_index for device in inventory.members(devices)}
    pools = [inventory.node_pools[index].pool for index in indexes]
    return all(
        not pool.slices_elsewhere
        and all(resource_slice.spec.node_name for resource_slice in pool.slices)
        for pool in pools
    )


def _key(problem: NodeProblem) -> Iterator[Hashable]:
    """Yield a key that is equal for nodes on which the same number of copies fits."""
    inventory = problem.inventory
    wanted = _wanted(problem)
    yield wanted
    yield inventory.taken & wanted
    yield inventory.shared
    for node_pool in inventory.node_pools:
        yield (node_pool.counters.left, node_pool.counters.guards) if node_pool.counters else None
    for device in inventory.members(wanted):
        holders = inventory.device_holders(device)
        capacity = sorted(device.device.capacity.items()) if device.is_shareable else ()
        consumed = sorted(holders.capacity.items()) if holders else ()
        yield problem.equivalence_key(device)
        yield device.pool_index, device.need, tuple(map(str, capacity)), tuple(consumed)
