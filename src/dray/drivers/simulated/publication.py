"""Waits until the devices of a fleet are published."""

from __future__ import annotations

import asyncio

from dray.api import kinds
from dray.api.ids import PoolId
from dray.api.types.dra import ResourcePool
from dray.api.types.meta import ObjectMeta, Wire
from dray.client.api_client import Client, ObjectSelection
from dray.client.cache import Cache
from dray.drivers.simulated import scaling
from dray.drivers.simulated.fleet import FLEET_LABEL, Fleet

_BY_POOL = "pool"


class _SliceSpec(Wire, frozen=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()


class _Slice(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _SliceSpec = _SliceSpec()

    @property
    def pool_id(self) -> PoolId:
        return PoolId(self.spec.driver, self.spec.pool.name)


async def wait_until_published(client: Client, fleet: Fleet, seconds: float) -> bool:
    """Wait until every pool of a running fleet is published; return whether that came in time."""
    missing = _pools(await scaling.at_requested_size(client, fleet))
    selection = ObjectSelection(label_selector=f"{FLEET_LABEL}={fleet.name}")
    indexes = {_BY_POOL: lambda one: (one.pool_id,)}
    slices: Cache[_Slice] = Cache(client, kinds.RESOURCE_SLICE, _Slice, selection, indexes)
    changed = asyncio.Event()
    slices.subscribe(lambda _: changed.set())
    following = asyncio.create_task(slices.run())
    try:
        async with asyncio.timeout(seconds):
            while missing := {pool for pool in missing if not _is_complete(slices, pool)}:
                await changed.wait()
                changed.clear()
    except TimeoutError:
        return False
    finally:
        following.cancel()
    return True


def _pools(fleet: Fleet) -> set[PoolId]:
    of_nodes = {
        PoolId(driver, node.name)
        for node in fleet.machines.values()
        for driver in node.group.devices
    }
    shared = {
        PoolId(driver, group.name) for group in fleet.blueprint.pools for driver in group.devices
    }
    return of_nodes | shared


def _is_complete(slices: Cache[_Slice], pool: PoolId) -> bool:
    published = list(slices.find(_BY_POOL, pool))
    newest = max((one.spec.pool.generation for one in published), default=0)
    current = [one for one in published if one.spec.pool.generation == newest]
    return bool(current) and len(current) >= current[0].spec.pool.resource_slice_count
