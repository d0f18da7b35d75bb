"""Checks that a pod may use its claims on this node.

As pkg/kubelet/cm/dra, prepareResources: a claim must be allocated, reserved for this very pod, and
where it was made from a template, be made for it.
"""

from __future__ import annotations

import msgspec

from dray.api import errors, kinds
from dray.api.conversion import canonical
from dray.api.semantics import pod_claims
from dray.api.semantics.pod_claims import PodClaimReference
from dray.api.types.dra import ResourceClaim
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.client.api_client import Client


class NotUsable(Exception):
    """A claim that the pod cannot use now; the message has its name and the reason."""


async def usable(client: Client, pod: Pod) -> list[ResourceClaim]:
    """Read the claims of the pod. Raises NotUsable for the first that the pod may not use."""
    return [await _usable(client, pod, used) for used in pod_claims.claims_of_pod(pod)]


async def _usable(client: Client, pod: Pod, used: PodClaimReference) -> ResourceClaim:
    if used.name is None:
        raise NotUsable(f"pod claim {used.pod_claim}: no ResourceClaim has been made for it yet")
    try:
        document = await client.get(kinds.RESOURCE_CLAIM, used.name, pod.metadata.namespace)
    except errors.NotFound:
        raise NotUsable(f"fetch ResourceClaim {used.name}: not found") from None
    claim = _decoded(document)
    if refusal := refused(claim, pod, used.is_generated):
        raise NotUsable(refusal)
    return claim


def _decoded(document: JsonObject) -> ResourceClaim:
    """Decode a claim; a server that writes `null` for absent costs a second try."""
    try:
        return msgspec.convert(document, ResourceClaim)
    except msgspec.ValidationError:
        return msgspec.convert(canonical.prune_nulls(document), ResourceClaim)


def refused(claim: ResourceClaim, pod: Pod, is_generated: bool) -> str | None:
    """Return why the pod may not use the claim, or None if it may."""
    metadata = claim.metadata
    if is_generated and not pod_claims.is_for_pod(claim, pod, accepts_group=True):
        return f"ResourceClaim {metadata.name} was not created for pod {pod.metadata.name}"
    if not pod_claims.is_reserved_for(claim, pod, accepts_group=True):
        return (
            f"pod {pod.metadata.name} ({pod.metadata.uid}) is not allowed to use "
            f"ResourceClaim {metadata.name} ({metadata.uid})"
        )
    if claim.status.allocation is None:
        return f"ResourceClaim {metadata.name} is not allocated"
    return None
