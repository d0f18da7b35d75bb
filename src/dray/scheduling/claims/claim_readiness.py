"""The claims of a pod, or the first claim that it has to wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dray.api.ids import ClaimKey
from dray.api.semantics import pod_claims
from dray.api.types.dra import ResourceClaim, ResourceClaimConsumerReference
from dray.api.types.pods import Pod, PodResourceClaim
from dray.api.types.workloads import PodGroup

FindClaim = Callable[[ClaimKey], ResourceClaim | None]


class PodClaim(NamedTuple):
    """One claim of a pod, and the consumer that the pod's use is reserved for."""

    names: tuple[str, ...]
    """The names of the claim in the pod's spec.resourceClaims."""
    claim: ResourceClaim
    consumer: ResourceClaimConsumerReference


class ClaimsNotReady(NamedTuple):
    """A claim that the pod has to wait for; the message is kube-scheduler's."""

    message: str
    claim: ClaimKey | None = None
    template: str = ""
    """The template from which the claim has not been created yet."""


def resolve(
    pod: Pod, find: FindClaim, group: PodGroup | None, accepts_group: bool
) -> list[PodClaim] | ClaimsNotReady:
    """Return the claims of a pod, or the first that it has to wait for.

    `group` is the pod's PodGroup where claims may be reserved for groups.
    """
    claims: dict[ClaimKey, PodClaim] = {}
    for source in pod.spec.resource_claims:
        claim_state = pod_claims.claim_of(pod, source)
        if not claim_state.is_made:
            return _not_created(pod, source)
        if claim_state.name is None:
            continue
        key = ClaimKey(pod.metadata.namespace, claim_state.name)
        claim = find(key)
        problem = _problem(pod, source, key, claim, accepts_group)
        if problem is not None:
            return problem
        assert claim is not None
        earlier = claims[key].names if key in claims else ()
        consumer = pod_claims.consumer(pod, group, source)
        claims[key] = PodClaim((*earlier, source.name), claim, consumer)
    return list(claims.values())


def _not_created(pod: Pod, source: PodResourceClaim) -> ClaimsNotReady:
    name = f'pod "{pod.metadata.namespace}/{pod.metadata.name}"'
    if source.resource_claim_template_name is None:
        return ClaimsNotReady(
            f'{name}, spec.resourceClaim "{source.name}": none of the supported fields are set'
        )
    return ClaimsNotReady(
        f"{name}: ResourceClaim not created yet", template=source.resource_claim_template_name
    )


def _problem(
    pod: Pod,
    source: PodResourceClaim,
    key: ClaimKey,
    claim: ResourceClaim | None,
    accepts_group: bool,
) -> ClaimsNotReady | None:
    if claim is None:
        return ClaimsNotReady(f'could not find ResourceClaim "{key}"', key)
    if claim.metadata.deletion_timestamp is not None:
        return ClaimsNotReady(f'resourceclaim "{key.name}" is being deleted', key)
    is_generated = source.resource_claim_name is None
    if is_generated and not pod_claims.is_for_pod(claim, pod, accepts_group):
        return ClaimsNotReady(_not_owner(pod, key, accepts_group), key)
    return None


def _not_owner(pod: Pod, key: ClaimKey, accepts_group: bool) -> str:
    metadata, group = pod.metadata, pod_claims.group_name(pod)
    owners = "Pod is not owner"
    if accepts_group and group:
        owners = f"neither Pod nor PodGroup {group} is the owner"
    return (
        f"ResourceClaim {key} was not created for Pod {metadata.namespace}/{metadata.name} "
        f"({owners})"
    )
