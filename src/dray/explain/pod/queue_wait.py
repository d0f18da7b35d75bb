"""The wait of a pod for devices: the pods before it, and the claims that have to end."""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Iterator, Sequence

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model import requests
from dray.api.ids import ClaimKey
from dray.api.semantics import pod_status
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.explain import claim_explanation
from dray.explain.claim_explanation import Explanation
from dray.explain.pod import node_eligibility, obstacles
from dray.explain.pod.obstacles import Obstacle
from dray.explain.pod.pod_context import PodContext, WaitingPod, claims_of
from dray.explain.suggestions.changes import SuggestedChange, WaitForClaim, WaitForClaims

_PODS_PLACED = 8
_HOLDERS_TRIED = 32


def behind_others(pod: Pod, explanation: Explanation, context: PodContext) -> Iterator[Obstacle]:
    """Yield the pods before one that waits until devices are free, as an obstacle."""
    if any(_is_waiting(change) for change in explanation.changes):
        names = [other.name for other in _before(pod, context)] if pod.metadata.uid else []
        if names:
            yield obstacles.BehindOthers(pods=tuple(names))


def pods_before(pod: Pod, context: PodContext) -> list[Pod]:
    """Return the pods that the scheduler considers before a pod, for the same device classes.

    As the scheduler: those of higher priority, or of the same and older. Pods that no node accepts
    do not count.
    """
    if not pod.metadata.uid:
        return []
    return [waiting.pod for waiting in _before(pod, context)]


def _before(pod: Pod, context: PodContext) -> list[WaitingPod]:
    line = waiting_line(context)
    classes = _classes(pod, context)
    end = bisect.bisect_left(line, _order(pod), key=lambda waiting: waiting.order)
    return [item for item in line[:end] if not classes.isdisjoint(item.classes)]


def waiting_line(context: PodContext) -> list[WaitingPod]:
    """Return the pods that wait for devices and that some node accepts, the first one first."""
    results = context.results
    if results.line is None:
        checks = node_eligibility.node_checks(context)
        line = [
            WaitingPod(_order(pod), str(pod.metadata.key), pod, frozenset(_classes(pod, context)))
            for pod in context.pods
            if _waits(pod) and checks.eligible_nodes(pod).eligible
        ]
        results.line = sorted(line, key=lambda waiting: waiting.order)
    return results.line


def wait_in_line(pod: Pod, context: PodContext, cluster: ClusterInventory) -> WaitForClaims | None:
    """Return the claims that have to end until those before a pod, and then the pod, have run.

    The pods are placed one after the other, each as soon as enough claims have ended. Returns None
    without pods before it, and if waiting is not enough for one of them.
    """
    before = pods_before(pod, context)
    if not 0 < len(before) <= _PODS_PLACED:
        return None
    # Claims of pods that run now probably end before those of the pods in line.
    holding = [key for key, claim in context.claims.items() if claim.status.reserved_for]
    running: list[ClaimKey] = []
    ended: list[ClaimKey] = []
    node = ""
    with contextlib.ExitStack() as placed:
        for waiting in (*before, pod):
            claims = [
                claim
                for claim in claims_of(waiting, context).values()
                if claim.status.allocation is None
            ]
            change = _wait_of(claims, cluster, [*holding, *running])
            if change is not None:
                placed.enter_context(change.applied_in(cluster))
                ended += change.holders
                holding = [key for key in holding if key not in ended]
                running = [key for key in running if key not in ended]
            allocations = claim_explanation.allocations(cluster, claims)
            if allocations is None:
                return None
            running += [claim.key for claim in claims]
            node = allocations.node
            for claim, allocation in zip(claims, allocations.allocations, strict=True):
                cluster.record_allocation(claim.key, allocation)
                placed.callback(cluster.release, claim.key)
    return WaitForClaims(holders=tuple(dict.fromkeys(ended)), node=node) if ended else None


def _wait_of(
    claims: Sequence[ResourceClaim], cluster: ClusterInventory, holders: Sequence[ClaimKey]
) -> WaitForClaims | None:
    """Return the claims that have to end before some claims fit, the first of `holders` if enough.

    Returns None if they fit now, or if waiting is not enough.
    """
    if claim_explanation.allocations(cluster, claims) is not None:
        return None
    for holder in holders[:_HOLDERS_TRIED]:
        change = WaitForClaims(holders=(holder,))
        with change.applied_in(cluster):
            if claim_explanation.allocations(cluster, claims) is not None:
                return change
    found = claim_explanation.explain(cluster, claims, new_share_id=lambda: "", combine=1)
    keys = [_holders(change) for change in found.changes if _is_waiting(change)]
    return WaitForClaims(holders=keys[0]) if keys else None


def future_consumers(pod: Pod, context: PodContext) -> dict[ClaimKey, tuple[str, ...]]:
    """Return the claims of the pods before a pod, with these pods."""
    return {
        claim.key: (str(other.metadata.key),)
        for other in pods_before(pod, context)
        for claim in claims_of(other, context).values()
    }


def _holders(change: SuggestedChange) -> tuple[ClaimKey, ...]:
    match change:
        case WaitForClaim(holder=holder):
            return (holder,)
        case WaitForClaims(holders=holders):
            return holders
    return ()


def _is_waiting(change: SuggestedChange) -> bool:
    return isinstance(change, WaitForClaim | WaitForClaims)


def _waits(pod: Pod) -> bool:
    """Return whether a pod with claims waits for a node."""
    spec = pod.spec
    return (
        not spec.node_name
        and not spec.scheduling_gates
        and bool(spec.resource_claims)
        and pod_status.is_active(pod)
    )


def _classes(pod: Pod, context: PodContext) -> set[str]:
    """Return the device classes of the claims that a pod still waits for."""
    return {
        alternative.device_class
        for claim in claims_of(pod, context).values()
        if claim.status.allocation is None
        for request in requests.parse_claim(claim.spec.devices).requests
        for alternative in request.alternatives
    }


def _order(pod: Pod) -> tuple[int, str, str]:
    metadata = pod.metadata
    return -(pod.spec.priority or 0), metadata.creation_timestamp or "", metadata.name
