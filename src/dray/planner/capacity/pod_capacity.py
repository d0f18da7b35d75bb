"""The number of copies of a pod that still fit in a cluster, by node, and what limits it."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dray.api.ids import ClaimKey
from dray.api.types import dra
from dray.api.types.dra import ResourceClaim
from dray.planner.capacity import limits, quota_room
from dray.planner.cluster_model import ClusterModel
from dray.planner.placement import place
from dray.scheduling import fit_counts, unschedulable
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decider
from dray.scheduling.fit_counts import FitCount, NodeFitCount
from dray.scheduling.pod_copies import PodCopies
from dray.scheduling.state import SchedulingState


class NodeCapacity(NamedTuple):
    """The number of pods that a node still takes, and the checks that the next one fails."""

    node: str
    pods: int
    limits: tuple[str, ...]


class PodCapacity(NamedTuple):
    """The number of pods that still fit."""

    name: str
    pods: int
    nodes: Sequence[NodeCapacity]
    """Every node, in the order of the cluster, for itself: quotas are not considered."""
    is_complete: bool = True
    """Whether every node was counted; otherwise there may be more."""
    quota: str = ""
    """The refusal of the next one, if quotas admit no more than `pods`."""
    claim: str = ""
    """The shared claim that admits no more users than `pods`, if there is one."""
    message: str = ""
    """Why no node takes any; the words of the API server or the scheduler."""

    @property
    def is_limited_by_nodes(self) -> bool:
        """Whether no node takes another one."""
        return self.pods >= sum(node.pods for node in self.nodes)

    def limits(self) -> list[tuple[str, int]]:
        """Return the checks that limit the number, with the number of nodes; most nodes first.

        On nodes that take none, checks that have nothing to do with what is in use come last.
        """
        counts = Counter(limit for node in self.nodes for limit in node.limits)
        fixed = {limit for node in self.nodes if not node.pods for limit in node.limits}
        fixed -= {limit for node in self.nodes if node.pods for limit in node.limits}
        return sorted(counts.items(), key=lambda item: (item[0] in fixed, -item[1]))


def _never() -> bool:
    return False


def capacity_of(
    name: str,
    copies: PodCopies,
    cluster: ClusterModel,
    state: SchedulingState,
    *,
    now: datetime.datetime = place.NOW,
    should_stop: Callable[[], bool] = _never,
) -> PodCapacity:
    """Return how many copies fit. `state` is that of the cluster, and the same afterwards."""
    counted = _counted(copies, state, now, should_stop)
    nodes = [
        NodeCapacity(node, found.pods, limits.limits_of(found))
        for node, found in counted.by_node.items()
    ]
    result = PodCapacity(name, counted.pods, nodes, counted.is_complete)
    if counted.last is not None and not counted.last.reasons:
        message = unschedulable.message(counted.last, len(state.nodes))
        result = result._replace(message=message.removesuffix("."))
    claim, users = _claim_room(copies, state)
    if claim and users <= result.pods:
        result = result._replace(pods=users, claim=claim)
    quota = quota_room.room(cluster, copies, result.pods, now)
    if quota is not None:
        result = result._replace(pods=quota.pods, quota=quota.refusal)
    return result


def _claim_room(copies: PodCopies, state: SchedulingState) -> tuple[str, int]:
    """Return the claim of all copies that has the least room for users, and that room."""
    claims = _named_claims(copies, state)
    rooms = {
        claim.metadata.name: dra.RESERVED_FOR_MAX_SIZE - len(claim.status.reserved_for)
        for claim in claims
    }
    return min(rooms.items(), key=lambda item: item[1], default=("", 0))


def _named_claims(copies: PodCopies, state: SchedulingState) -> list[ResourceClaim]:
    """Return the claims that exist already and that all copies use."""
    namespace = copies.pod.metadata.namespace
    made = {claim.metadata.name for claim in copies.claims}
    found = (
        state.claims.get(ClaimKey(namespace, source.resource_claim_name))
        for source in copies.pod.spec.resource_claims
        if source.resource_claim_name and source.resource_claim_name not in made
    )
    return [claim for claim in found if claim is not None]


def _counted(
    copies: PodCopies,
    state: SchedulingState,
    now: datetime.datetime,
    should_stop: Callable[[], bool],
) -> FitCount:
    shared = [claim for claim in _named_claims(copies, state) if claim.status.allocation is None]
    if not shared:
        return fit_counts.count_by_node(state, copies, should_stop)
    return _after_the_first(copies, state, shared, now, should_stop)


def _after_the_first(
    copies: PodCopies,
    state: SchedulingState,
    shared: Sequence[ResourceClaim],
    now: datetime.datetime,
    should_stop: Callable[[], bool],
) -> FitCount:
    """Place one copy, which allocates the claims that all share, and count the others then."""
    pod, own = copies.copy(0)
    for claim in own:
        state.put(claim)
    (decision,) = Decider(state, should_stop=should_stop).decide([pod], now)
    try:
        if not isinstance(decision, NodeAssignment):
            return FitCount(0, not decision.is_retried, decision)
        allocations = {assigned.claim.key: assigned.allocation for assigned in decision.fit.claims}
        for claim in shared:
            status = msgspec.structs.replace(claim.status, allocation=allocations[claim.key])
            state.put(msgspec.structs.replace(claim, status=status))
        others = PodCopies(pod, own)
        return _plus_one(fit_counts.count_by_node(state, others, should_stop), decision.node)
    finally:
        if isinstance(decision, NodeAssignment):
            state.release(decision)
        for claim in shared:
            state.put(claim)
        state.drop_pod(pod.metadata.key)
        for claim in own:
            state.claims.drop(claim.key)


def _plus_one(counted: FitCount, node: str) -> FitCount:
    by_node: Mapping[str, NodeFitCount] = {
        name: found._replace(pods=found.pods + (name == node))
        for name, found in counted.by_node.items()
    }
    return counted._replace(pods=counted.pods + 1, by_node=by_node)
