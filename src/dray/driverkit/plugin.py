"""Runs one driver on one node: publishes its slices, serves its calls, reports its health."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import inspect
import logging
import os
import platform
import signal
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from dray import metrics_http, telemetry
from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.ids import PoolId
from dray.api.types.dra import CounterSet, Device, DeviceTaint, ResourceSlice
from dray.api.types.meta import OwnerReference
from dray.client import kubeconfig
from dray.client.api_client import Client, ObjectSelection
from dray.client.cache import Cache, HasMetadata, ObjectChange
from dray.client.rest import RestTransport
from dray.clock import utc_now
from dray.driverkit.checkpoint import CheckpointError
from dray.driverkit.device_status_reports import StatusReports
from dray.driverkit.driver import DeviceHealth, DeviceStatus, Driver, Health, unhealthy_key
from dray.driverkit.metrics import Metrics
from dray.driverkit.pool_layout import PublishedPool
from dray.driverkit.prepared_claims import PreparedClaims
from dray.driverkit.publisher import PoolToPublish, Publisher
from dray.driverkit.server import HealthFeed, PluginServer
from dray.driverkit.sockets import Sockets

log = logging.getLogger(__name__)


LOOK_SECONDS: Final = 5.0
NODE_SECONDS: Final = 3.0
REGISTRATION_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Directories:
    """The directories where kubelets, and dray's node agent, expect the files of drivers."""

    registry: Path = Path("/var/lib/kubelet/plugins_registry")
    plugins: Path = Path("/var/lib/kubelet/plugins")
    cdi: Path = Path("/var/run/cdi")

    @classmethod
    def under(cls, folder: Path) -> Directories:
        """Return the directories that dray's node agent uses in the folder of a node."""
        return cls(folder / "registry", folder / "plugins", folder / "cdi")


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
        now: Callable[[], datetime.datetime] = utc_now,
        registry: telemetry.Registry | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        name, where = driver.name, directories or Directories()
        mine = client.managed_by(name)
        sockets = Sockets.of(name, where.registry, where.plugins, instance)
        self._driver = driver
        self._node = node
        self._sockets = sockets
        self._now = now
        self._pool_id = PoolId(name, node)
        self._inventory: _Inventory | None = None
        self._taints: Mapping[str, DeviceTaint] = {}
        """The taints of unhealthy devices as published last, by device."""
        self._feed = HealthFeed(node)
        self._changed = asyncio.Event()
        self.claims = PreparedClaims(driver, where.plugins / name, where.cdi, self._now)
        self._reports = StatusReports(name, mine, self.claims)
        metrics = registry or telemetry.Registry()
        self._metrics = Metrics(name, metrics, lambda: len(list(self.claims)))
        self.server = PluginServer(
            name, mine, self.claims, self._feed, sockets, self._metrics, self._reports.refresh
        )
        self._client = mine
        self._slices = ObjectSelection(field_selector=f"spec.driver={name},spec.nodeName={node}")
        self._publisher = Publisher(
            mine,
            self._describe,
            selection=self._slices,
            labels=labels,
            is_paused=self._leaves_alone,
        )
        self._nodes: Cache[HasMetadata] = Cache(
            mine, kinds.NODE, HasMetadata, ObjectSelection(field_selector=f"metadata.name={node}")
        )
        self._nodes.subscribe(self._node_changed)

    @property
    def is_published(self) -> bool:
        """Whether the API shows the devices that the driver described last."""
        is_known = self._inventory is not None and self._owner is not None
        return is_known and self._publisher.is_settled

    async def run(self) -> None:
        async with self.server.serving(), asyncio.TaskGroup() as group:
            self._connect(asyncio.get_running_loop(), group)
            group.create_task(self._nodes.run(), name=f"{self._driver.name}-node")
            group.create_task(self._reports.run(), name=f"{self._driver.name}-status")
            await self._nodes.synced.wait()
            group.create_task(self._warn_of_missing_node(), name=f"{self._driver.name}-no-node")
            group.create_task(self._warn_of_missing_agent(), name=f"{self._driver.name}-no-agent")
            self._taints = await self._published_taints()
            group.create_task(self._publisher.run(), name=f"{self._driver.name}-publisher")
            while True:
                self._changed.clear()
                await self._look()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._changed.wait()

    async def _warn_of_missing_node(self) -> None:
        # A node that starts together with its drivers is there soon.
        await asyncio.sleep(NODE_SECONDS)
        if self._owner is None:
            log.warning(
                "there is no Node %s: %s publishes nothing until it exists. Is --node the name of "
                "this node? See: dray get nodes",
                self._node,
                self._driver.name,
            )

    async def _warn_of_missing_agent(self) -> None:
        try:
            async with asyncio.timeout(REGISTRATION_SECONDS):
                await self.server.registered.wait()
        except TimeoutError:
            log.warning(
                "no node agent has registered %s yet, so no pod gets its devices. Is %s the folder "
                "that the agent of %s watches? With `dray up` it is DATA/nodes/NODE/registry",
                self._driver.name,
                self.server.sockets.registration.parent,
                self._node,
            )

    def _connect(self, loop: asyncio.AbstractEventLoop, group: asyncio.TaskGroup) -> None:
        """Connect the driver's callbacks, which may be called from any thread."""

        def start(name: str, work: Callable[..., Coroutine[Any, Any, None]], *given: Any) -> None:
            loop.call_soon_threadsafe(lambda: group.create_task(work(*given), name=name))

        self._driver.abort = lambda error: start(f"{self._driver.name}-abort", _raise, error)
        self._driver.changed = lambda: loop.call_soon_threadsafe(self._changed.set)
        self._driver.report = lambda *report: start("report", self._report, *report)

    async def _report(self, uid: str, device: str, status: DeviceStatus) -> None:
        try:
            await self.claims.report(uid, device, status)
        except (OSError, TypeError):
            log.exception("the report of %s about %s cannot be stored", self._driver.name, device)
            self._metrics.faults.add(self._driver.name)
        else:
            self._reports.refresh(uid)

    @property
    def _owner(self) -> OwnerReference | None:
        """Return the Node that owns the slices, or None before it exists."""
        node = self._nodes.get(self._node)
        if node is None:
            return None
        return OwnerReference("v1", "Node", self._node, node.metadata.uid, controller=True)

    def _node_changed(self, change: ObjectChange[HasMetadata]) -> None:
        if change.new is not None:
            try:
                self._driver.node_changed(change.new.metadata)
            except Exception:
                log.exception("%s cannot watch its Node", self._driver.name)
                self._metrics.faults.add(self._driver.name)
        self._changed.set()

    async def _look(self) -> None:
        """Publish the driver's devices; retry later where the driver fails to describe them."""
        try:
            inventory = await self._take_inventory()
        except Exception:
            log.exception("%s: devices() raised an exception", self._driver.name)
            self._metrics.faults.add(self._driver.name)
            return
        if self._inventory is None or len(inventory.devices) != len(self._inventory.devices):
            log.info(
                "%s has %d devices on %s", self._driver.name, len(inventory.devices), self._node
            )
        self._inventory, self._taints = inventory, inventory.taints
        names = [device.name for device in inventory.devices]
        current = [inventory.health.get(name, DeviceHealth(name, Health.HEALTHY)) for name in names]
        self._feed.set(current)
        self._metrics.count_devices(Counter(report.health.name.lower() for report in current))
        self._publisher.refresh(self._pool_id)

    async def _take_inventory(self) -> _Inventory:
        devices = tuple(self._driver.devices())
        counters = tuple(self._driver.shared_counters())
        reported = self._driver.health()
        reported = await reported if inspect.isawaitable(reported) else reported
        health = {report.device: report for report in reported}
        taints = {
            report.device: self._taint(report)
            for report in health.values()
            if report.health is Health.UNHEALTHY and report.effect
        }
        return _Inventory(devices, counters, health, taints)

    def _taint(self, report: DeviceHealth) -> DeviceTaint:
        previous = self._taints.get(report.device)
        if previous is not None and (previous.effect, previous.value) == (
            report.effect,
            report.reason,
        ):
            return previous
        return DeviceTaint(
            key=unhealthy_key(self._driver.name),
            value=report.reason,
            effect=report.effect or "",
            time_added=gotime.write(self._now()),
        )

    async def _published_taints(self) -> Mapping[str, DeviceTaint]:
        """Return the taints that an earlier process of the driver published, by device.

        A taint keeps the time at which it was added: pods that tolerate it for a while would
        otherwise run on after every restart of the driver.
        """
        try:
            page = await self._client.list(kinds.RESOURCE_SLICE, self._slices)
        except errors.StatusError as error:
            log.warning("the taints of %s cannot be read: %s", self._driver.name, error)
            return {}
        key = unhealthy_key(self._driver.name)
        return {
            device.name: taint
            for raw in page.items
            for device in msgspec.json.decode(raw, type=ResourceSlice).spec.devices
            for taint in device.taints
            if taint.key == key
        }

    def _leaves_alone(self) -> bool:
        """Whether slices stay as they are: before the driver has described its devices, and while a
        younger process of the same driver publishes them."""
        return self._inventory is None or self._sockets.has_successor()

    def _describe(self, pool_id: PoolId) -> PoolToPublish | None:
        owner, inventory = self._owner, self._inventory
        if pool_id != self._pool_id or owner is None or inventory is None:
            return None
        if not inventory.devices and self._driver.devices_elsewhere():
            # Only what something else publishes is prepared here.
            return None
        pool = PublishedPool(
            self._driver.name,
            self._node,
            tuple(map(inventory.published, inventory.devices)),
            inventory.counters,
            node_name=self._node,
            skip_node_operations=self._driver.skip_node_operations,
        )
        return PoolToPublish(pool, owner)


