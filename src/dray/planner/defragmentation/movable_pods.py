"""The pods that may be moved: deleted, and made again by their controller on another place."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from dray.api import kinds
from dray.api.ids import ObjectKey
from dray.api.semantics import owner_references, pod_claims, pod_status
from dray.api.types.dra import ResourceClaimTemplate
from dray.api.types.pods import Pod
from dray.planner.cluster_model import ClusterModel
from dray.planner.submission.submitted_pods import SubmittedPod
from dray.planner.what_if import evictions
from dray.scheduling.claims.claim_index import ClaimIndex
from dray.scheduling.state import DEFAULT_SCHEDULER_NAME


class StayReason(enum.Enum):
    """A reason why a pod is not moved; the value completes the sentence "it …"."""

    OF_NODE = "belongs to its node: of a DaemonSet, or static"
    LEAVING = "is being deleted"
    BARE = "has no controller that would make it again"
    SCHEDULER = "is placed by another scheduler, whose decisions are not known"
    TEMPLATE = "needs a ResourceClaimTemplate that does not exist"
    BUDGET = "is covered by a PodDisruptionBudget that allows no disruption"
    PRIORITY = "has a higher priority than the pods that room is made for"


STAYING = frozenset({StayReason.OF_NODE, StayReason.LEAVING})
"""Pods that an empty node may have, as after `kubectl drain --ignore-daemonsets`."""


class MoveUnit(NamedTuple):
    """Pods that are moved together: one, or all that share a claim.

    The devices of a shared claim stay where they are until its last pod is deleted.
    """

    keys: tuple[ObjectKey, ...]


class Movability:
    """Answers for one cluster which pods may be moved."""

    def __init__(self, cluster: ClusterModel, *, include_bare: bool = False) -> None:
        self._templates = {value.metadata.key for value in cluster.of(ResourceClaimTemplate)}
        self._include_bare = include_bare
        self._claims = evictions.claim_maker(cluster)
        self._replacements: dict[str, SubmittedPod] = {}
        """By the uid of the pod that is deleted."""

    def obstacle(self, pod: Pod) -> StayReason | None:
        """Return why a placed pod is not moved, or None if it may be."""
        if evictions.belongs_to_node(pod):
            return StayReason.OF_NODE
        if pod_status.is_deleted(pod):
            return StayReason.LEAVING
        if is_bare(pod):
            return None if self._include_bare else StayReason.BARE
        if (pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME) != DEFAULT_SCHEDULER_NAME:
            return StayReason.SCHEDULER
        if any(key not in self._templates for key in _template_keys(pod)):
            return StayReason.TEMPLATE
        return None

    def replacement(self, pod: Pod) -> SubmittedPod:
        """Return the pod that a controller makes when `pod` is deleted, and its claims."""
        uid = pod.metadata.uid
        if uid not in self._replacements:
            waiting = evictions.unplaced(pod, pod.metadata.name, created="")
            self._replacements[uid] = SubmittedPod(*self._claims.for_pod(waiting))
        return self._replacements[uid]


def renamed(made: SubmittedPod) -> SubmittedPod:
    """Return a replacement with another name, for a state that has the old pod too."""
    metadata = made.pod.metadata
    metadata = msgspec.structs.replace(metadata, name=f"{metadata.name}-new")
    return made._replace(pod=msgspec.structs.replace(made.pod, metadata=metadata))


def is_bare(pod: Pod) -> bool:
    """Return whether no controller makes the pod again after its deletion."""
    return owner_references.controller_of(pod.metadata) is None


def is_replaced_early(pod: Pod) -> bool:
    """Return whether the replacement of a pod is made while the pod is still being deleted."""
    # A StatefulSet gives the new pod the same name, so that the old one has to be gone.
    is_stateful = owner_references.controlled_by(pod.metadata, kinds.STATEFUL_SET) is not None
    return not is_bare(pod) and not is_stateful


def depends_on_others(pod: Pod) -> bool:
    """Return whether more pods elsewhere can make a pod fit; mostly they only take room."""
    affinity = pod.spec.affinity
    return bool(
        (affinity is not None and affinity.pod_affinity is not None)
        or pod.spec.topology_spread_constraints
        or pod_claims.group_name(pod)
    )


def kind_of(pod: Pod) -> Hashable:
    """Return a key that is equal for pods that can take each other's place."""
    metadata, sources = pod.metadata, pod.spec.resource_claims
    if any(source.resource_claim_template_name is None for source in sources):
        return metadata.key
    spec = msgspec.structs.replace(pod.spec, node_name="")
    labels = frozenset(metadata.labels.items())
    return metadata.namespace, labels, is_replaced_early(pod), msgspec.json.encode(spec)


def units(movable: Iterable[Pod], claims: ClaimIndex) -> list[MoveUnit]:
    """Return every pod as a unit, and units of the pods that share claims if all may be moved."""
    by_uid = {pod.metadata.uid: pod for pod in movable}
    found = [MoveUnit((pod.metadata.key,)) for pod in by_uid.values()]
    seen: set[str] = set()
    for uid in by_uid:
        if uid not in seen:
            together = _sharing(uid, by_uid, claims)
            seen |= together
            if len(together) > 1 and together <= by_uid.keys():
                members = (pod for pod in by_uid.values() if pod.metadata.uid in together)
                found.append(MoveUnit(tuple(pod.metadata.key for pod in members)))
    return found


def _sharing(uid: str, by_uid: dict[str, Pod], claims: ClaimIndex) -> set[str]:
    """Return the uids of all pods that share claims with a pod, directly or through others."""
    found, new = {uid}, [uid]
    while new:
        pod = by_uid.get(new.pop())
        for key in pod_claims.used_claims(pod) if pod is not None else ():
            claim = claims.get(key)
            users = claim.status.reserved_for if claim is not None else ()
            added = {user.uid for user in users if pod_claims.is_pod(user)} - found
            found |= added
            new += added
    return found


def _template_keys(pod: Pod) -> Iterator[ObjectKey]:
    for source in pod.spec.resource_claims:
        if source.resource_claim_template_name:
            yield ObjectKey(pod.metadata.namespace, source.resource_claim_template_name)
