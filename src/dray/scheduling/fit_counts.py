"""Count the copies of a pod that still fit, and find what limits their number.

They are placed one after the other, as the scheduler would do it, until the next one does not fit.
Quotas are not considered: they belong to namespaces.
"""

from __future__ import annotations

import datetime
import functools
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.model.rejections import AllocationError, Rejection
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.scheduling import steps
from dray.scheduling.claims.assignments import NodeAssignment, NodeFit
from dray.scheduling.claims.device_fit import SearchFailed
from dray.scheduling.claims.pod_demand import DemandResolver, PodDemand
from dray.scheduling.decision import Decider
from dray.scheduling.device_room import DeviceCounter, OrderMatters
from dray.scheduling.nodes import node_fit, pod_requirements
from dray.scheduling.nodes.node_fit import FilterReason, NodeState, ReasonKind, Reasons
from dray.scheduling.pod_copies import PodCopies
from dray.scheduling.state import SchedulingState
from dray.scheduling.unschedulable import Unschedulable

__all__ = ["FitCount", "NodeCounter", "NodeFitCount", "count", "count_by_node", "room_on"]


SELECTOR_FAILS = FilterReason("a selector fails on devices of the node", ReasonKind.DEVICES)


class NodeFitCount(NamedTuple):
    """The number of copies that fit on a node, and why the next one does not."""

    pods: int
    reasons: Reasons = ()
    """Every check that the next one does not pass; empty if that was not looked for."""
    rejection: Rejection | None = None
    """What the allocator says, if devices are among the reasons."""
    devices: int = 0
    """The devices that they get, as a set of the node's inventory, if reasons are looked for."""


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
        self._devices = DeviceCounter(state, should_stop, wants_reasons)
        self._found: PodDemand | None = None

    def run(self) -> FitCount:
        """Count all nodes. `release_all` has to follow."""
        by_node: dict[str, NodeFitCount] = {}
        try:
            if self._depends_on_pods():
                raise OrderMatters
            for node in self._state.nodes:
                if self._should_stop():
                    return _sum(by_node, is_complete=False)
                counted = self._on_node(node)
                if counted.pods or self._wants_reasons:
                    by_node[node.name] = counted
        except steps.Stopped:
            return _sum(by_node, is_complete=False)
        except (AllocationError, SearchFailed, OrderMatters) as error:
            if isinstance(error, SearchFailed) and error.is_retriable:
                return _sum(by_node, is_complete=False)
            self.release_all()
            return self._decided()
        return _sum(by_node)

    def alone_on(self, node: NodeState) -> NodeFitCount | None:
        """Return how many copies fit on a node; None if that depends on what other nodes get."""
        before = self._devices.held
        try:
            return self._on_node(node, alone=True)
        except (AllocationError, SearchFailed, OrderMatters):
            self._devices.release(before)
            return None

    def release_all(self) -> None:
        self._devices.release()

    @property
    def _demand(self) -> PodDemand:
        """Return what one copy needs. Raises OrderMatters if that cannot be said."""
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
                raise OrderMatters
            self._found = demand
        return self._found

    def _depends_on_pods(self) -> bool:
        """Return whether other pods decide, or the owner of the pod, where it may run."""
        demand = self._demand
        pod = demand.pod
        own = {claim.key for claim in self._copies.copy(0)[1]}
        return bool(
            pod.spec.scheduling_gates
            or any(claim.key not in own for claim in demand.claims)
            or self._state.group_of(pod)
            or self._state.affinity.checks_for(pod, demand.requirements)
        )

    def _on_node(self, node: NodeState, alone: bool = False) -> NodeFitCount:
        demand = self._demand
        rooms = node_fit.rooms_for(node, demand.requirements, demand.extended.__contains__)
        room = min(rooms.values())
        if not room and not (self._wants_reasons and _may_run(rooms)):
            return NodeFitCount(0, tuple(rooms) if self._wants_reasons else ())
        devices = self._devices.count_on(demand, node, room, alone=alone)
        pods = min(room, devices.pods)
        if not self._wants_reasons:
            return NodeFitCount(pods)
        reasons = tuple(reason for reason, admitted in rooms.items() if admitted == pods)
        taken = functools.reduce(operator.or_, devices.taken[:pods], 0)
        if devices.pods > pods:
            return NodeFitCount(pods, reasons, devices=taken)
        return NodeFitCount(pods, (*reasons, *devices.reasons), devices.rejection, taken)

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
        except (OrderMatters, steps.Stopped):
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
        try:
            fit = steps.run(self._devices.matcher.fit_on(demand, node), self._should_stop)
        except SearchFailed:
            return (*reasons, SELECTOR_FAILS), None
        if isinstance(fit, NodeFit):
            return reasons, None
        claims, _ = self._devices.matcher.claims_on(demand, node)
        of_devices = any(reason.kind is ReasonKind.DEVICES for reason in fit)
        return (*reasons, *fit), self._devices.rejection(node, claims) if of_devices else None


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
