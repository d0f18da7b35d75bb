"""Take pods out of a cluster: their claims are freed, and controllers make most of them again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from dray.api import kinds
from dray.api.ids import ObjectKey
from dray.api.semantics import owner_references, pod_status
from dray.api.types.dra import ResourceClaim, ResourceClaimTemplate
from dray.api.types.meta import ObjectMeta, OwnerReference
from dray.api.types.pods import Pod, PodResourceClaimStatus, PodStatus
from dray.api.well_known import (
    MIRROR_POD_ANNOTATION,
    POD_CLAIM_NAME_ANNOTATION,
    POD_TEMPLATE_HASH_LABEL,
)
from dray.planner.cluster_model import ClusterModel
from dray.planner.submission.submitted_pods import SubmittedPod


def pods_on(cluster: ClusterModel, node: str) -> list[Pod]:
    """Return the pods on a node that have not ended."""
    return [
        pod
        for pod in cluster.of(Pod)
        if pod.spec.node_name == node and not pod_status.has_ended(pod)
    ]


def belongs_to_node(pod: Pod) -> bool:
    """Return whether a pod stays when its node is drained: of a DaemonSet, or a static pod."""
    of_daemon_set = owner_references.controlled_by(pod.metadata, kinds.DAEMON_SET)
    return of_daemon_set is not None or MIRROR_POD_ANNOTATION in pod.metadata.annotations


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


def made_again(pod: Pod, cluster: ClusterModel) -> SubmittedPod:
    """Return the pod that its controller makes in place of a deleted one.

    It keeps the name, although only StatefulSets give the same one again: so it can be compared.
    """
    uid = f"{pod.metadata.uid}-again"
    metadata = msgspec.structs.replace(
        pod.metadata, uid=uid, resource_version="", creation_timestamp=None
    )
    spec = msgspec.structs.replace(pod.spec, node_name="")
    templates = {template.metadata.key: template for template in cluster.of(ResourceClaimTemplate)}
    of_groups = {entry.name: entry for entry in _of_group(pod, cluster)}
    claims, statuses = [], list(of_groups.values())
    for source in pod.spec.resource_claims:
        key = ObjectKey(metadata.namespace, source.resource_claim_template_name or "")
        # Without its template no claim is made, and the pod waits for that.
        if source.name not in of_groups and (template := templates.get(key)) is not None:
            claims.append(_claim_from(template, metadata, source.name))
            statuses.append(PodResourceClaimStatus(source.name, claims[-1].metadata.name))
    status = PodStatus(phase=pod_status.PENDING, resource_claim_statuses=tuple(statuses))
    return SubmittedPod(Pod(metadata, spec, status), claims, owner=owner_of(pod))


def _of_group(pod: Pod, cluster: ClusterModel) -> Iterator[PodResourceClaimStatus]:
    """Yield the claims that the pod got from its PodGroup, which keeps them."""
    kept = {
        claim.key
        for claim in cluster.of(ResourceClaim)
        if owner_references.controlled_by(claim.metadata, kinds.POD_GROUP)
    }
    for entry in pod.status.resource_claim_statuses:
        if (pod.metadata.namespace, entry.resource_claim_name) in kept:
            yield entry


def _claim_from(
    template: ResourceClaimTemplate, owner: ObjectMeta, pod_claim: str
) -> ResourceClaim:
    name = f"{owner.name}-{pod_claim}-again"
    annotations = {**template.spec.metadata.annotations, POD_CLAIM_NAME_ANNOTATION: pod_claim}
    reference = OwnerReference("v1", "Pod", owner.name, owner.uid, controller=True)
    metadata = ObjectMeta(
        name=name,
        namespace=owner.namespace,
        uid=f"{owner.uid}-{pod_claim}",
        labels=template.spec.metadata.labels,
        annotations=annotations,
        owner_references=(reference,),
    )
    return ResourceClaim(metadata, template.spec.spec)


def owner_of(pod: Pod) -> str:
    """Return TYPE/NAME of the workload that makes a pod, or of the pod itself without one."""
    owner = owner_references.controller_of(pod.metadata)
    if owner is None:
        return f"pod/{pod.metadata.name}"
    suffix = f"-{pod.metadata.labels.get(POD_TEMPLATE_HASH_LABEL, '')}"
    if owner.kind == kinds.REPLICA_SET.kind and len(suffix) > 1 and owner.name.endswith(suffix):
        return f"deployment/{owner.name.removesuffix(suffix)}"
    return f"{owner.kind.lower()}/{owner.name}"
