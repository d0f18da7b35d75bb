"""The page of a claim: its requests with their devices, nodes, pods and containers."""

from __future__ import annotations

from collections.abc import Iterator

from dray.api import kinds
from dray.api.conversion import typed_objects
from dray.api.ids import DeviceId
from dray.api.semantics import owner_references
from dray.api.types.dra import ResourceClaim
from dray.ui.model.followed_cluster import FollowedCluster
from dray.ui.pages.objects import chains, pod_page
from dray.ui.pages.objects.page_documents import (
    ChainStep,
    Fact,
    Link,
    ObjectPage,
    device_link,
    events_about,
    fact,
    pod_link,
    shown,
    yaml_of,
)
from dray.ui.pages.viewer import Viewer


async def of(viewer: Viewer, namespace: str, name: str) -> ObjectPage:
    """Return the page. Raises the errors of the API server."""
    client, kind = viewer.person.client, kinds.RESOURCE_CLAIM
    document = {**kind.type_meta, **await client.get(kind, name, namespace)}
    claim = typed_objects.decode(document, ResourceClaim)
    return ObjectPage(
        f"{namespace}/{name}",
        "ResourceClaim",
        list(_facts(viewer, claim)),
        shown(_chain(viewer.model, claim)),
        await events_about(client, kind.kind, name, namespace),
        await yaml_of(document),
    )


def _facts(viewer: Viewer, claim: ResourceClaim) -> Iterator[Fact]:
    metadata, allocation = claim.metadata, claim.status.allocation
    waiting = viewer.model.waiting.entries.get(f"claim/{metadata.namespace}/{metadata.name}")
    yield from fact("State", chains.claim_state(claim))
    if waiting is not None:
        yield from fact("Reason", waiting.reason)
    yield from fact("Created", metadata.creation_timestamp)
    yield from fact("Allocated", allocation.allocation_timestamp if allocation else "")
    owner = owner_references.controller_of(metadata)
    if owner is not None:
        is_pod = owner.kind == "Pod"
        link: Link | None = pod_link(metadata.namespace, owner.name) if is_pod else None
        yield from fact("Owner", f"{owner.kind} {owner.name}", link)
    for step in chains.users(viewer.model, claim):
        yield from fact("Used by", step.text, step.link)
    for result in allocation.devices.results if allocation is not None else ():
        amounts = ", ".join(f"{name} {value}" for name, value in result.consumed_capacity.items())
        text = f"{result.device_id} ({amounts})" if amounts else str(result.device_id)
        yield from fact("Device", text, device_link(result.device_id))


def _chain(model: FollowedCluster, claim: ResourceClaim) -> Iterator[ChainStep]:
    yield from chains.of_claim(model, claim)
    allocation = claim.status.allocation
    nodes = {
        _node_of(model, result.device_id)
        for result in (allocation.devices.results if allocation is not None else ())
    }
    for name in sorted(filter(None, nodes)):
        yield chains.node_step(model, name)
    for step in chains.users(model, claim):
        yield step
        pod = model.find(kinds.POD, step.link.name, step.link.ns) if step.link else None
        if pod is not None:
            yield from pod_page.containers(pod)


def _node_of(model: FollowedCluster, device: DeviceId) -> str:
    found = chains.find_device(model, device)
    if found is None or found.device is None or found.resource_slice is None:
        return ""
    return found.device.node_name or found.resource_slice.spec.node_name or ""