@dataclass(frozen=True)
class _Inventory:
    """The devices, counters and health that the driver reported last."""

    devices: tuple[Device, ...]
    counters: tuple[CounterSet, ...]
    health: Mapping[str, DeviceHealth]
    taints: Mapping[str, DeviceTaint]

    def published(self, device: Device) -> Device:
        taint = self.taints.get(device.name)
        if taint is None:
            return device
        return msgspec.structs.replace(device, taints=(*device.taints, taint))


async def _raise(error: Exception) -> None:
    raise error


def main(driver: Driver, arguments: list[str] | None = None) -> None:
    """Run a driver on this node until stopped, as the options on its command line say."""
    options = _parser(driver.name).parse_args(arguments)
    telemetry.configure_logging()
    try:
        asyncio.run(_until_told_to_end(_serve(driver, options)))
    except (CheckpointError, OSError, ValueError) as error:
        raise SystemExit(f"{driver.name}: {error}") from error


async def _until_told_to_end(work: Coroutine[Any, Any, None]) -> None:
    """Run until SIGTERM or SIGINT. Cancels the work, which removes the sockets, before the end."""
    task = asyncio.ensure_future(work)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _serve(driver: Driver, options: argparse.Namespace) -> None:
    chosen = Directories(options.registry, options.plugins, options.cdi)
    directories = Directories.under(options.folder) if options.folder else chosen
    registry = telemetry.Registry()
    async with contextlib.AsyncExitStack() as stack:
        connection = kubeconfig.load(options.kubeconfig)
        client = Client(await stack.enter_async_context(RestTransport(connection)))
        plugin = Plugin(
            driver,
            client,
            options.node,
            directories=directories,
            instance=options.instance,
            registry=registry,
        )
        if options.metrics_port is not None:
            address, requested = metrics_http.EVERY_ADDRESS, options.metrics_port
            serving = metrics_http.serving(
                registry, address, requested, lambda: plugin.is_published
            )
            port = await stack.enter_async_context(serving)
            log.info("metrics and health on port %d", port)
        await plugin.run()


