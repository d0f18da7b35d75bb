"""Checks of claims that must be refused, each with a sentence and without harm to others."""

from __future__ import annotations

import uuid
from typing import Final

from dray.conformance.check import CheckFailed, Group, NotApplicable
from dray.conformance.checks.prepare import opaque
from dray.conformance.claims import NAMESPACE, ClaimPlan
from dray.conformance.site import Answer, Site
from dray.node.devices.drivers import ClaimReference

GROUP = Group("refusal", "kubelet/pkg/apis/dra/v1: api.proto, NodePrepareResourceResponse.error")
NO_DEVICE: Final = "no-such-device"
MAX_CHARACTERS: Final = 1024
TRACES: Final = ("Traceback (most recent call last)", "goroutine ", "panic:", "\tat ")


@GROUP.check(
    "unknown-claim",
    "A claim that does not exist is not prepared.",
    "Read the claim from the API server, and return an error where it is missing.",
)
async def unknown_claim(site: Site) -> None:
    await site.refusal_of(ClaimReference(NAMESPACE, "no-such-claim", str(uuid.uuid4())))


@GROUP.check(
    "other-uid",
    "A claim with another uid than the named one is not prepared: it is another claim.",
    "Compare metadata.uid with the uid of the call.",
    source="dynamic-resource-allocation/kubeletplugin: draplugin.go, getResourceClaims",
)
async def other_uid(site: Site) -> None:
    async with site.made(ClaimPlan()) as [claim]:
        other = claim.reference._replace(uid=str(uuid.uuid4()))
        await site.refusal_of(other)


@GROUP.check(
    "not-allocated",
    "A claim without an allocation is not prepared.",
    "Return an error where status.allocation is absent.",
    source="dynamic-resource-allocation/kubeletplugin: draplugin.go, getResourceClaims",
)
async def not_allocated(site: Site) -> None:
    async with site.made(ClaimPlan(is_allocated=False)) as [claim]:
        await site.refusal_of(claim.reference)


@GROUP.check(
    "unknown-device",
    "A claim for a device that does not exist is not prepared.",
    "Look the device up before preparing it; it may have been removed since the allocation.",
)
async def unknown_device(site: Site) -> None:
    async with site.made(ClaimPlan(renamed_device=NO_DEVICE)) as [claim]:
        await site.refusal_of(claim.reference)


@GROUP.check(
    "unknown-config",
    "Parameters that the driver does not know are refused or ignored, in a proper answer.",
    "Return an error for the claim where parameters cannot be decoded.",
)
async def unknown_config(site: Site) -> None:
    driver = (await site.registration()).name
    async with site.made(ClaimPlan(config=(opaque(driver),))) as [claim]:
        answer = (await site.prepare([claim.reference])).get(claim.uid)
        if answer is None:
            raise CheckFailed("the answer has no entry for the claim")
        if answer.error:
            site.refusals.append(answer.error)


@GROUP.check(
    "beside",
    "A claim that is refused does not prevent the other claims of the same call.",
    "Put the error into the entry of that claim instead of failing the call.",
)
async def beside(site: Site) -> None:
    async with site.made(ClaimPlan(), ClaimPlan(renamed_device=NO_DEVICE)) as [good, bad]:
        answers = await site.prepare([bad.reference, good.reference])
        if error := answers.get(good.uid, Answer(error="it has no entry in the answer")).error:
            raise CheckFailed(f"{good} can be prepared, and beside a bad one it cannot: {error}")
        if not answers.get(bad.uid, Answer()).error:
            raise CheckFailed(f"{bad} has no error in the answer")


@GROUP.check(
    "sentence",
    "The error of a refused claim is a short text for the user: it becomes an event of the pod.",
    "Say what is wrong with which object, without a stack trace, in at most 1024 characters.",
)
async def sentence(site: Site) -> None:
    if not site.refusals:
        raise NotApplicable("no claim was refused by an entry of its own")
    for text in site.refusals:
        if len(text) > MAX_CHARACTERS:
            raise CheckFailed(f"an error has {len(text)} characters: {text[:80]}…")
        if any(trace in text for trace in TRACES):
            raise CheckFailed(f"an error has a stack trace: {text[:200]!r}")
        if len(text.split()) < 3:
            raise CheckFailed(f"an error is not a sentence: {text!r}")
