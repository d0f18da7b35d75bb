"""The objects that a claim is joined with: requests, devices, nodes and users."""

from __future__ import annotations

from collections.abc import Iterator

from dray.allocator import device_states
from dray.allocator.device_states import DeviceAvailability
from dray.api import kinds
from dray.api.ids import DeviceId
from dray.api.semantics import pod_claims
from dray.api.semantics.conditions import is_condition_true
from dray.api.types.dra import ResourceClaim
from dray.api.types.nodes import Node
from dray.ui.model.followed_cluster import FollowedCluster
from dray.ui.pages.objects.page_documents import (
    ChainStep,
    claim_link,
    device_link,
    node_link,
    pod_link,
)

NOT_READ = "not known"


def of_claim(model: FollowedCluster, claim: ResourceClaim) -> Iterator[ChainStep]:
    """Yield a claim, then each request with the devices that it got."""
    yield claim_step(claim)
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    for request in claim.spec.devices.requests:
        own = [result for result in results if result.request.partition("/")[0] == request.name]
        exactly = request.exactly
        name = f"{request.name} of class {exactly.device_class_name}" if exactly else request.name
        yield ChainStep("request", name, "served" if own else "waiting")
        for result in own:
            yield device_step(model, result.device_id)


def claim_step(claim: ResourceClaim) -> ChainStep:
    return ChainStep("claim", str(claim.key), claim_state(claim), claim_link(*claim.key))


def claim_state(claim: ResourceClaim) -> str:
    """Return the state in the words of `kubectl get resourceclaims`."""
    if claim.metadata.deletion_timestamp is not None:
        return "deleted"
    if claim.status.allocation is None:
        return "pending"
    return "allocated, reserved" if claim.status.reserved_for else "allocated"


def device_step(model: FollowedCluster, device: DeviceId) -> ChainStep:
    found = find_device(model, device)
    state = str(found.state) if found is not None else NOT_READ
    return ChainStep("device", str(device), state, device_link(device))


def find_device(model: FollowedCluster, device: DeviceId) -> DeviceAvailability | None:
    """Return a device with its state; None if there is none, or it may not be seen."""
    inventory = model.fleet.inventory
    if device.pool_id not in inventory.pools():
        return None
    members = device_states.devices_of_pool(inventory, device.pool_id)
    return next((found for found in members if found.id == device), None)


def node_step(model: FollowedCluster, name: str) -> ChainStep:
    node: Node | None = model.find(kinds.NODE, name)
    return ChainStep("node", name, node_state(node), node_link(name))


def node_state(node: Node | None) -> str:
    if node is None:
        return NOT_READ
    ready = "ready" if is_condition_true(node.status.conditions, "Ready") else "not ready"
    return f"{ready}, cordoned" if node.spec.unschedulable else ready


def users(model: FollowedCluster, claim: ResourceClaim) -> Iterator[ChainStep]:
    """Yield the pods that use a claim."""
    namespace = claim.metadata.namespace
    for consumer in claim.status.reserved_for:
        if pod_claims.is_pod(consumer):
            pod = model.find(kinds.POD, consumer.name, namespace)
            state = (pod.status.phase or "Pending").lower() if pod is not None else NOT_READ
            link = pod_link(namespace, consumer.name)
            yield ChainStep("pod", f"{namespace}/{consumer.name}", state, link)
        else:
            yield ChainStep("consumer", f"{consumer.resource}/{consumer.name}", "")
