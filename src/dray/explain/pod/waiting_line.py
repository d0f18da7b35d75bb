"""The place of a waiting pod among the pods that ask for the same devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dray.allocator.model import requests
from dray.api.ids import ClaimKey
from dray.api.semantics import pod_claims
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.explain.text import phrases

EXACT_PLACES = 10
"""Pods further back are not told their exact place: it changes with every pod that starts."""
_ENDED = frozenset({"Succeeded", "Failed"})
_SUFFIXES = {1: "st", 2: "nd", 3: "rd"}


def pods_ahead(
    pod: Pod, pods: Iterable[Pod], claims: Mapping[ClaimKey, ResourceClaim]
) -> list[Pod]:
    """Return the waiting pods that get devices before a pod, the first in line first.

    They ask the same scheduler for the same devices, and have a higher priority or were created
    earlier.
    """
    wanted = _requests(pod, claims)
    if not wanted:
        return []
    rank = _rank(pod)
    line = [
        other
        for other in pods
        if _rank(other) < rank
        and _is_waiting(other)
        and other.spec.scheduler_name == pod.spec.scheduler_name
        and _requests(other, claims) == wanted
    ]
    return sorted(line, key=_rank)


def place_in_line(ahead: Sequence[str]) -> str:
    """Return a sentence with the place of a pod, or "" for the first.

    `ahead` are the pods before it as namespace/name, the first in line first; EXACT_PLACES of them
    are enough.
    """
    if not ahead:
        return ""
    if len(ahead) >= EXACT_PLACES:
        return f"At least {EXACT_PLACES} pods are ahead of it in line for the same devices."
    noun = "pod" if len(ahead) == 1 else "pods"
    place = f"{len(ahead) + 1}{_SUFFIXES.get(len(ahead) + 1, 'th')}"
    return f"It is {place} in line for these devices, after {noun} {phrases.listed(ahead)}."


def _rank(pod: Pod) -> tuple[int, str, str, str]:
    metadata = pod.metadata
    created = metadata.creation_timestamp or ""
    return -(pod.spec.priority or 0), created, metadata.namespace, metadata.name


def _is_waiting(pod: Pod) -> bool:
    return (
        not pod.spec.node_name
        and not pod.spec.scheduling_gates
        and pod.status.phase not in _ENDED
        and pod.metadata.deletion_timestamp is None
    )


def _requests(pod: Pod, claims: Mapping[ClaimKey, ResourceClaim]) -> requests.Signature:
    """Return what the pod's claims without devices ask for."""
    used = (claims.get(key) for key in pod_claims.used_claims(pod))
    waiting = [claim for claim in used if claim is not None and claim.status.allocation is None]
    return requests.signature(waiting)
