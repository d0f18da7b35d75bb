"""Checks of NodeUnprepareResources."""

from __future__ import annotations

import uuid

from dray.conformance.check import CheckFailed, Group, NotApplicable
from dray.conformance.claims import NAMESPACE, ClaimPlan
from dray.conformance.site import UNPREPARE, Site, together
from dray.node.devices.drivers import ClaimReference

GROUP = Group("unprepare", "kubelet/pkg/apis/dra/v1: api.proto, NodeUnprepareResources")
PLAIN = ClaimPlan()


@GROUP.check(
    "answer",
    "A prepared claim is unprepared, with an entry under its uid in the answer.",
    "Answer for every claim of the request.",
)
async def answer(site: Site) -> None:
    async with site.made(PLAIN) as [claim]:
        await site.devices_of(claim)
        await site.released(claim)


@GROUP.check(
    "idempotent",
    "A claim that was unprepared before is unprepared again without an error.",
    "Answer with success where nothing is left to do: kubelets repeat calls.",
)
async def idempotent(site: Site) -> None:
    async with site.made(PLAIN) as [claim]:
        await site.devices_of(claim)
        await site.unprepare([claim.reference])
        await site.released(claim)


@GROUP.check(
    "unknown",
    "A claim that was never prepared is unprepared without an error.",
    "Answer with success for unknown claims: a kubelet unprepares what it may have begun.",
)
async def unknown(site: Site) -> None:
    reference = ClaimReference(NAMESPACE, "never-prepared", str(uuid.uuid4()))
    error = (await site.unprepare([reference])).get(reference.uid)
    if error is None:
        raise CheckFailed(f"{UNPREPARE}: the answer has no entry for the claim")
    if error:
        raise CheckFailed(f"{UNPREPARE} of a claim that was never prepared: {error}")


@GROUP.check(
    "deleted-claim",
    "A prepared claim is unprepared also after it was deleted from the API.",
    "Work from the driver's own record; do not read the claim.",
)
async def deleted_claim(site: Site) -> None:
    async with site.made(PLAIN) as [claim]:
        await site.devices_of(claim)
        await site.claims.delete(claim.uid)
        await site.released(claim)


@GROUP.check(
    "reuse",
    "After a claim is unprepared its device is prepared for another claim.",
    "Release the device before the call returns.",
)
async def reuse(site: Site) -> None:
    async with site.made(PLAIN) as [first]:
        await site.devices_of(first)
        await site.released(first)
        device = first.results[0].device
    async with site.made(PLAIN) as [second]:
        await site.devices_of(second)
        if second.results[0].device != device:
            raise NotApplicable(f"the allocator chose another device than {device}")


@GROUP.check(
    "several",
    "Claims in one call and in calls at the same time are all unprepared.",
    "Answer for every claim, and let calls wait for each other where they must.",
)
async def several(site: Site) -> None:
    async with site.made(PLAIN, PLAIN) as claims:
        references = [claim.reference for claim in claims]
        for claim in claims:
            await site.devices_of(claim)
        errors = await site.unprepare(references)
        if set(errors) != {claim.uid for claim in claims} or any(errors.values()):
            raise CheckFailed(f"one call with two claims gives {dict(errors)}")
        for claim in claims:
            await site.devices_of(claim)
        await together(site.released(claim) for claim in claims)


@GROUP.check(
    "empty", "A call without claims is answered without an error.", "Return an empty response."
)
async def empty(site: Site) -> None:
    await site.unprepare([])
