"""Runs the checks: on a private API server for a command, or beside a driver that runs already."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from dray.api import kinds
from dray.apiserver.server import Settings
from dray.apiserver.serving.limits import ServerLimits
from dray.client import kubeconfig
from dray.client.api_client import Client
from dray.cluster import assembly
from dray.cluster.assembly import ClusterPlan
from dray.conformance.check import (
    CheckFailed,
    CheckOutcome,
    CheckResult,
    ConformanceCheck,
    NotApplicable,
)
from dray.conformance.claims import ALL_GATES
from dray.conformance.driver_process import Launcher, parse
from dray.conformance.site import CallFailed, Patience, Site
from dray.driverkit.plugin import Directories
from dray.node.devices.drivers import Drivers
from dray.store import memory
from dray.testing import keys

NODE: Final = "conformance-node"


@contextlib.asynccontextmanager
async def site_of_command(command: str, patience: Patience | None = None) -> AsyncIterator[Site]:
    """Start a driver on a node of a private API server. Raises CommandInvalid."""
    parse(command)
    # Paths of sockets must be short.
    folder = Path(tempfile.mkdtemp(prefix="dray-"))
    settings = Settings(features=ALL_GATES, limits=ServerLimits(shutdown_seconds=0.1))
    plan = ClusterPlan(settings=settings, schedules=False, controls=False)
    try:
        async with (
            memory.open() as store,
            assembly.running(store, keys.directory(), plan) as cluster,
            cluster.opened.server.listening(
                keys.LOOPBACK, 0, keys.server_pair(), keys.authority().certificate
            ) as url,
        ):
            kubeconfig.write(folder / "kubeconfig", keys.connection(url))
            client = cluster.client()
            await client.create(kinds.NODE, {**kinds.NODE.type_meta, "metadata": {"name": NODE}})
            places = _made_places(folder)
            launcher = Launcher(command, places, folder, NODE, folder / "kubeconfig")
            site = Site(client, NODE, places, launcher=launcher, patience=patience)
            async with _running(site):
                yield site
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def site_of_socket(
    client: Client, socket: Path, node: str, cdi: Path, patience: Patience | None = None
) -> AsyncIterator[Site]:
    """Use a driver that runs on a node of a cluster already; its objects are removed at the end."""
    places = Directories(socket.parent, cdi=cdi)
    site = Site(client, node, places, socket=socket, patience=patience)
    try:
        yield site
    finally:
        await site.claims.remove_all()
        await site.close()


@contextlib.asynccontextmanager
async def _running(site: Site) -> AsyncIterator[None]:
    """Run the driver, and the part of dray's node agent that registers drivers."""
    agent = asyncio.create_task(Drivers(site.places.registry).run(), name="conformance-agent")
    try:
        await site.start()
        yield
    finally:
        agent.cancel()
        await asyncio.wait({agent})
        await site.close()


def _made_places(folder: Path) -> Directories:
    places = Directories.under(folder)
    for path in (places.registry, places.plugins, places.cdi):
        path.mkdir()
    return places


async def results(site: Site, checks: Sequence[ConformanceCheck]) -> AsyncIterator[CheckResult]:
    """Make the checks in order and yield each result; those that mostly wait do so meanwhile."""
    waiting: list[asyncio.Task[CheckResult]] = []
    try:
        for check in checks:
            if check.in_background:
                waiting.append(asyncio.create_task(_result(site, check), name=check.id))
                continue
            if check.ends_driver:
                while waiting:
                    yield await waiting.pop(0)
            yield await _result(site, check)
        while waiting:
            yield await waiting.pop(0)
    finally:
        for task in waiting:
            task.cancel()


async def _result(site: Site, check: ConformanceCheck) -> CheckResult:
    begun = time.monotonic()
    outcome, seen = CheckOutcome.PASSED, ""
    try:
        await check.body(site)
    except NotApplicable as reason:
        outcome, seen = CheckOutcome.SKIPPED, str(reason)
    except (CheckFailed, CallFailed) as failure:
        outcome, seen = CheckOutcome.FAILED, str(failure)
    except TimeoutError:
        outcome, seen = CheckOutcome.FAILED, f"it did not happen in time; {site.state}"
    return CheckResult(check, outcome, seen, time.monotonic() - begun)
