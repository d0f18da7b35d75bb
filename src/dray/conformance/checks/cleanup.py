"""Checks at the end: nothing of the claims is left, and the driver still runs."""

from __future__ import annotations

from dray.conformance import cdi_specs
from dray.conformance.check import CheckFailed, Group
from dray.conformance.claims import ClaimPlan
from dray.conformance.site import Site

GROUP = Group("cleanup", "pkg/kubelet/cm/dra: manager.go", ends_driver=True)


@GROUP.check(
    "data",
    "The driver's data directory has no file that is named after an unprepared claim.",
    "Delete in NodeUnprepareResources what was made for the claim; disks of nodes fill up else.",
)
async def data(site: Site) -> None:
    site.need_process()
    async with site.made(ClaimPlan()) as [claim]:
        await site.devices_of(claim)
        await site.released(claim)
        cdi = {path.resolve() for path in cdi_specs.files(site.places.cdi)}
        left = [
            str(path.relative_to(site.places.plugins))
            for path in site.places.plugins.rglob("*")
            if claim.uid in path.name and path.resolve() not in cdi
        ]
        if left:
            raise CheckFailed(f"still there: {', '.join(sorted(left))}")


@GROUP.check(
    "running",
    "The driver still runs and answers after all checks.",
    "Read the driver's log for why it ended; a call must never end the process.",
)
async def running(site: Site) -> None:
    if site.process is not None and not site.process.is_running:
        raise CheckFailed(site.state)
    if not await site.registrations():
        raise CheckFailed(f"the driver does not answer on its registration socket; {site.state}")
