"""Checks of what a driver writes into claims: binding conditions and the status of devices."""

from __future__ import annotations

import asyncio

from dray.conformance.check import CheckFailed, Group, NotApplicable
from dray.conformance.claims import ClaimPlan
from dray.conformance.site import Site, until

GROUP = Group("status", "api/resource/v1: types.go, AllocatedDeviceStatus")
SETTLE_SECONDS = 0.5


@GROUP.check(
    "binding-conditions",
    "Each binding condition of an allocated device, or a failure condition, becomes true.",
    "Let the driver or its controller set the conditions in status.devices of the claim.",
    source="api/resource/v1: types.go, Device.bindingConditions",
)
async def binding_conditions(site: Site) -> None:
    plan = ClaimPlan()
    async with site.made(plan) as [claim]:
        wanted = {
            (result.device, name): result.binding_failure_conditions
            for result in claim.results
            for name in result.binding_conditions
        }
        if not wanted:
            raise NotApplicable("the allocated device has no binding conditions")

        async def are_set() -> bool:
            status = await site.claims.status_of(claim)
            true = {
                (device["device"], condition["type"])
                for device in status.get("devices", ())
                for condition in device.get("conditions", ())
                if condition["status"] == "True"
            }
            return all(
                key in true or any((key[0], failure) in true for failure in failures)
                for key, failures in wanted.items()
            )

        try:
            await until(are_set, site.patience.publish_seconds)
        except TimeoutError:
            names = ", ".join(sorted({name for _, name in wanted}))
            waited = f"{site.patience.publish_seconds:g} s"
            raise CheckFailed(f"{waited} after the allocation, not all were set: {names}") from None


@GROUP.check(
    "devices",
    "Status that the driver writes into a claim is about devices that it was allocated.",
    "Write only entries of status.devices with the driver's own name, pool and device.",
)
async def devices(site: Site) -> None:
    driver = (await site.registration()).name
    async with site.made(ClaimPlan()) as [claim]:
        await site.devices_of(claim)
        # The status is written after the call; one that comes later is not looked at.
        await asyncio.sleep(SETTLE_SECONDS)
        entries = (await site.claims.status_of(claim)).get("devices", ())
        if not entries:
            raise NotApplicable("the driver writes no status of devices")
        allocated = {(one.driver, one.pool, one.device) for one in claim.results}
        for entry in entries:
            key = (entry["driver"], entry["pool"], entry["device"])
            if key not in allocated or entry["driver"] != driver:
                raise CheckFailed(f"status.devices has {key}, which is not allocated")
