"""Checks of a rolling update: two processes of the driver on one node for a while."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from dray.conformance.check import CheckFailed, Group, NotApplicable
from dray.conformance.checks import restart
from dray.conformance.checks.prepare import in_any_order
from dray.conformance.claims import ClaimPlan
from dray.conformance.driver_process import DriverProcess
from dray.conformance.site import DriverRegistration, Site, until

GROUP = Group(
    "upgrade",
    "dynamic-resource-allocation/kubeletplugin: draplugin.go, RollingUpdate",
    ends_driver=True,
)
PLAIN: Final = ClaimPlan()
ONE_SOCKET: Final = (
    "the driver has one socket for all its processes, so a rolling update is not possible"
)


@contextlib.asynccontextmanager
async def _second(site: Site) -> AsyncIterator[DriverRegistration]:
    """Run a second process beside the first. Raises NotApplicable where that is not supported."""
    started, second = await _started(site)
    try:
        yield second
    finally:
        await started.terminate(site.patience.end_seconds)
        site.forget()


async def _started(site: Site) -> tuple[DriverProcess, DriverRegistration]:
    """Start a second process. Where it is in the way of the first, only the first runs again."""
    launcher, process = site.need_process()
    first = await site.registration()
    stamp = _stamp(first.socket)
    started = await launcher.start(str(uuid.uuid4()))

    async def look() -> DriverRegistration | None:
        if _stamp(first.socket) != stamp:
            raise NotApplicable(ONE_SOCKET)
        found = await site.registrations()
        return next((one for one in found if one.socket != first.socket), None)

    try:
        wait = site.patience.register_seconds
        return started, await until(look, wait, lambda: not started.is_running)
    except (NotApplicable, TimeoutError) as error:
        state, is_running = started.state, started.is_running
        await started.kill()
        await process.kill()
        await restart.start_again(site)
        if isinstance(error, NotApplicable):
            raise
        if not is_running:
            raise NotApplicable(f"a second process does not stay: {state}") from None
        raise CheckFailed(f"the second process did not register; {state}") from None


def _stamp(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


@GROUP.check(
    "beside",
    "A second process with another pod uid registers beside the first, under the same name.",
    "Put the pod's uid ($POD_UID or {instance}) into the names of both sockets.",
)
async def beside(site: Site) -> None:
    first = await site.registration()
    async with _second(site) as second:
        if second.name != first.name or second.endpoint == first.endpoint:
            raise CheckFailed(f"the first is {first}, the second {second}")
        if first not in await site.registrations():
            raise CheckFailed("the first process does not answer any more")


@GROUP.check(
    "claims",
    "Each process prepares and unprepares the claims of the other.",
    "Share the state on disk between the processes, under a lock.",
)
async def claims(site: Site) -> None:
    first = await site.registration()
    async with site.made(PLAIN) as [claim], _second(site) as second:
        before = in_any_order(await site.devices_of(claim))
        site.use(second)
        if in_any_order(await site.devices_of(claim)) != before:
            raise CheckFailed("the second process prepares a claim of the first differently")
        await site.released(claim)
        site.use(first)
        await site.devices_of(claim)


@GROUP.check(
    "handover",
    "The second process goes on when the first ends: its sockets and the slices stay.",
    "Remove only your own sockets at the end, and leave slices alone.",
)
async def handover(site: Site) -> None:
    _, old = site.need_process()
    wanted = {device.name for one in await site.published() for device in one.spec.devices}
    started, second = await _started(site)
    has_ended = await old.terminate(site.patience.end_seconds)
    site.process = started
    site.use(second)
    if not has_ended:
        raise NotApplicable("the driver does not end: see restart.ends")
    if second not in await site.registrations():
        raise CheckFailed("the second process does not answer any more")
    found = {device.name for one in await site.slices() for device in one.spec.devices}
    if not wanted <= found:
        raise CheckFailed(f"devices are not published any more: {sorted(wanted - found)}")
    async with site.made(PLAIN) as [claim]:
        await site.devices_of(claim)
