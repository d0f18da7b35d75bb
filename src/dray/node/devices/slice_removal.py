"""Removes the ResourceSlices of drivers that cannot be called: a pod would wait for them in vain.

As pkg/kubelet/cm/dra/plugin: a driver has some time to come back, as in an upgrade. The drivers
whose slices a starting agent finds have the same time to register; a kubelet gives them none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable
from typing import Final

import msgspec

from dray.api import errors, kinds
from dray.api.types.meta import Wire
from dray.client.api_client import Client, ObjectSelection
from dray.node.devices.drivers import Drivers

log = logging.getLogger(__name__)

DELAY_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 5.0
PAGE_SLICES: Final = 500


class _Spec(Wire, frozen=True):
    driver: str = ""


class _Slice(Wire, frozen=True):
    spec: _Spec = _Spec()


class SliceRemoval:
    """Follows the drivers of one node. Run it until cancelled."""

    def __init__(self, client: Client, node: str, drivers: Drivers) -> None:
        self._client, self._node = client, node
        self._drivers = drivers
        self._known: set[str] = set()
        """The drivers that may have slices."""
        self._due: dict[str, float] = {}
        """When the slices of a driver are removed, by the time of the loop."""
        self._removed: set[str] = set()
        """The drivers whose slices were removed since they were usable or registered."""
        self._registered: set[str] = set()

    async def run(self) -> None:
        self._known = await self._published()
        while True:
            # Taken first: a change that happens meanwhile ends the wait below.
            changed = self._drivers.changed
            self._update()
            await self._remove_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(self._due.values(), default=None)):
                    await changed.wait()

    def _update(self) -> None:
        """Give drivers that are not usable some time; those that are usable have all time."""
        usable, registered = self._drivers.usable_names, set(self._drivers.names)
        self._known |= usable | registered
        # One that goes may have published again after its connection was lost.
        self._removed -= usable | (self._registered - registered)
        self._registered = registered
        due = asyncio.get_running_loop().time() + DELAY_SECONDS
        for name in usable:
            self._due.pop(name, None)
        for name in self._known - usable - self._removed:
            self._due.setdefault(name, due)

    async def _remove_due(self) -> None:
        now = asyncio.get_running_loop().time()
        for name in [name for name, due in self._due.items() if due <= now]:
            if await self._succeeds(self._remove(name)):
                del self._due[name]
                self._removed.add(name)
            else:
                self._due[name] = now + RETRY_SECONDS

    async def _remove(self, driver: str) -> None:
        await self._client.delete_collection(kinds.RESOURCE_SLICE, self._of_node(driver))
        log.info("driver %s is not usable: its ResourceSlices on this node were removed", driver)

    async def _published(self) -> set[str]:
        """Return the drivers that have slices of this node."""
        found: set[str] = set()

        async def read() -> None:
            async for page in self._client.pages(
                kinds.RESOURCE_SLICE, self._of_node(), limit=PAGE_SLICES
            ):
                found.update(
                    msgspec.json.decode(item, type=_Slice).spec.driver for item in page.items
                )

        while not await self._succeeds(read()):
            await asyncio.sleep(RETRY_SECONDS)
        return found

    async def _succeeds(self, work: Awaitable[None]) -> bool:
        try:
            await work
        except errors.StatusError as error:
            log.warning("ResourceSlices of node %s: %s", self._node, error)
            return False
        return True

    def _of_node(self, driver: str = "") -> ObjectSelection:
        of_driver = f",spec.driver={driver}" if driver else ""
        return ObjectSelection(field_selector=f"spec.nodeName={self._node}{of_driver}")
