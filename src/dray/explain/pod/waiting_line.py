"""The pods that the scheduler considers before a pod that waits for devices."""

from __future__ import annotations

from collections.abc import Iterator

from dray.allocator.model import requests
from dray.api.semantics import pod_status
from dray.api.types.pods import Pod
from dray.explain.claim_explanation import Explanation
from dray.explain.pod import obstacles
from dray.explain.pod.obstacles import Obstacle
from dray.explain.pod.pod_context import PodContext, claims_of
from dray.explain.suggestions.changes import Combined, SuggestedChange, WaitForClaim, WaitForClaims


def pods_before(pod: Pod, explanation: Explanation, context: PodContext) -> Iterator[Obstacle]:
    """Yield the pods before one that waits until devices are free.

    As the scheduler: of higher priority, or of the same and older. Only pods that wait for the same
    device classes count; `explanation` is that of the pod's claims.
    """
    if not any(_is_waiting(change) for change in explanation.changes) or not pod.metadata.uid:
        return
    classes = _classes(pod, context)
    before = [
        other
        for other in context.pods
        if _waits(other)
        and _order(other) < _order(pod)
        and not classes.isdisjoint(_classes(other, context))
    ]
    names = [str(other.metadata.key) for other in sorted(before, key=_order)]
    if names:
        yield obstacles.BehindOthers(pods=tuple(names))


def _is_waiting(change: SuggestedChange) -> bool:
    if isinstance(change, Combined):
        return any(map(_is_waiting, change.parts))
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
    return -(pod.spec.priority or 0), metadata.creation_timestamp or "", metadata.uid
