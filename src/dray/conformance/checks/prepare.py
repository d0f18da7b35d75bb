"""Checks of NodePrepareResources for claims that can be prepared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dray.api.types.dra import DeviceRequestAllocationResult
from dray.conformance.check import CheckFailed, Group, NotApplicable
from dray.conformance.claims import REQUEST, ClaimPlan, ClaimUnderTest
from dray.conformance.site import DRA_SERVICES, PREPARE, Site, together
from dray.node.devices.drivers import DriverDevice
from dray.protocol import services

GROUP = Group("prepare", "kubelet/pkg/apis/dra/v1: api.proto, NodePrepareResources")
TOGETHER: Final = 4
CALLS: Final = 8
PLAIN: Final = ClaimPlan()
FOREIGN: Final = "another-driver.example.com"


def identity(devices: Iterable[DriverDevice]) -> list[DriverDevice]:
    """Return the devices in an order that does not depend on the driver's."""
    return sorted(devices, key=_place)


def in_any_order(devices: Iterable[DriverDevice]) -> list[object]:
    """Return what matters to a container of each device, without the order of its CDI ids."""
    return [(one.pool, one.device, sorted(one.cdi_ids)) for one in identity(devices)]


@GROUP.check(
    "devices",
    "The answer has the devices that were allocated, by pool and name, and no others.",
    "Answer with each result of status.allocation that names this driver.",
)
async def devices(site: Site) -> None:
    async with site.made(PLAIN) as [claim]:
        _expect_allocated(claim, await site.devices_of(claim))


def _expect_allocated(claim: ClaimUnderTest, answered: Iterable[DriverDevice]) -> None:
    driver_of = {result.driver for result in claim.results} - {FOREIGN}
    wanted = sorted({(one.pool, one.device) for one in claim.results if one.driver in driver_of})
    found = sorted({(one.pool, one.device) for one in answered})
    if found != wanted:
        raise CheckFailed(f"{claim} has {wanted}, and the answer {found}")


@GROUP.check(
    "requests",
    "Each device of the answer names the request that it was allocated for.",
    "Set request_names from the allocation's results; containers may name a single request.",
)
async def requests(site: Site) -> None:
    names = ("first", "second")
    try:
        await _expect_requests(site, ClaimPlan(requests=names))
    except NotApplicable:
        await _expect_requests(site, ClaimPlan(requests=names[:1]))


def _place(device: DriverDevice | DeviceRequestAllocationResult) -> tuple[str, str, str]:
    """Return the device, and which share of it where there are several."""
    return device.pool, device.device, device.share_id or ""


async def _expect_requests(site: Site, plan: ClaimPlan) -> None:
    async with site.made(plan) as [claim]:
        answered = await site.devices_of(claim)
        for result in claim.results:
            for device in answered:
                is_same = _place(device) == _place(result)
                if is_same and len(claim.results) > 1 and not device.requests:
                    raise CheckFailed(f"device {device.device} is for every request")
                if is_same and not device.is_for(result.request):
                    seen = f"device {device.device} is for {', '.join(device.requests)}"
                    raise CheckFailed(f"{seen}; it was allocated for {result.request}")


@GROUP.check(
    "idempotent",
    "A claim that is prepared already is prepared again with the same answer.",
    "Remember what was prepared by the claim's uid, and answer from that.",
)
async def idempotent(site: Site) -> None:
    async with site.made(PLAIN) as [claim]:
        first = identity(await site.devices_of(claim))
        second = identity(await site.devices_of(claim))
        if first != second:
            raise CheckFailed(f"first {first}, then {second}")


@GROUP.check(
    "v1beta1",
    "The service v1beta1 gives the same answer as v1, for kubelets before 1.34.",
    "Serve both versions from the same state.",
)
async def v1beta1(site: Site) -> None:
    listed = (await site.registration()).versions
    if not all(service.version in listed for service in DRA_SERVICES):
        raise NotApplicable("the driver lists a single version of DRAPlugin")
    async with site.made(PLAIN) as [claim]:
        new = in_any_order(await site.devices_of(claim, services.DRA_V1))
        old = in_any_order(await site.devices_of(claim, services.DRA_V1BETA1))
        if new != old:
            raise CheckFailed(f"v1 answers {new}, v1beta1 {old}")


@GROUP.check(
    "several",
    "One call may have several claims; each gets an entry under its uid.",
    "Answer for every claim of the request.",
)
async def several(site: Site) -> None:
    async with site.made(PLAIN, PLAIN) as claims:
        answers = await site.prepare([claim.reference for claim in claims])
        for claim in claims:
            if claim.uid not in answers:
                raise CheckFailed(f"{claim} has no entry in the answer")
            if answers[claim.uid].error:
                raise CheckFailed(f"{claim}: {answers[claim.uid].error}")
            _expect_allocated(claim, answers[claim.uid].devices)


