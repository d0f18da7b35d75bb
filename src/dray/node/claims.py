"""The claims of a pod: which they are, and whether the pod may use them on this node.

As pkg/kubelet/cm/dra, prepareResources: a claim must be allocated, reserved for this very pod, and
where it was made from a template, be made for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from dray.api import canonical, errors, kinds
from dray.api.claims import ResourceClaim
from dray.api.pods import Pod
from dray.client.verbs import Client, Object

CLAIM = kinds.served("resource.k8s.io", "ResourceClaim")
POD_GROUPS = "podgroups"


class UsedClaim(NamedTuple):
    """A claim as the pod knows it; without an object name it is not made yet."""

    pod_claim: str
    name: str | None
    is_generated: bool


class NotUsable(Exception):
    """A claim that the pod cannot use now; the text says which and why."""


def used_by(pod: Pod) -> Iterator[UsedClaim]:
    """Every claim of the pod, that of its extended resources included."""
    noted = {each.name: each for each in pod.status.resource_claim_statuses}
    for source in pod.spec.resource_claims:
        if source.resource_claim_name is not None:
            yield UsedClaim(source.name, source.resource_claim_name, False)
        elif source.name not in noted:
            yield UsedClaim(source.name, None, True)
        elif noted[source.name].resource_claim_name:
            yield UsedClaim(source.name, noted[source.name].resource_claim_name, True)
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        yield UsedClaim("", extended.resource_claim_name, True)


async def usable(client: Client, pod: Pod) -> list[ResourceClaim]:
    """The claims of the pod, read from the server; raises NotUsable for the first that is not."""
    return [await _usable(client, pod, used) for used in used_by(pod)]


async def _usable(client: Client, pod: Pod, used: UsedClaim) -> ResourceClaim:
    if used.name is None:
        raise NotUsable(f"pod claim {used.pod_claim}: no ResourceClaim has been made for it yet")
    try:
        document = await client.get(CLAIM, used.name, pod.metadata.namespace)
    except errors.NotFound:
        raise NotUsable(f"fetch ResourceClaim {used.name}: not found") from None
    claim = _decoded(document)
    if refusal := refused(claim, pod, used.is_generated):
        raise NotUsable(refusal)
    return claim


def _decoded(document: Object) -> ResourceClaim:
    """A server that writes `null` for absent costs a second try."""
    try:
        return msgspec.convert(document, ResourceClaim)
    except msgspec.ValidationError:
        return msgspec.convert(canonical.prune_nulls(document), ResourceClaim)


def refused(claim: ResourceClaim, pod: Pod, is_generated: bool) -> str | None:
    """Why the pod may not use the claim."""
    metadata = claim.metadata
    if is_generated and not _is_made_for(claim, pod):
        return f"ResourceClaim {metadata.name} was not created for pod {pod.metadata.name}"
    if not _is_reserved_for(claim, pod):
        return (
            f"pod {pod.metadata.name} ({pod.metadata.uid}) is not allowed to use "
            f"ResourceClaim {metadata.name} ({metadata.uid})"
        )
    if claim.status.allocation is None:
        return f"ResourceClaim {metadata.name} is not allocated"
    return None


def _is_made_for(claim: ResourceClaim, pod: Pod) -> bool:
    group = _group(pod)
    return any(
        owner.controller
        and (owner.uid == pod.metadata.uid or (owner.kind == "PodGroup" and owner.name == group))
        for owner in claim.metadata.owner_references
    )


def _is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    group = _group(pod)
    return any(
        each.uid == pod.metadata.uid or (each.resource == POD_GROUPS and each.name == group)
        for each in claim.status.reserved_for
    )


def _group(pod: Pod) -> str | None:
    """The name of the pod's group; None never equals a name."""
    group = pod.spec.scheduling_group
    return (group.pod_group_name or None) if group else None
