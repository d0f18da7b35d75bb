"""`dray get devices --watch`: reads the devices again when something changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from dray.api import errors, kinds
from dray.api.kinds import Kind
from dray.cli.command_errors import ObjectNotFound
from dray.cli.inputs import published_devices
from dray.cli.inputs.published_devices import PublishedDevice
from dray.cli.session.connection import Session
from dray.client.api_client import EVERYTHING

WATCHED = (
    *(kinds.RESOURCE_SLICE, kinds.RESOURCE_CLAIM, kinds.DEVICE_TAINT_RULE, kinds.NODE, kinds.POD),
)
SETTLE_SECONDS = 0.1
"""Changes that come together are shown together."""


async def changes(
    session: Session, known: Sequence[PublishedDevice]
) -> AsyncIterator[list[PublishedDevice]]:
    """Yield the devices that are new or different, each time that there are some."""
    before = {_key(device): device for device in known}
    changed = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for kind in WATCHED:
            group.create_task(_watch(session, kind, changed))
        while True:
            await changed.wait()
            await asyncio.sleep(SETTLE_SECONDS)
            changed.clear()
            found, _ = await published_devices.read(session)
            different = [device for device in found if before.get(_key(device)) != device]
            before = {_key(device): device for device in found}
            if different:
                yield different


def _key(device: PublishedDevice) -> tuple[str, str, str]:
    return device.driver, device.pool, device.name


async def _watch(session: Session, kind: Kind, changed: asyncio.Event) -> None:
    """Set `changed` with every event of a kind; ends if the kind cannot be watched."""
    with contextlib.suppress(errors.Forbidden, errors.NotFound, ObjectNotFound):
        (served,) = await session.resources.named(f"{kind.plural}.{kind.group}".rstrip("."))
        while True:
            async for event in session.client.watch(served, EVERYTHING):
                if event.type != "BOOKMARK":
                    changed.set()