@GROUP.check(
    "empty",
    "A call without claims is answered without an error.",
    "Return an empty response; health checks of drivers make such calls.",
)
async def empty(site: Site) -> None:
    if answers := await site.prepare([]):
        raise CheckFailed(f"the answer has entries: {sorted(answers)}")


@GROUP.check(
    "foreign-devices",
    "Devices of another driver in the same claim are left to that driver.",
    "Skip the results of status.allocation that name another driver.",
)
async def foreign_devices(site: Site) -> None:
    other = {"request": REQUEST, "driver": FOREIGN, "pool": "pool", "device": "device"}
    async with site.made(ClaimPlan(more_results=(other,))) as [claim]:
        _expect_allocated(claim, await site.devices_of(claim))


@GROUP.check(
    "foreign-config",
    "Parameters for another driver are ignored.",
    "Skip the entries of status.allocation.devices.config that name another driver.",
    source="api/resource/v1: types.go, OpaqueDeviceConfiguration.driver",
)
async def foreign_config(site: Site) -> None:
    async with site.made(ClaimPlan(config=(opaque(FOREIGN),))) as [claim]:
        await site.devices_of(claim)


def opaque(driver: str) -> dict[str, object]:
    """Return a configuration with parameters that no driver knows."""
    parameters = {"apiVersion": "conformance.invalid/v1", "kind": "Unknown"}
    return {"requests": [REQUEST], "opaque": {"driver": driver, "parameters": parameters}}


@GROUP.check(
    "concurrent",
    "Claims of several pods are prepared at the same time.",
    "Answer each call, and let calls wait for each other where they must.",
)
async def concurrent(site: Site) -> None:
    for number in (TOGETHER, 2):
        try:
            async with site.made(*[PLAIN] * number) as claims:
                await together(site.devices_of(claim) for claim in claims)
                return
        except NotApplicable as reason:
            last = reason
    raise last


@GROUP.check(
    "concurrent-same",
    "Calls for the same claim at the same time give the same answer.",
    "Lock by claim: a kubelet that restarts may call again while the first call still runs.",
)
async def concurrent_same(site: Site) -> None:
    async with site.made(PLAIN) as [claim]:
        answers = await together(site.devices_of(claim) for _ in range(CALLS))
        if any(in_any_order(answer) != in_any_order(answers[0]) for answer in answers):
            raise CheckFailed("the answers differ")


@GROUP.check(
    "shared",
    "Claims that share a device are prepared at the same time, each with its share id.",
    "Keep shares apart by shareID, and set share_id in the answer.",
    source="api/resource/v1: types.go, DeviceRequestAllocationResult.shareID",
)
async def shared(site: Site) -> None:
    if not any(
        device.allow_multiple_allocations
        for one in await site.published()
        for device in one.spec.devices
    ):
        raise NotApplicable("the driver publishes no device that claims may share")
    plan = ClaimPlan(selector="device.allowMultipleAllocations")
    async with site.made(plan, plan) as claims:
        for claim in claims:
            wanted = {result.share_id for result in claim.results}
            found = {device.share_id for device in await site.devices_of(claim, services.DRA_V1)}
            if found != wanted:
                raise CheckFailed(f"{claim} has the shares {wanted}, and the answer {found}")


@GROUP.check(
    "admin-access",
    "A claim with adminAccess is prepared for a device that another claim uses.",
    "Do not count claims with adminAccess as users of a device.",
    source="api/resource/v1: types.go, ExactDeviceRequest.adminAccess",
)
async def admin_access(site: Site) -> None:
    async with site.made(PLAIN) as [user], site.made(ClaimPlan(is_admin=True)) as [admin]:
        before = identity(await site.devices_of(user))
        _expect_allocated(admin, await site.devices_of(admin))
        await site.released(admin)
        if in_any_order(await site.devices_of(user)) != in_any_order(before):
            raise CheckFailed("the claim that uses the device has changed")


@GROUP.check(
    "time",
    "Calls are answered within 10 s; kubelets give all claims of a pod 45 s.",
    "Do what takes long before a claim is prepared, or in the background.",
    source="pkg/kubelet/cm/dra/plugin: dra_plugin.go, defaultClientCallTimeout",
)
async def time_(site: Site) -> None:
    if PREPARE not in site.longest:
        raise NotApplicable("no claim could be prepared")
    for method, seconds in site.longest.items():
        if seconds > site.patience.answer_seconds:
            raise CheckFailed(f"a call of {method} took {seconds:.1f} s")
