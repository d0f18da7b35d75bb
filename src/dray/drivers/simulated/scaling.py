"""How many machines a running fleet has: a wish in a ConfigMap, which the fleet follows.

The wish notes the size of the fleet it was made for. One that was started with another size takes
the older wish for obsolete.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from dray.api import errors, kinds
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
    """The ConfigMap of a fleet."""
    return f"fleet-{fleet}"


def scaled(fleet: Fleet, nodes: int) -> Fleet:
    """The fleet with so many machines of each kind."""
    groups = tuple(msgspec.structs.replace(node, count=nodes) for node in fleet.blueprint.nodes)
    return dataclasses.replace(
        fleet, blueprint=msgspec.structs.replace(fleet.blueprint, nodes=groups)
    )


def size(fleet: Fleet) -> str:
    """How many machines of each kind, as a wish notes it."""
    return ",".join(str(group.count) for group in fleet.blueprint.nodes)


async def set_desired_size(client: Client, fleet: str, nodes: int) -> None:
    """Say how many machines of each kind a running fleet should have."""
    patch = {"data": {NODES: str(nodes)}}
    await client.patch(kinds.CONFIG_MAP, name_of(fleet), patch, NAMESPACE)


async def follow(client: Client, fleet: Fleet, run: Run) -> None:
    """Run the fleet at the size that is wished for, and anew whenever that changes."""
    await _offer(client, fleet)
    selection = ObjectSelection(NAMESPACE, field_selector=f"metadata.name={name_of(fleet.name)}")
    wishes: Cache[ConfigMap] = Cache(client, kinds.CONFIG_MAP, ConfigMap, selection)
    changed = asyncio.Event()
    wishes.subscribe(lambda _: changed.set())
    async with asyncio.TaskGroup() as group:
        group.create_task(wishes.run(), name="fleet-size")
        await wishes.synced.wait()
        while True:
            changed.clear()
            wished = _wished(fleet, wishes.get(name_of(fleet.name), NAMESPACE))
            await _remove_surplus(client, wished)
            running = group.create_task(run(wished), name="fleet-machines")
            while _wished(fleet, wishes.get(name_of(fleet.name), NAMESPACE)) == wished:
                await changed.wait()
                changed.clear()
            running.cancel()
            await asyncio.wait({running})


async def _offer(client: Client, fleet: Fleet) -> None:
    """Have a ConfigMap to write a wish into; one for a fleet of another size starts afresh."""
    made_for = size(fleet)
    try:
        known = await client.get(kinds.CONFIG_MAP, name_of(fleet.name), NAMESPACE)
    except errors.NotFound:
        metadata = {"name": name_of(fleet.name), "namespace": NAMESPACE}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        await client.create(kinds.CONFIG_MAP, {**body, "data": {MADE_FOR: made_for}}, NAMESPACE)
        return
    if (known.get("data") or {}).get(MADE_FOR) != made_for:
        patch = {"data": {MADE_FOR: made_for, NODES: None}}
        await client.patch(kinds.CONFIG_MAP, name_of(fleet.name), patch, NAMESPACE)


def _wished(fleet: Fleet, said: ConfigMap | None) -> Fleet:
    text = said.data.get(NODES, "") if said else ""
    return scaled(fleet, int(text)) if text.isdecimal() else fleet


async def _remove_surplus(client: Client, fleet: Fleet) -> None:
    """Machines that the fleet no longer has."""
    ours = ObjectSelection(label_selector=f"{FLEET_LABEL}={fleet.name}")
    page = await client.list(kinds.NODE, ours)
    for item in page.items:
        name = msgspec.json.decode(item, type=_Item).metadata.name
        if name not in fleet.machines:
            with contextlib.suppress(errors.NotFound):
                await client.delete(kinds.NODE, name)
