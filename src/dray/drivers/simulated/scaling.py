"""Scales a running fleet to the number of nodes that its ConfigMap requests.

The ConfigMap records the size that the fleet was started with. A fleet that is started with another
size ignores the older request.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Container, Coroutine
from typing import Any

import msgspec

from dray.api import errors, kinds
from dray.api.kinds import Kind
from dray.api.types.core import ConfigMap
from dray.client.api_client import Client, ObjectSelection
from dray.client.cache import Cache
from dray.drivers.simulated.fleet import FLEET_LABEL, Fleet

NAMESPACE = "kube-system"
NODES, MADE_FOR = "nodes", "madeFor"

Run = Callable[[Fleet], Coroutine[Any, Any, None]]


class _Named(msgspec.Struct, frozen=True):
    name: str


class _Item(msgspec.Struct, frozen=True):
    metadata: _Named


def name_of(fleet: str) -> str:
    """Return the name of a fleet's ConfigMap."""
    return f"fleet-{fleet}"


def scaled(fleet: Fleet, nodes: int) -> Fleet:
    """Return the fleet with `nodes` nodes in every group."""
    groups = tuple(msgspec.structs.replace(node, count=nodes) for node in fleet.blueprint.nodes)
    return dataclasses.replace(
        fleet, blueprint=msgspec.structs.replace(fleet.blueprint, nodes=groups)
    )


def size(fleet: Fleet) -> str:
    """Return the number of nodes in every group, as the ConfigMap records it."""
    return ",".join(str(group.count) for group in fleet.blueprint.nodes)


async def set_desired_size(client: Client, fleet: str, nodes: int) -> None:
    """Request a number of nodes for every group of a running fleet."""
    patch = {"data": {NODES: str(nodes)}}
    await client.patch(kinds.CONFIG_MAP, name_of(fleet), patch, NAMESPACE)


async def at_requested_size(client: Client, fleet: Fleet) -> Fleet:
    """Return the fleet at the size at which it runs, or will when it is started."""
    try:
        existing = await client.get(kinds.CONFIG_MAP, name_of(fleet.name), NAMESPACE)
    except errors.NotFound:
        return fleet
    config_map = msgspec.convert(existing, ConfigMap)
    is_for_it = config_map.data.get(MADE_FOR) == size(fleet)
    return _requested(fleet, config_map) if is_for_it else fleet


async def follow(client: Client, fleet: Fleet, run: Run) -> None:
    """Run the fleet at the requested size, and restart it whenever that changes."""
    await _create_config_map(client, fleet)
    selection = ObjectSelection(NAMESPACE, field_selector=f"metadata.name={name_of(fleet.name)}")
    requests: Cache[ConfigMap] = Cache(client, kinds.CONFIG_MAP, ConfigMap, selection)
    changed = asyncio.Event()
    requests.subscribe(lambda _: changed.set())
    async with asyncio.TaskGroup() as group:
        group.create_task(requests.run(), name="fleet-size")
        await requests.synced.wait()
        while True:
            changed.clear()
            requested = _requested(fleet, requests.get(name_of(fleet.name), NAMESPACE))
            await _remove_surplus(client, requested)
            running = group.create_task(run(requested), name="fleet-machines")
            while _requested(fleet, requests.get(name_of(fleet.name), NAMESPACE)) == requested:
                await changed.wait()
                changed.clear()
            running.cancel()
            await asyncio.wait({running})


async def _create_config_map(client: Client, fleet: Fleet) -> None:
    """Create the ConfigMap; drop the request in one of a fleet of another size."""
    made_for = size(fleet)
    try:
        existing = await client.get(kinds.CONFIG_MAP, name_of(fleet.name), NAMESPACE)
    except errors.NotFound:
        metadata = {"name": name_of(fleet.name), "namespace": NAMESPACE}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        await client.create(kinds.CONFIG_MAP, {**body, "data": {MADE_FOR: made_for}}, NAMESPACE)
        return
    if (existing.get("data") or {}).get(MADE_FOR) != made_for:
        patch = {"data": {MADE_FOR: made_for, NODES: None}}
        await client.patch(kinds.CONFIG_MAP, name_of(fleet.name), patch, NAMESPACE)


def _requested(fleet: Fleet, config_map: ConfigMap | None) -> Fleet:
    text = config_map.data.get(NODES, "") if config_map else ""
    return scaled(fleet, int(text)) if text.isdecimal() else fleet


async def remove_other_fleets(client: Client, fleet: str) -> None:
    """Delete the Nodes and slices of every other fleet: nothing runs them any more."""
    others = f"{FLEET_LABEL},{FLEET_LABEL}!={fleet}"
    for kind in (kinds.NODE, kinds.RESOURCE_SLICE):
        await _delete(client, kind, others)


async def _remove_surplus(client: Client, fleet: Fleet) -> None:
    """Delete the Nodes that the fleet no longer has."""
    await _delete(client, kinds.NODE, f"{FLEET_LABEL}={fleet.name}", fleet.machines)


async def _delete(
    client: Client, kind: Kind, selector: str, kept: Container[str] = frozenset()
) -> None:
    page = await client.list(kind, ObjectSelection(label_selector=selector))
    for item in page.items:
        name = msgspec.json.decode(item, type=_Item).metadata.name
        if name not in kept:
            with contextlib.suppress(errors.NotFound):
                await client.delete(kind, name)
