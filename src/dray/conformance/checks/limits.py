"""Checks of the largest names and claims that the API allows."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Final

from dray.api.types.dra import ALLOCATION_RESULTS_MAX_SIZE, ResourceSlice
from dray.conformance.check import CheckFailed, Group, NotApplicable
from dray.conformance.claims import NAMESPACE, ClaimPlan
from dray.conformance.site import Site
from dray.node.devices.drivers import ClaimReference

GROUP = Group("limits", "apimachinery: validation of names; api/resource/v1: types.go")
LABEL: Final = 63
LONG_NAME: Final = ".".join(letter * 62 for letter in "abcd") + "x"
"""A DNS subdomain of 252 characters."""
MANY_CLAIMS: Final = 64


@GROUP.check(
    "long-claim",
    "A claim whose name has 252 characters, in a namespace of 63, is prepared and unprepared.",
    "Name files by the claim's uid: names of files have at most 255 bytes.",
)
async def long_claim(site: Site) -> None:
    plan = ClaimPlan(name=LONG_NAME, namespace=f"{NAMESPACE}-{'n' * (LABEL - len(NAMESPACE) - 1)}")
    async with site.made(plan) as [claim]:
        await site.devices_of(claim)
        await site.released(claim)


@GROUP.check(
    "long-request",
    "A claim whose request has a name of 63 characters is prepared and unprepared.",
    "Do not cut the names of requests; in names of files and CDI devices, use a digest.",
)
async def long_request(site: Site) -> None:
    async with site.made(ClaimPlan(requests=("r" * LABEL,))) as [claim]:
        for device in await site.devices_of(claim):
            if not device.is_for("r" * LABEL):
                raise CheckFailed(f"the answer names the requests {', '.join(device.requests)}")
        await site.released(claim)


@GROUP.check(
    "many-devices",
    f"A claim with as many devices as are free, up to {ALLOCATION_RESULTS_MAX_SIZE}, is prepared.",
    "Prepare every device of the claim; undo all of them where one fails.",
    source="api/resource/v1: types.go, AllocationResultsMaxSize",
)
async def many_devices(site: Site) -> None:
    number = min(_independent(await site.published()), ALLOCATION_RESULTS_MAX_SIZE)
    while number > 1:
        try:
            async with site.made(ClaimPlan(count=number)) as [claim]:
                answered = await site.devices_of(claim)
                if len(answered) != number:
                    raise CheckFailed(f"of {number} devices the answer has {len(answered)}")
                return
        except NotApplicable:
            number //= 2
    raise NotApplicable("the driver has a single device")


def _independent(slices: Iterable[ResourceSlice]) -> int:
    """Return how many devices can surely be used at once: partitions of a GPU count once."""
    devices = [device for one in slices for device in one.spec.devices]
    sets = {use.counter_set for device in devices for use in device.consumes_counters}
    return len(sets) + sum(not device.consumes_counters for device in devices)


@GROUP.check(
    "many-claims",
    f"A call that unprepares {MANY_CLAIMS} claims is answered for all of them.",
    "Do not limit the number of claims of a call.",
)
async def many_claims(site: Site) -> None:
    references = [
        ClaimReference(NAMESPACE, f"claim-{number}", str(uuid.uuid4()))
        for number in range(MANY_CLAIMS)
    ]
    answered = await site.unprepare(references)
    if missing := [one.name for one in references if one.uid not in answered]:
        raise CheckFailed(f"{len(missing)} of {MANY_CLAIMS} claims have no entry in the answer")
