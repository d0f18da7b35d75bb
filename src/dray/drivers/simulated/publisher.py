"""Publishes the devices of a fleet, and lets them fail and recover on command.

The pools of a node are published while its Node exists. Besides calls of `fail` and `recover`, the
annotations of a Node break its devices; see `faults`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.ids import DeviceId, PoolId
from dray.api.types.dra import Device, DeviceTaint
from dray.api.types.meta import OwnerReference
from dray.api.well_known import NO_EXECUTE
from dray.client.api_client import Client, ObjectSelection
from dray.client.cache import Cache, HasMetadata, ObjectChange
from dray.driverkit.driver import unhealthy_key
from dray.driverkit.pool_layout import PublishedPool
from dray.driverkit.publisher import PoolToPublish, Publisher
from dray.drivers.simulated import faults
from dray.drivers.simulated.fleet import FLEET_LABEL, Fleet, FleetNode

WORKERS = 32
"""Each waits for the server; there may be thousands of pools."""
NO_MACHINE = "spec.nodeName="
"""Selects the slices of pools that belong to no node."""


class _Fault(NamedTuple):
    effect: str
    since: str


class SimulatedDriver:
    """With `machines` unset, only pools that belong to no node are published."""

    def __init__(
        self,
        client: Client,
        fleet: Fleet,
        *,
        now: Callable[[], datetime.datetime],
        machines: bool = True,
    ) -> None:
        self._client = client
        self._fleet = fleet
        self._now = now
        self._faults: dict[PoolId, dict[str, _Fault]] = {}
        self._shared = {PoolId(pool.driver, pool.name): pool for pool in fleet.shared_pools()}
        self._publishes_machines = machines
        ours = ObjectSelection(label_selector=f"{FLEET_LABEL}={fleet.name}")
        self._nodes: Cache[HasMetadata] = Cache(client, kinds.NODE, HasMetadata, ours)
        slices = ours if machines else dataclasses.replace(ours, field_selector=NO_MACHINE)
        self._publisher = Publisher(
            client,
            self._describe,
            selection=slices,
            labels={FLEET_LABEL: fleet.name},
            workers=WORKERS,
        )
        self._nodes.subscribe(self._node_changed)

    @property
    def is_settled(self) -> bool:
        return self._nodes.synced.is_set() and self._publisher.is_settled

    async def run(self) -> None:
        await self._create_classes()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run(), name="simulated-nodes")
            await self._nodes.synced.wait()
            for pool_id in self._shared:
                self._publisher.refresh(pool_id)
            await self._publisher.run()

    def fail(self, device: DeviceId, effect: str = NO_EXECUTE) -> None:
        """Taint a device as its driver would when the hardware breaks."""
        pool_id = device.pool_id
        faults = self._faults.setdefault(pool_id, {})
        if device.device not in faults or faults[device.device].effect != effect:
            faults[device.device] = _Fault(effect, gotime.write(self._now()))
            self._publisher.refresh(pool_id)

    def recover(self, device: DeviceId) -> None:
        pool_id = device.pool_id
        if self._faults.get(pool_id, {}).pop(device.device, None) is not None:
            self._publisher.refresh(pool_id)

    async def _create_classes(self) -> None:
        for device_class in self._fleet.classes():
            body = msgspec.to_builtins(device_class)
            body = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", **body}
            with contextlib.suppress(errors.AlreadyExists):
                await self._client.create(kinds.DEVICE_CLASS, body)

    def _node_changed(self, change: ObjectChange[HasMetadata]) -> None:
        machine = self._machine(change.key.name)
        if machine is not None and (change.old is None or change.new is None):
            for driver in machine.group.devices:
                self._publisher.refresh(PoolId(driver, machine.name))
        before, after = _failed_on(change.old), _failed_on(change.new)
        if before != after:
            self._follow_annotation(change.key.name, before, after)

    def _follow_annotation(
        self, node: str, before: Mapping[str, str], after: Mapping[str, str]
    ) -> None:
        for pool in self._pools(node):
            for device in pool.devices:
                identity = DeviceId(pool.driver, pool.name, device.name)
                if device.name in after:
                    self.fail(identity, after[device.name])
                elif device.name in before:
                    self.recover(identity)

    def _describe(self, pool_id: PoolId) -> PoolToPublish | None:
        shared = self._shared.get(pool_id)
        if shared is not None:
            return PoolToPublish(self._with_faults(shared))
        node = self._nodes.get(pool_id.pool)
        if node is None:
            return None
        owner = OwnerReference("v1", "Node", node.metadata.name, node.metadata.uid, controller=True)
        for pool in self._pools(pool_id.pool):
            if pool.driver == pool_id.driver:
                return PoolToPublish(self._with_faults(pool), owner)
        return None

    def _with_faults(self, pool: PublishedPool) -> PublishedPool:
        faults = self._faults.get(PoolId(pool.driver, pool.name))
        if not faults:
            return pool
        devices = (_broken(pool.driver, device, faults.get(device.name)) for device in pool.devices)
        return msgspec.structs.replace(pool, devices=tuple(devices))

    def _machine(self, node: str) -> FleetNode | None:
        return self._fleet.machines.get(node) if self._publishes_machines else None

    def _pools(self, node: str) -> Iterator[PublishedPool]:
        machine = self._machine(node)
        return machine.pools() if machine else iter(())


def _failed_on(node: HasMetadata | None) -> Mapping[str, str]:
    """Return the broken devices and the effect of their taint, from the annotation."""
    return faults.read(node.metadata.annotations).failed if node else {}


def _broken(driver: str, device: Device, fault: _Fault | None) -> Device:
    if fault is None:
        return device
    taint = DeviceTaint(key=unhealthy_key(driver), effect=fault.effect, time_added=fault.since)
    return msgspec.structs.replace(device, taints=(*device.taints, taint))
