"""This computer as a node of the cluster: its agent, and the driver of the GPUs it really has."""

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
from dray.cluster.simulated_nodes import NodeEnvironment, Part, SimulatedNodes, sockets_root
from dray.driverkit.plugin import Directories
from dray.drivers.nvidia import device_classes, devices
from dray.drivers.nvidia import driver as drivers
from dray.drivers.nvidia.driver import NvidiaDriver, Options
from dray.drivers.nvidia.inventory import Settings
from dray.drivers.nvidia.runner import Running
from dray.node import host_info
from dray.node.node_status import AgentAddress, NodeStatusUpdater
from dray.node.pods.context import RuntimeConfig
from dray.node.registration import Registration

FOLDER: Final = "computer"
"""In the data directory, and not among the machines of fleets: those go with their fleet."""
SOCKETS: Final = (f"registry/{devices.DRIVER}-reg.sock", f"plugins/{devices.DRIVER}/dra.sock")


class LocalNode:
    """Runs one node, on nodes' common means."""

    def __init__(self, site: NodeEnvironment, machines: SimulatedNodes) -> None:
        self._site = site
        self._machines = machines
        self._name = platform.node().lower()

    async def run(self) -> None:
        root = sockets_root(self._site.directory / FOLDER, SOCKETS)
        places = Directories(root / "registry", root / "plugins", root / "cdi")
        options = Options(Settings(self._name))
        found = await asyncio.to_thread(drivers.find, places.plugins / devices.DRIVER, options)
        await _create_classes(self._site.fleet_client)
        async with self._machines.serving() as (means, reach), asyncio.TaskGroup() as group:
            for name, part in self._parts(found, root, places, means, reach):
                group.create_task(supervision.run_forever(name, part), name=name)

    def _parts(
        self,
        driver: NvidiaDriver,
        folder: Path,
        places: Directories,
        means: RuntimeConfig,
        reach: AgentAddress,
    ) -> Iterator[tuple[str, Part]]:
        site, name = self._site, self._name
        client = site.node_client(name)
        registration = Registration(
            client,
            [host_info.node(name, {})],
            lease=name,
            runtime=site.runtime.name,
            now=site.now,
            selection=ObjectSelection(field_selector=f"metadata.name={name}"),
        )
        yield "registration", registration.run
        presence = NodeStatusUpdater(client, name, site.runtime.name, reach, site.features)
        yield "presence", presence.run
        yield "agent", lambda: self._machines.run_agent(client, name, folder, means)
        yield driver.name, Running(driver, client, name, directories=places).run


async def _create_classes(client: Client) -> None:
    """Those that are there already may have been changed by somebody, and stay."""
    identity = {"apiVersion": "resource.k8s.io/v1", "kind": kinds.DEVICE_CLASS.kind}
    for device_class in device_classes.device_classes():
        with contextlib.suppress(errors.AlreadyExists):
            await client.create(kinds.DEVICE_CLASS, identity | msgspec.to_builtins(device_class))
