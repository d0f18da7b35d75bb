"""The page of a device: its state, what it publishes, and who holds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from dray.allocator import device_groups, device_states, device_values
from dray.allocator.device_states import DeviceAvailability
from dray.api import kinds
from dray.api.ids import ClaimKey, DeviceId
from dray.explain.text import phrases
from dray.ui.model import cells
from dray.ui.model.followed_cluster import FollowedCluster
from dray.ui.pages.objects import chains, pod_page
from dray.ui.pages.objects.page_documents import (
    ChainStep,
    Fact,
    ObjectPage,
    claim_link,
    device_link,
    fact,
    node_link,
    pod_link,
    shown,
    yaml_of,
)
from dray.ui.pages.page_errors import PageError
from dray.ui.pages.viewer import Viewer


async def of(viewer: Viewer, key: str) -> ObjectPage:
    """Return the page of a device or partition DRIVER/POOL/DEVICE. Raises PageError."""
    device = device_id(key)
    model = viewer.model
    pool = model.fleet.inventory.pools().get(device.pool_id)
    members = (
        list(device_states.devices_of_pool(model.fleet.inventory, device.pool_id))
        if pool is not None
        else []
    )
    found = next((member for member in members if member.id == device), None)
    if found is None or pool is None:
        raise PageError(404, f"there is no device {key}", "Look for it on the map of devices.")
    group = next(group for group in device_groups.groups(members) if found in group)
    node = device_groups.node_of(found, list(pool.slices.values()))
    published = msgspec.to_builtins(found.device) if found.device is not None else {}
    return ObjectPage(
        str(device),
        "Device",
        list(_facts(model, found, group, node)),
        shown(_chain(model, found, group, node)),
        [],
        await yaml_of(published) if published else "",
    )


def device_id(key: str) -> DeviceId:
    """Return the id that a key names; pools may have slashes in their names. Raises PageError."""
    driver, _, rest = key.partition("/")
    pool, _, name = rest.rpartition("/")
    if not (driver and pool and name):
        raise PageError(400, f"{key} is no device", "Write DRIVER/POOL/DEVICE.")
    return DeviceId(driver, pool, name)


def _facts(
    model: FollowedCluster,
    found: DeviceAvailability,
    group: Sequence[DeviceAvailability],
    node: str,
) -> Iterator[Fact]:
    own = cells.text_of(found, model.fleet.holders)
    # As on the map: a device is in use where one of its partitions is.
    state = device_groups.combined(part.state for part in group) if not found.parent else None
    if state is None or state is found.state:
        yield from fact("State", own)
    else:
        yield from fact("State", state)
        yield from fact("As a whole", own)
    if node:
        yield from fact("Node", node, node_link(node))
    if found.parent:
        whole = DeviceId(*found.id.pool_id, device_groups.root(found))
        yield from fact("Partition of", whole, device_link(whole))
    marks = cells.marks_of([found], model.fleet.holders)
    yield from fact("Health", "unhealthy" if cells.UNHEALTHY in marks else "")
    for taint in found.taints:
        yield from fact("Taint", phrases.taint(taint))
    for key in _visible(model, found):
        yield from fact("Held by", key, claim_link(*key))
        for user in model.fleet.holders.users(key):
            yield from fact("Used by", user, pod_link(*user.split("/", 1)))
    for part in group:
        if part.parent and part.holders and part is not found:
            yield from fact("Partition", part.id, device_link(part.id))
    yield from _published(found)


def _published(found: DeviceAvailability) -> Iterator[Fact]:
    yield from fact("Driver", found.id.driver)
    yield from fact("Pool", found.id.pool)
    if found.device is None:
        return
    attributes = device_values.attributes_of(found.device)
    yield from fact("Model", device_values.model_of(attributes))
    for name, capacity in found.device.capacity.items():
        left = found.left.get(name)
        value = f"{left.left} of {left.total} left" if left is not None else capacity.value
        yield from fact(f"Capacity {name}", value)
    for name, value in attributes.items():
        yield from fact(f"Attribute {name}", _written(value))


def _written(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _chain(
    model: FollowedCluster,
    found: DeviceAvailability,
    group: Sequence[DeviceAvailability],
    node: str,
) -> Iterator[ChainStep]:
    members = group if not found.parent else [found]
    for device in members:
        for key in _visible(model, device):
            claim = model.find(kinds.RESOURCE_CLAIM, key.name, key.namespace)
            if claim is not None:
                yield chains.claim_step(claim)
                yield chains.device_step(model, device.id)
                for step in chains.users(model, claim):
                    yield step
                    pod = model.find(kinds.POD, step.link.name, step.link.ns) if step.link else None
                    yield from pod_page.containers(pod) if pod is not None else ()
    if node:
        yield chains.node_step(model, node)


def _visible(model: FollowedCluster, device: DeviceAvailability) -> list[ClaimKey]:
    return [key for key in device.holders if model.fleet.holders.is_visible(key)]
