"""A driver under test: on its sockets in a cluster, called as a node agent calls drivers."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from dray.api import errors, kinds
from dray.client.api_client import Client
from dray.driverkit import cdi
from dray.driverkit.cdi import Edits
from dray.driverkit.driver import Driver
from dray.driverkit.plugin import Directories, Plugin
from dray.node.devices.drivers import ClaimReference, Drivers
from dray.node.devices.drivers import DriverConnection as RegisteredDriver

READY_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.005


@dataclasses.dataclass(frozen=True)
class DriverUnderTest:
    """`prepare` and `unprepare` go through registration and gRPC, as on a real node."""

    plugin: Plugin
    node: str
    _name: str
    _places: Directories
    _client: Client
    _drivers: Drivers
    _run: Callable[[Any], Any]

    @classmethod
    @contextlib.contextmanager
    def running(
        cls, driver: Driver, node: str, folder: Path, *, client: Client, run: Callable[[Any], Any]
    ) -> Iterator[DriverUnderTest]:
        places = Directories.under(folder)
        plugin = Plugin(driver, client, node, directories=places)
        drivers = Drivers(places.registry)
        made = cls(plugin, node, driver.name, places, client, drivers, run)
        tasks = run(made._start())
        try:
            yield made
        finally:
            run(_end(tasks))

    def prepare(self, claim: str, namespace: str = "default") -> Edits:
        """Prepare an allocated claim, and return the edits that its containers would get."""
        edits: Edits = self._run(self._prepare(claim, namespace))
        return edits

    def unprepare(self, claim: str, namespace: str = "default") -> None:
        self._run(self._unprepare(claim, namespace))

    async def _start(self) -> list[asyncio.Task[None]]:
        with contextlib.suppress(errors.AlreadyExists):
            await self._client.create(kinds.DEVICE_CLASS, _device_class(self._name))
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(component.run()) for component in (self.plugin, self._drivers)]
        try:
            async with asyncio.timeout(READY_SECONDS):
                while not (self.plugin.is_published and self._name in self._drivers.names):
                    for task in tasks:
                        if task.done():
                            task.result()
                    await asyncio.sleep(LOOK_SECONDS)
        except BaseException:
            await _end(tasks)
            raise
        return tasks

    async def _prepare(self, claim: str, namespace: str) -> Edits:
        devices = await self._registered().prepare(await self._reference(claim, namespace))
        ids = [id_ for device in devices for id_ in device.cdi_ids]
        return cdi.resolve(ids, [self._places.cdi])

    async def _unprepare(self, claim: str, namespace: str) -> None:
        await self._registered().unprepare(await self._reference(claim, namespace))

    def _registered(self) -> RegisteredDriver:
        found = self._drivers.find(self._name)
        if found is None:
            raise LookupError(f"driver {self._name} is not registered on {self.node}")
        return found

    async def _reference(self, claim: str, namespace: str) -> ClaimReference:
        found = await self._client.get(kinds.RESOURCE_CLAIM, claim, namespace)
        return ClaimReference(namespace, claim, found["metadata"]["uid"])


def _device_class(driver: str) -> dict[str, Any]:
    spec = {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]}
    return {**kinds.DEVICE_CLASS.type_meta, "metadata": {"name": driver}, "spec": spec}


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
