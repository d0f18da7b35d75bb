"""Runs the local host as a node of the cluster, with the driver of its NVIDIA GPUs."""

from __future__ import annotations

import asyncio
import contextlib
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from dray import supervision
from dray.api import errors, kinds
from dray.client.api_client import Client, ObjectSelection
from dray.cluster.simulated_nodes import (
    NodeEnvironment,
    Part,
    Serving,
    SimulatedNodes,
    sockets_root,
)
from dray.driverkit.plugin import Directories
from dray.drivers.nvidia import device_classes, devices
from dray.drivers.nvidia import driver as drivers
from dray.drivers.nvidia.driver import NvidiaDriver, Options
from dray.drivers.nvidia.inventory import Settings
from dray.drivers.nvidia.runner import Running
from dray.node import host_info
from dray.node.registration import Registration

FOLDER: Final = "computer"
"""In the data directory, but not under `nodes`: those folders are removed with their fleet."""
SOCKETS: Final = (f"registry/{devices.DRIVER}-reg.sock", f"plugins/{devices.DRIVER}/dra.sock")


class LocalNode:
    """Runs the local host as one node, with the runtime and endpoint of the other nodes."""

    def __init__(self, environment: NodeEnvironment, nodes: SimulatedNodes) -> None:
        self._environment = environment
        self._nodes = nodes
        self.name = platform.node().lower()

    async def run(self) -> None:
        root = sockets_root(self._environment.directory / FOLDER, SOCKETS)
        places = Directories(root / "registry", root / "plugins", root / "cdi")
        options = Options(Settings(self.name))
        found = await asyncio.to_thread(drivers.find, places.plugins / devices.DRIVER, options)
        await _create_classes(self._environment.fleet_client)
        async with self._nodes.serving() as served, asyncio.TaskGroup() as group:
            for name, part in self._parts(found, root, places, served):
                group.create_task(supervision.run_forever(name, part), name=name)

    def _parts(
        self, driver: NvidiaDriver, folder: Path, places: Directories, served: Serving
    ) -> Iterator[tuple[str, Part]]:
        environment, name = self._environment, self.name
        client = environment.node_client(name)
        registration = Registration(
            client,
            [host_info.node(name, {})],
            lease=name,
            runtime=environment.runtime.name,
            now=environment.now,
            selection=ObjectSelection(field_selector=f"metadata.name={name}"),
        )
        yield "registration", registration.run
        yield from self._nodes.agent_parts(client, name, folder, served)
        yield driver.name, Running(driver, client, name, directories=places).run


async def _create_classes(client: Client) -> None:
    """Create the device classes; existing ones stay, because the user may have changed them."""
    kind = kinds.DEVICE_CLASS
    for device_class in device_classes.device_classes():
        with contextlib.suppress(errors.AlreadyExists):
            await client.create(kind, kind.type_meta | msgspec.to_builtins(device_class))
