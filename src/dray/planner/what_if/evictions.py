"""Take pods out of a cluster: their claims are freed, and controllers make most of them again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from dray.api import kinds
from dray.api.semantics import owner_references, pod_status
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod, PodStatus
from dray.api.well_known import MIRROR_POD_ANNOTATION
from dray.planner.cluster_model import ClusterModel
from dray.planner.submission import submitted_pods
from dray.planner.submission.expansion import NOW
from dray.planner.submission.made_claims import TemplateClaims
from dray.planner.submission.quota_book import QuotaBook


def pods_on(cluster: ClusterModel, node: str) -> list[Pod]:
    """Return the pods on a node that have not ended."""
    return [
        pod
        for pod in cluster.of(Pod)
        if pod.spec.node_name == node and not pod_status.has_ended(pod)
    ]


def is_daemon(pod: Pod) -> bool:
    return owner_references.controlled_by(pod.metadata, kinds.DAEMON_SET) is not None


def belongs_to_node(pod: Pod) -> bool:
    """Return whether a pod stays when its node is drained: of a DaemonSet, or a static pod."""
    # The annotation may be missing in a snapshot; the owner of a static pod is its node.
    is_static = owner_references.controlled_by(pod.metadata, kinds.NODE) is not None
    return is_daemon(pod) or is_static or MIRROR_POD_ANNOTATION in pod.metadata.annotations


def is_made_again(pod: Pod) -> bool:
    """Return whether a controller makes another pod, for any node, when this one is deleted."""
    has_controller = owner_references.controller_of(pod.metadata) is not None
    return has_controller and not belongs_to_node(pod) and pod_status.is_active(pod)


def without_pods(cluster: ClusterModel, pods: Iterable[Pod]) -> ClusterModel:
    """Return the cluster without some pods and with their claims freed, as the controllers do.

    Claims that were made for these pods are gone. Others lose their reservations, and with the
    last one their devices.
    """
    uids = frozenset(pod.metadata.uid for pod in pods)
    left = cluster.without(Pod, lambda pod: pod.metadata.uid in uids)
    freed = list(_freed(cluster.of(ResourceClaim), uids))
    return ClusterModel({**left.objects, ResourceClaim: freed}, cluster.features)


def _freed(claims: Iterable[ResourceClaim], gone: frozenset[str]) -> Iterator[ResourceClaim]:
    for claim in claims:
        owner = owner_references.controlled_by(claim.metadata, kinds.POD)
        if owner is not None and owner.uid in gone:
            continue
        reserved = claim.status.reserved_for
        remaining = tuple(user for user in reserved if user.uid not in gone)
        if len(remaining) == len(reserved):
            yield claim
            continue
        allocation = claim.status.allocation if remaining else None
        devices = claim.status.devices if remaining else ()
        status = msgspec.structs.replace(
            claim.status, reserved_for=remaining, allocation=allocation, devices=devices
        )
        yield msgspec.structs.replace(claim, status=status)


def made_again(pods: Iterable[Pod], cluster: ClusterModel) -> Iterator[Pod | ResourceClaim]:
    """Yield the pods that controllers make in place of deleted ones, with their claims.

    They keep their names, although only StatefulSets give the same name again: so they can be
    compared. They do not charge quotas, because the deleted ones were charged.
    """
    maker, created = claim_maker(cluster), newest(cluster)
    for pod in pods:
        if is_made_again(pod):
            waiting, claims = maker.for_pod(unplaced(pod, pod.metadata.name, created))
            yield waiting
            yield from claims


def claim_maker(cluster: ClusterModel) -> TemplateClaims:
    """Return what makes the claims of pods, without quotas."""
    return TemplateClaims(cluster, QuotaBook(ClusterModel(), NOW))


def newest(cluster: ClusterModel) -> str:
    """Return the time of the newest pod: new ones wait behind all others."""
    return max((pod.metadata.creation_timestamp or "" for pod in cluster.of(Pod)), default="")


def unplaced(pod: Pod, name: str, created: str) -> Pod:
    """Return a new pod like one that runs, which waits for a node."""
    metadata = msgspec.structs.replace(
        pod.metadata,
        name=name,
        uid=f"{pod.metadata.uid}-{name}-again",
        resource_version="",
        creation_timestamp=created,
    )
    spec = msgspec.structs.replace(pod.spec, node_name="")
    return Pod(metadata, spec, PodStatus(phase=pod_status.PENDING))


def owner_of(pod: Pod) -> str:
    """Return TYPE/NAME of the workload that makes a pod, or of the pod itself without one."""
    _, kind, name = submitted_pods.workload_of(pod)
    return f"{kind.lower()}/{name}" if kind else f"pod/{pod.metadata.name}"
