"""Which claims a pod or a PodGroup uses, by what it says and what its status notes.

As dynamic-resource-allocation, resourceclaim, Name, BindTo and IsForPod.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dray.api.claims import ResourceClaim, ResourceClaimConsumerReference
from dray.api.names import PoolId
from dray.api.pods import Pod, PodResourceClaim
from dray.api.workloads import PodGroup, PodGroupResourceClaim
from dray.client.cache import ObjectKey
from dray.controllers import ownership, resources

POD_CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
PODS, POD_GROUPS = "pods", "podgroups"

ClaimSource = PodResourceClaim | PodGroupResourceClaim


class NotedClaim(NamedTuple):
    """What is known of one claim: its name, or that none is needed, or not made yet."""

    name: str | None = None
    is_made: bool = True


NOT_MADE = NotedClaim(is_made=False)


def claim_of(user: Pod | PodGroup, source: ClaimSource) -> NotedClaim:
    """The claim behind one entry of spec.resourceClaims."""
    if source.resource_claim_name is not None:
        return NotedClaim(source.resource_claim_name)
    for status in user.status.resource_claim_statuses:
        if status.name == source.name:
            return NotedClaim(status.resource_claim_name)
    return NOT_MADE


def used_claims(pod: Pod) -> Iterator[ObjectKey]:
    """Every claim of a pod that has a name, that of its extended resources included."""
    yield from _noted(pod)
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        yield ObjectKey(pod.metadata.namespace, extended.resource_claim_name)


def group_claims(group: PodGroup) -> Iterator[ObjectKey]:
    return _noted(group)


def _noted(user: Pod | PodGroup) -> Iterator[ObjectKey]:
    for source in user.spec.resource_claims:
        name = claim_of(user, source).name
        if name:
            yield ObjectKey(user.metadata.namespace, name)


def used_templates(pod: Pod) -> Iterator[ObjectKey]:
    return _templates(pod)


def group_templates(group: PodGroup) -> Iterator[ObjectKey]:
    return _templates(group)


def _templates(user: Pod | PodGroup) -> Iterator[ObjectKey]:
    for source in user.spec.resource_claims:
        if source.resource_claim_template_name:
            yield ObjectKey(user.metadata.namespace, source.resource_claim_template_name)


def group_name(pod: Pod) -> str:
    """The PodGroup of the pod, if it has one."""
    group = pod.spec.scheduling_group
    return (group.pod_group_name or "") if group else ""


def consumer(pod: Pod, group: PodGroup | None, source: PodResourceClaim) -> ConsumerReference:
    """Who the claim is reserved for: the group where it has the very same claim, else the pod."""
    if group is not None and any(_is_same(each, source) for each in group.spec.resource_claims):
        return group_consumer(group)
    return ResourceClaimConsumerReference(
        resource=PODS, name=pod.metadata.name, uid=pod.metadata.uid
    )


ConsumerReference = ResourceClaimConsumerReference


def group_consumer(group: PodGroup) -> ConsumerReference:
    return ResourceClaimConsumerReference(
        api_group=resources.POD_GROUP.group,
        resource=POD_GROUPS,
        name=group.metadata.name,
        uid=group.metadata.uid,
    )


def _is_same(group_claim: PodGroupResourceClaim, pod_claim: PodResourceClaim) -> bool:
    return (
        group_claim.name == pod_claim.name
        and group_claim.resource_claim_name == pod_claim.resource_claim_name
        and group_claim.resource_claim_template_name == pod_claim.resource_claim_template_name
    )


def is_for_pod(claim: ResourceClaim, pod: Pod, accept_group: bool) -> bool:
    """Whether a generated claim was made for the pod, or for its group if that counts."""
    owner = ownership.controller_of(claim.metadata)
    if owner is None:
        return False
    if owner.uid == pod.metadata.uid:
        return True
    name = group_name(pod)
    if not accept_group or not name or owner.name != name:
        return False
    return ownership.controlled_by(claim.metadata, resources.POD_GROUP) is not None


def is_reserved_for(claim: ResourceClaim, pod: Pod, accept_group: bool) -> bool:
    name = group_name(pod) if accept_group else ""
    return any(
        each.uid == pod.metadata.uid or (name and (each.resource, each.name) == (POD_GROUPS, name))
        for each in claim.status.reserved_for
    )


def is_group(consumer: ConsumerReference) -> bool:
    return (consumer.api_group, consumer.resource) == (resources.POD_GROUP.group, POD_GROUPS)


def is_pod(consumer: ConsumerReference) -> bool:
    return (consumer.api_group, consumer.resource) == ("", PODS)


def pools(claim: ResourceClaim) -> set[PoolId]:
    """The pools that a claim has devices of."""
    if claim.status.allocation is None:
        return set()
    results = claim.status.allocation.devices.results
    return {PoolId(result.driver, result.pool) for result in results}
