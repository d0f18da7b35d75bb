"""The claims of a pod: which they are, whether they can be used, for whom they are reserved.

As dynamic-resource-allocation, resourceclaim, Name, BindTo, IsForPod and IsReservedForPod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from dray.api.claims import ResourceClaim, ResourceClaimConsumerReference
from dray.api.meta import ObjectMeta, OwnerReference
from dray.api.names import ClaimKey
from dray.api.pods import Pod, PodResourceClaim
from dray.api.workloads import PodGroup
from dray.scheduler import resources

RESERVATIONS_LIMIT = 256
"""ResourceClaimReservedForMaxSize."""
EXTENDED_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"

FindClaim = Callable[[ClaimKey], ResourceClaim | None]


class PodClaim(NamedTuple):
    """One claim of a pod, and for whom the pod's use of it is reserved."""

    names: tuple[str, ...]
    """What the pod calls it, in spec.resourceClaims."""
    claim: ResourceClaim
    consumer: ResourceClaimConsumerReference


class NotReady(NamedTuple):
    """A claim that the pod has to wait for, in upstream's words."""

    message: str
    claim: ClaimKey | None = None
    template: str = ""
    """The template from which the claim has not been made yet."""


def key_of(claim: ResourceClaim) -> ClaimKey:
    return ClaimKey(claim.metadata.namespace, claim.metadata.name)


def group_name(pod: Pod) -> str:
    group = pod.spec.scheduling_group
    return (group.pod_group_name or "") if group else ""


def claim_name(pod: Pod, source: PodResourceClaim) -> str | NotReady | None:
    """The name of the claim behind one entry; None where the pod needs none."""
    if source.resource_claim_name is not None:
        return source.resource_claim_name
    who = f'pod "{pod.metadata.namespace}/{pod.metadata.name}"'
    if source.resource_claim_template_name is None:
        return NotReady(
            f'{who}, spec.resourceClaim "{source.name}": none of the supported fields are set'
        )
    for status in pod.status.resource_claim_statuses:
        if status.name == source.name:
            return status.resource_claim_name
    return NotReady(
        f"{who}: ResourceClaim not created yet", template=source.resource_claim_template_name
    )


def used_claims(pod: Pod) -> Iterator[ClaimKey]:
    """Every claim of a pod that has a name, that of its extended resources included."""
    for source in pod.spec.resource_claims:
        name = claim_name(pod, source)
        if isinstance(name, str):
            yield ClaimKey(pod.metadata.namespace, name)
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        yield ClaimKey(pod.metadata.namespace, extended.resource_claim_name)


def resolve(
    pod: Pod, find: FindClaim, group: PodGroup | None, accepts_group: bool
) -> list[PodClaim] | NotReady:
    """The claims of a pod, or the first that it has to wait for.

    `group` is the pod's PodGroup where claims may be reserved for groups.
    """
    found: dict[ClaimKey, PodClaim] = {}
    for source in pod.spec.resource_claims:
        name = claim_name(pod, source)
        if isinstance(name, NotReady):
            return name
        if name is None:
            continue
        key = ClaimKey(pod.metadata.namespace, name)
        claim = find(key)
        problem = _problem(pod, source, key, claim, accepts_group)
        if problem is not None:
            return problem
        assert claim is not None
        earlier = found[key].names if key in found else ()
        consumer = _consumer(pod, group, source)
        found[key] = PodClaim((*earlier, source.name), claim, consumer)
    return list(found.values())


def _problem(
    pod: Pod,
    source: PodResourceClaim,
    key: ClaimKey,
    claim: ResourceClaim | None,
    accepts_group: bool,
) -> NotReady | None:
    if claim is None:
        return NotReady(f'could not find ResourceClaim "{key}"', key)
    if claim.metadata.deletion_timestamp is not None:
        return NotReady(f'resourceclaim "{key.name}" is being deleted', key)
    if source.resource_claim_name is None and not is_for_pod(claim, pod, accepts_group):
        return NotReady(_not_owner(pod, key, accepts_group), key)
    return None


def _not_owner(pod: Pod, key: ClaimKey, accepts_group: bool) -> str:
    metadata, group = pod.metadata, group_name(pod)
    owners = "Pod is not owner"
    if accepts_group and group:
        owners = f"neither Pod nor PodGroup {group} is the owner"
    return (
        f"ResourceClaim {key} was not created for Pod {metadata.namespace}/{metadata.name} "
        f"({owners})"
    )


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    return next((owner for owner in metadata.owner_references if owner.controller), None)


def is_for_pod(claim: ResourceClaim, pod: Pod, accepts_group: bool) -> bool:
    """Whether a generated claim was made for the pod, or for its group if that counts."""
    owner = controller_of(claim.metadata)
    if owner is None:
        return False
    if owner.uid == pod.metadata.uid:
        return True
    group = group_name(pod)
    if not (accepts_group and group):
        return False
    prefix = f"{resources.POD_GROUP.group}/"
    return (owner.kind, owner.name) == (resources.POD_GROUP.kind, group) and (
        owner.api_version.startswith(prefix)
    )


def is_reserved_for(claim: ResourceClaim, consumer: ResourceClaimConsumerReference) -> bool:
    return any(each.uid == consumer.uid for each in claim.status.reserved_for)


def is_reserved_only_for(claim: ResourceClaim, uids: frozenset[str]) -> bool:
    """Whether nobody else uses the claim; also where nobody does at all."""
    return all(each.uid in uids for each in claim.status.reserved_for)


def pod_consumer(pod: Pod) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(
        resource=resources.POD.plural, name=pod.metadata.name, uid=pod.metadata.uid
    )


def _consumer(
    pod: Pod, group: PodGroup | None, source: PodResourceClaim
) -> ResourceClaimConsumerReference:
    """The group where it has the very same claim, else the pod."""
    if group is not None and any(
        each.name == source.name
        and each.resource_claim_name == source.resource_claim_name
        and each.resource_claim_template_name == source.resource_claim_template_name
        for each in group.spec.resource_claims
    ):
        return ResourceClaimConsumerReference(
            api_group=resources.POD_GROUP.group,
            resource=resources.POD_GROUP.plural,
            name=group.metadata.name,
            uid=group.metadata.uid,
        )
    return pod_consumer(pod)
