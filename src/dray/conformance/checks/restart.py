"""Checks of a driver that is killed and started again, and of one that is told to end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from dray.api.types.dra import ResourceSlice
from dray.conformance import cdi_specs
from dray.conformance.check import CheckFailed, Group, NotApplicable
from dray.conformance.checks.prepare import in_any_order
from dray.conformance.claims import ClaimPlan
from dray.conformance.site import Site, until

GROUP = Group(
    "restart", "dynamic-resource-allocation/kubeletplugin: doc.go, draplugin.go", ends_driver=True
)
PLAIN: Final = ClaimPlan()
START_SECONDS: Final = 1.0


async def start_again(site: Site) -> None:
    """Start the driver as the same pod, and wait until it is registered."""
    launcher, process = site.need_process()
    site.process = await launcher.start(process.instance)
    site.forget()
    try:
        await site.wait_for_registration()
    except TimeoutError:
        seen = "the driver did not register again after it was started"
        raise CheckFailed(f"{seen}; {site.state}") from None


async def _restarted(site: Site) -> None:
    _, process = site.need_process()
    await process.kill()
    await start_again(site)


@GROUP.check(
    "registered",
    "A driver that was killed registers again when it is started.",
    "Remove the sockets that a former process has left behind, then listen.",
)
async def registered(site: Site) -> None:
    await site.registration()
    await _restarted(site)


@GROUP.check(
    "claims",
    "A claim that was prepared before the driver was killed is prepared again alike.",
    "Keep what is prepared on disk, and write it before the call returns.",
)
async def claims(site: Site) -> None:
    site.need_process()
    async with site.made(PLAIN) as [claim]:
        before = in_any_order(await site.devices_of(claim))
        await _restarted(site)
        after = in_any_order(await site.devices_of(claim))
        if before != after:
            raise CheckFailed(f"before the restart {before}, after it {after}")


@GROUP.check(
    "unprepared",
    "A claim that was prepared before the driver was killed is unprepared after it, files too.",
    "Keep what is prepared on disk; files that are named by the claim's uid can be found again.",
)
async def unprepared(site: Site) -> None:
    site.need_process()
    before = set(cdi_specs.files(site.places.cdi))
    async with site.made(PLAIN) as [claim]:
        await site.devices_of(claim)
        await _restarted(site)
        await site.released(claim)
        if left := sorted(path.name for path in set(cdi_specs.files(site.places.cdi)) - before):
            raise CheckFailed(f"still there: {', '.join(left)}")


@GROUP.check(
    "slices",
    "After a restart the same devices are published, in a generation that is not lower.",
    "Read the generation that is published, and change it only where the pool changes.",
)
async def slices(site: Site) -> None:
    site.need_process()
    before = await site.published()

    async def are_same() -> bool:
        return _devices(await site.slices()) == _devices(before)

    try:
        await until(are_same, site.patience.publish_seconds)
    except TimeoutError:
        raise CheckFailed("other devices are published than before the restarts") from None
    earlier, now = _generations(before), _generations(await site.slices())
    for pool, generation in now.items():
        if generation < earlier.get(pool, 0):
            raise CheckFailed(f"pool {pool} had the generation {earlier[pool]}, now {generation}")


def _devices(slices: Iterable[ResourceSlice]) -> set[tuple[str, str]]:
    return {(one.spec.pool.name, device.name) for one in slices for device in one.spec.devices}


def _generations(slices: Iterable[ResourceSlice]) -> dict[str, int]:
    return {one.spec.pool.name: one.spec.pool.generation for one in slices}


@GROUP.check(
    "ends",
    "The driver ends within 10 s of SIGTERM.",
    "Handle SIGTERM; a pod is killed when its grace period is over.",
)
async def ends(site: Site) -> None:
    _, process = site.need_process()
    in_time = await process.terminate(site.patience.end_seconds)
    await start_again(site)
    if not in_time:
        raise CheckFailed(f"it was still running {site.patience.end_seconds:g} s after SIGTERM")


async def _end(site: Site) -> None:
    """End the driver when it has started. Raises NotApplicable where it does not end."""
    _, process = site.need_process()
    # One that is interrupted while it starts may leave more behind.
    await asyncio.sleep(START_SECONDS)
    if not await process.terminate(site.patience.end_seconds):
        raise NotApplicable("the driver does not end: see restart.ends")


@GROUP.check(
    "sockets",
    "A driver that ends in order removes its registration socket.",
    "Close the server of the registry first, and remove its socket.",
)
async def sockets(site: Site) -> None:
    await site.registration()
    try:
        await _end(site)
        left = sorted(path.name for path in site.places.registry.glob("*"))
    finally:
        await start_again(site)
    if left:
        raise CheckFailed(f"left in the registry: {', '.join(left)}")


@GROUP.check(
    "running-pods",
    "A driver that ends leaves the files of prepared claims in place: their pods run on.",
    "Undo nothing at the end of the process; only NodeUnprepareResources ends the use of a device.",
)
async def running_pods(site: Site) -> None:
    site.need_process()
    async with site.made(PLAIN) as [claim]:
        await site.devices_of(claim)
        before = set(cdi_specs.files(site.places.cdi))
        try:
            await _end(site)
            gone = sorted(path.name for path in before - set(cdi_specs.files(site.places.cdi)))
        finally:
            await start_again(site)
        if gone:
            raise CheckFailed(f"removed at the end of the driver: {', '.join(gone)}")
