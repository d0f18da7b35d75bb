"""Runs the NVIDIA driver on its node: its plugin, and its events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from dray import telemetry
from dray.api import kinds
from dray.api.types.core import ObjectReference
from dray.api.types.dra import ResourceClaim
from dray.client import events
from dray.client.api_client import Client
from dray.client.events import Recorder
from dray.clock import utc_now
from dray.driverkit.plugin import Directories, Plugin
from dray.drivers.nvidia.driver import NvidiaDriver

REASON = "SharedWithoutLimits"


class Running:
    """One driver on one node. Run it until cancelled."""

    def __init__(
        self,
        driver: NvidiaDriver,
        client: Client,
        node: str,
        *,
        directories: Directories | None = None,
        instance: str = "",
        registry: telemetry.Registry | None = None,
    ) -> None:
        self._driver = driver
        mine = client.managed_by(driver.name)
        self._recorder = Recorder(mine, driver.name, instance=node, now=utc_now)
        self.plugin = Plugin(
            driver, mine, node, directories=directories, instance=instance, registry=registry
        )

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self._driver.warn = lambda claim, note: loop.call_soon_threadsafe(self._warn, claim, note)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run(), name="nvidia-events")
            group.create_task(self.plugin.run(), name="nvidia-plugin")

    def _warn(self, claim: ResourceClaim, note: str) -> None:
        for regarding in _users(claim):
            self._recorder.record(regarding, events.WARNING, REASON, note)


def _users(claim: ResourceClaim) -> Iterator[ObjectReference]:
    """Return the objects of an event about a claim: itself, and the pods that use it."""
    namespace = claim.metadata.namespace
    yield events.reference(kinds.RESOURCE_CLAIM, claim.metadata)
    for user in claim.status.reserved_for:
        if user.resource == "pods":
            yield ObjectReference(
                kind="Pod", namespace=namespace, name=user.name, uid=user.uid, api_version="v1"
            )
