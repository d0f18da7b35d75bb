"""Victims that have not left yet, and claims that are not released since theirs did.

While they are there, evicting more pods would be in vain.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable
from typing import NamedTuple

from dray.api.formats import gotime
from dray.api.ids import ClaimKey, ObjectKey
from dray.api.semantics import pod_claims
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.scheduling.nodes import pod_requirements
from dray.scheduling.preemption.priorities import effective_priority
from dray.scheduling.state import SchedulingState

STUCK_SECONDS = 300
"""The time after the grace period of a pod after which nobody waits for its end any more."""


class Leaving(NamedTuple):
    """The pods that leave nodes, and the claims that pods have left behind there."""

    pods: Collection[Pod] = ()
    claims: Collection[ClaimKey] = ()


def is_there(pod: Pod, state: SchedulingState) -> bool:
    """Return whether this very pod exists and has not ended."""
    known = state.pods.get(pod.metadata.key)
    return known is not None and known.metadata.uid == pod.metadata.uid


def is_stuck(pod: Pod, now: datetime.datetime) -> bool:
    """Return whether a pod should have ended long ago: its node or its driver may be gone."""
    deleted = pod.metadata.deletion_timestamp
    if deleted is None:
        return False
    return now - gotime.parse(deleted) > datetime.timedelta(seconds=STUCK_SECONDS)


def have_stuck(leaving: Leaving, state: SchedulingState, now: datetime.datetime) -> bool:
    """Return whether one of the pods should have ended long ago."""
    known = (state.pods.get(pod.metadata.key) for pod in leaving.pods if is_there(pod, state))
    return any(pod is not None and is_stuck(pod, now) for pod in known)


def are_there(leaving: Leaving, state: SchedulingState, now: datetime.datetime) -> bool:
    """Return whether to wait: one of the pods exists, or a claim that only they use has devices."""
    if have_stuck(leaving, state, now):
        return False
    if any(is_there(pod, state) for pod in leaving.pods):
        return True
    uids = {pod.metadata.uid for pod in leaving.pods}
    used = (key for pod in leaving.pods for key in pod_claims.used_claims(pod))
    return any(
        _is_in_use(claim) and all(user.uid in uids for user in claim.status.reserved_for)
        for claim in _found(used, state)
    ) or any(_is_left_behind(claim, state) for claim in _found(leaving.claims, state))


def on_nodes(
    names: Collection[str], priority: int, state: SchedulingState, now: datetime.datetime
) -> Leaving:
    """Return what leaves some nodes, for pods whose victims an earlier scheduler has evicted."""
    pods = [
        other
        for name in names
        for other in state.pods.on_node(name)
        if other.metadata.deletion_timestamp is not None
        and effective_priority(other, state) < priority
        and not is_stuck(other, now)
    ]
    claims = [
        claim.key
        for claim in state.claims
        if _is_left_behind(claim, state) and any(_is_on(claim, name) for name in names)
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
