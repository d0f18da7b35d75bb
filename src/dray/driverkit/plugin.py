"""One driver on one node, whole: its slices published, its calls served, its health told."""

from __future__ import annotations

import argparse
import asyncio
import datetime
import inspect
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from dray import telemetry
from dray.api import errors, gotime, kinds
from dray.api.meta import OwnerReference
from dray.api.names import PoolId
from dray.api.slices import Device
from dray.api.taints import DeviceTaint
from dray.client import kubeconfig
from dray.client.rest import RestTransport
from dray.client.verbs import Client, Selection
from dray.driverkit.driver import DeviceHealth, Driver, Health
from dray.driverkit.pools import Pool
from dray.driverkit.prepared import PreparedClaims
from dray.driverkit.publisher import Offer, Publisher
from dray.driverkit.server import HealthFeed, PluginServer, Sockets

NODE = kinds.served("", "Node")
TAINT_SUFFIX: Final = "/unhealthy"
LOOK_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 1.0


@dataclass(frozen=True)
class Directories:
    """Where kubelets, and dray's node agent, expect drivers to put their files."""

    registry: Path = Path("/var/lib/kubelet/plugins_registry")
    plugins: Path = Path("/var/lib/kubelet/plugins")
    cdi: Path = Path("/var/run/cdi")


class Plugin:
    """Runs a driver until cancelled."""

    def __init__(
        self,
        driver: Driver,
        client: Client,
        node: str,
        *,
        directories: Directories | None = None,
        instance: str = "",
        now: Callable[[], datetime.datetime] | None = None,
    ) -> None:
        where = directories or Directories()
        self._driver = driver
        self._client = client
        self._node = node
        self._now = now or _utc_now
        self._pool_id = PoolId(driver.name, node)
        self._owner: OwnerReference | None = None
        self._unhealthy: dict[str, DeviceTaint] = {}
        self._feed = HealthFeed(node)
        self.claims = PreparedClaims(driver, where.plugins / driver.name, where.cdi)
        self.server = PluginServer(
            driver.name,
            client,
            self.claims,
            self._feed,
            Sockets.of(driver.name, where.registry, where.plugins, instance),
        )
        ours = Selection(field_selector=f"spec.driver={driver.name},spec.nodeName={node}")
        self._publisher = Publisher(client, self._describe, selection=ours)

    @property
    def is_published(self) -> bool:
        return self._owner is not None and self._publisher.is_settled

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()

        def notice() -> None:
            """A driver may notice a change in any of its threads."""
            loop.call_soon_threadsafe(changed.set)

        self._driver.changed = notice
        async with self.server.serving(), asyncio.TaskGroup() as group:
            self._owner = await self._find_node()
            group.create_task(self._publisher.run(), name=f"{self._driver.name}-publisher")
            while True:
                changed.clear()
                await self._look()
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        await changed.wait()
                except TimeoutError:
                    continue

    async def _find_node(self) -> OwnerReference:
        """Slices go away with their node; it may not have registered yet."""
        while True:
            try:
                node = await self._client.get(NODE, self._node)
            except errors.StatusError:
                await asyncio.sleep(RETRY_SECONDS)
            else:
                uid = node["metadata"]["uid"]
                return OwnerReference("v1", "Node", self._node, uid, controller=True)

    async def _look(self) -> None:
        """Ask the driver what there is and how it is; publish it if that is news."""
        reported = self._driver.health()
        reported = await reported if inspect.isawaitable(reported) else reported
        health = {each.device: each for each in reported}
        self._feed.set(
            health.get(device.name, DeviceHealth(device.name, Health.HEALTHY))
            for device in self._driver.devices()
        )
        self._unhealthy = {
            each.device: self._taint(each)
            for each in health.values()
            if each.health is Health.UNHEALTHY and each.effect
        }
        self._publisher.refresh(self._pool_id)

    def _taint(self, report: DeviceHealth) -> DeviceTaint:
        known = self._unhealthy.get(report.device)
        if known is not None and known.effect == report.effect:
            return known
        return DeviceTaint(
            key=self._driver.name + TAINT_SUFFIX,
            effect=report.effect or "",
            time_added=gotime.write(self._now()),
        )

    def _describe(self, pool_id: PoolId) -> Offer | None:
        if pool_id != self._pool_id:
            return None
        pool = Pool(
            self._driver.name,
            self._node,
            tuple(map(self._with_taint, self._driver.devices())),
            tuple(self._driver.shared_counters()),
            node_name=self._node,
        )
        return Offer(pool, self._owner)

    def _with_taint(self, device: Device) -> Device:
        taint = self._unhealthy.get(device.name)
        if taint is None:
            return device
        return msgspec.structs.replace(device, taints=(*device.taints, taint))


def main(driver: Driver, arguments: list[str] | None = None) -> None:
    """The command line of a driver: run it on this node until stopped."""
    options = _parser(driver.name).parse_args(arguments)
    telemetry.configure_logging()
    try:
        asyncio.run(_serve(driver, options))
    except KeyboardInterrupt:
        return


async def _serve(driver: Driver, options: argparse.Namespace) -> None:
    directories = Directories(options.registry, options.plugins, options.cdi)
    async with RestTransport(kubeconfig.load(options.kubeconfig)) as transport:
        client = Client(transport, field_manager=driver.name)
        await Plugin(
            driver, client, options.node, directories=directories, instance=options.instance
        ).run()


def _parser(name: str) -> argparse.ArgumentParser:
    default = Directories()
    parser = argparse.ArgumentParser(prog=name, description=f"The DRA driver {name}.")
    parser.add_argument("--kubeconfig", help="how to reach the API server")
    parser.add_argument("--node", default=os.environ.get("NODE_NAME") or platform.node())
    parser.add_argument("--registry", type=Path, default=default.registry)
    parser.add_argument("--plugins", type=Path, default=default.plugins)
    parser.add_argument("--cdi", type=Path, default=default.cdi)
    parser.add_argument("--instance", default=os.environ.get("POD_UID", ""))
    return parser


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