def _parser(name: str) -> argparse.ArgumentParser:
    default = Directories()
    parser = argparse.ArgumentParser(prog=name, description=f"The DRA driver {name}.")
    parser.add_argument(
        "--kubeconfig",
        help="how to reach the API server; $KUBECONFIG, ~/.kube/config or the pod's own by default",
    )
    parser.add_argument(
        "--node",
        default=os.environ.get("NODE_NAME") or platform.node(),
        help="the name of this node's Node object; $NODE_NAME or the host's name by default",
    )
    folders = {
        "--registry": (default.registry, "where the kubelet looks for drivers"),
        "--plugins": (default.plugins, "where drivers keep their state"),
        "--cdi": (default.cdi, "where container runtimes look for CDI files"),
    }
    for option, (path, text) in folders.items():
        parser.add_argument(option, type=Path, default=path, help=f"{text} ({path})")
    parser.add_argument(
        "--folder",
        type=Path,
        help="all three under one folder, as `dray up` has them: ~/.local/share/dray/nodes/NODE",
    )
    parser.add_argument(
        "--instance",
        default=os.environ.get("POD_UID", ""),
        help="distinguishes two instances of this driver during an upgrade; $POD_UID by default",
    )
    parser.add_argument(
        "--metrics-port", type=int, help="serve /metrics, /livez and /readyz on this port"
    )
    return parser
