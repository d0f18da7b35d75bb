"""The claims of pods and PodGroups: their names, owners and reservations.

As dynamic-resource-allocation, resourceclaim, Name, BindTo, IsForPod and IsReservedForPod. What a
user says in its spec and what its status notes is all that counts here; nothing is looked up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dray.api import kinds
from dray.api.ids import ClaimKey
from dray.api.semantics import owner_references
from dray.api.types.dra import ResourceClaim, ResourceClaimConsumerReference
from dray.api.types.pods import Pod, PodResourceClaim
from dray.api.types.workloads import PodGroup, PodGroupResourceClaim

ClaimSource = PodResourceClaim | PodGroupResourceClaim
ConsumerReference = ResourceClaimConsumerReference


class PodClaimState(NamedTuple):
    """The state of one claim: its name, or that it is not needed or not created yet."""

    name: str | None = None
    is_made: bool = True


NOT_MADE = PodClaimState(is_made=False)


class PodClaimReference(NamedTuple):
    """A claim as the pod refers to it; without an object name it is not created yet."""

    pod_claim: str
    name: str | None
    is_generated: bool


def key_of(claim: ResourceClaim) -> ClaimKey:
    return claim.key


def claim_of(user: Pod | PodGroup, source: ClaimSource) -> PodClaimState:
    """Return the state of the claim behind one entry of spec.resourceClaims."""
    if source.resource_claim_name is not None:
        return PodClaimState(source.resource_claim_name)
    for status in user.status.resource_claim_statuses:
        if status.name == source.name:
            return PodClaimState(status.resource_claim_name)
    return NOT_MADE


def claims_of_pod(pod: Pod) -> Iterator[PodClaimReference]:
    """Yield every claim that the pod needs, including that of its extended resources."""
    for source in pod.spec.resource_claims:
        state = claim_of(pod, source)
        if state.name or not state.is_made:
            yield PodClaimReference(source.name, state.name, source.resource_claim_name is None)
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        yield PodClaimReference("", extended.resource_claim_name, True)


def used_claims(pod: Pod) -> Iterator[ClaimKey]:
    """Yield the keys of a pod's claims that exist."""
    # As `claims_of_pod`, without its references: preemption reads every pod of the cluster.
    namespace = pod.metadata.namespace
    for source in pod.spec.resource_claims:
        name = source.resource_claim_name
        if name is None:
            name = claim_of(pod, source).name
        if name:
            yield ClaimKey(namespace, name)
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        yield ClaimKey(namespace, extended.resource_claim_name)


def group_claims(group: PodGroup) -> Iterator[ClaimKey]:
    for source in group.spec.resource_claims:
        name = claim_of(group, source).name
        if name:
            yield ClaimKey(group.metadata.namespace, name)


def group_name(pod: Pod) -> str:
    """Return the name of the pod's PodGroup, or an empty string."""
    group = pod.spec.scheduling_group
    return (group.pod_group_name or "") if group else ""


def consumer(pod: Pod, group: PodGroup | None, source: PodResourceClaim) -> ConsumerReference:
    """Return the consumer to reserve the claim for.

    The group if it has the same claim, else the pod.
    """
    if group is not None and any(_is_same(claim, source) for claim in group.spec.resource_claims):
        return group_consumer(group)
    return pod_consumer(pod)


def pod_consumer(pod: Pod) -> ConsumerReference:
    return ConsumerReference(
        resource=kinds.POD.plural, name=pod.metadata.name, uid=pod.metadata.uid
    )


def group_consumer(group: PodGroup) -> ConsumerReference:
    return ConsumerReference(
        api_group=kinds.POD_GROUP.group,
        resource=kinds.POD_GROUP.plural,
        name=group.metadata.name,
        uid=group.metadata.uid,
    )


def is_pod(consumer: ConsumerReference) -> bool:
    return (consumer.api_group, consumer.resource) == (kinds.POD.group, kinds.POD.plural)


def is_group(consumer: ConsumerReference) -> bool:
    return (consumer.api_group, consumer.resource) == (
        kinds.POD_GROUP.group,
        kinds.POD_GROUP.plural,
    )


def is_for_pod(claim: ResourceClaim, pod: Pod, accepts_group: bool) -> bool:
    """Return whether a generated claim was made for the pod, or for its group if that counts."""
    owner = owner_references.controller_of(claim.metadata)
    if owner is None:
        return False
    if owner.uid == pod.metadata.uid:
        return True
    name = group_name(pod)
    if not accepts_group or not name or owner.name != name:
        return False
    return owner_references.controlled_by(claim.metadata, kinds.POD_GROUP) is not None


def is_reserved_for(claim: ResourceClaim, pod: Pod, accepts_group: bool) -> bool:
    name = group_name(pod) if accepts_group else ""
    return any(
        reference.uid == pod.metadata.uid
        or (name and reference.name == name and is_group(reference))
        for reference in claim.status.reserved_for
    )


def has_consumer(claim: ResourceClaim, consumer: ConsumerReference) -> bool:
    return any(reference.uid == consumer.uid for reference in claim.status.reserved_for)


def is_reserved_only_for(claim: ResourceClaim, uids: frozenset[str]) -> bool:
    """Return whether nobody else uses the claim; also where nobody does at all."""
    return all(reference.uid in uids for reference in claim.status.reserved_for)


def _is_same(group_claim: PodGroupResourceClaim, pod_claim: PodResourceClaim) -> bool:
    return (
        group_claim.name == pod_claim.name
        and group_claim.resource_claim_name == pod_claim.resource_claim_name
        and group_claim.resource_claim_template_name == pod_claim.resource_claim_template_name
    )
