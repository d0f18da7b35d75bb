"""Victims that have not left yet, and claims that are not released since theirs did.

While they are there, evicting more pods would be in vain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from dray.api.ids import ClaimKey, ObjectKey
from dray.api.semantics import pod_claims
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.scheduling.nodes import pod_requirements
from dray.scheduling.preemption.priorities import priority_of
from dray.scheduling.state import SchedulingState


class Leaving(NamedTuple):
    """The pods that leave a node, and the claims that pods have left behind there."""

    pods: Collection[Pod] = ()
    claims: Collection[ClaimKey] = ()


def is_there(pod: Pod, state: SchedulingState) -> bool:
    """Return whether this very pod exists and has not ended."""
    known = state.pods.get(pod.metadata.key)
    return known is not None and known.metadata.uid == pod.metadata.uid


def are_there(leaving: Leaving, state: SchedulingState) -> bool:
    """Return whether one of the pods exists, or a claim that only they use has devices."""
    if any(is_there(pod, state) for pod in leaving.pods):
        return True
    uids = {pod.metadata.uid for pod in leaving.pods}
    used = (key for pod in leaving.pods for key in pod_claims.used_claims(pod))
    return any(
        _is_in_use(claim) and all(user.uid in uids for user in claim.status.reserved_for)
        for claim in _found(used, state)
    ) or any(_is_left_behind(claim, state) for claim in _found(leaving.claims, state))


def on_node(name: str, pod: Pod, state: SchedulingState) -> Leaving:
    """Return what leaves a node, for a pod whose victims an earlier scheduler has evicted."""
    pods = [
        other
        for other in state.pods.on_node(name)
        if other.metadata.deletion_timestamp is not None and priority_of(other) < priority_of(pod)
    ]
    claims = [
        claim.key for claim in state.claims if _is_left_behind(claim, state) and _is_on(claim, name)
    ]
    return Leaving(pods, claims)


def _found(keys: Iterable[ClaimKey], state: SchedulingState) -> Iterable[ResourceClaim]:
    return filter(None, map(state.claims.get, keys))


def _is_in_use(claim: ResourceClaim) -> bool:
    return claim.status.allocation is not None and bool(claim.status.reserved_for)


def _is_on(claim: ResourceClaim, node: str) -> bool:
    allocation = claim.status.allocation
    names = pod_requirements.named_nodes(allocation.node_selector) if allocation else None
    return names is not None and node in names


def _is_left_behind(claim: ResourceClaim, state: SchedulingState) -> bool:
    """Return whether a claim has devices, but all of its consumers are gone."""

    def is_gone(name: str, uid: str) -> bool:
        known = state.pods.get(ObjectKey(claim.key.namespace, name))
        return known is None or known.metadata.uid != uid

    return _is_in_use(claim) and all(
        pod_claims.is_pod(user) and is_gone(user.name, user.uid)
        for user in claim.status.reserved_for
    )
