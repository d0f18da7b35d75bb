"""Every refusal of the recorded problems names a cause, and changes that are named help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model.rejections import AllocationError
from dray.allocator.placement import Allocator, Fit
from dray.api import features
from dray.api.ids import ClaimKey, DeviceId
from dray.api.types.dra import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from dray.explain import claim_explanation
from dray.explain.claim_explanation import Explanation, Outcome
from dray.explain.suggestions import changes
from dray.explain.suggestions.changes import SuggestedChange
from dray.explain.text import explanation_text
from tests import recorded
from tests.conformance import allocation, cases

NOTHING_ALLOCATED: dict[str, list[Any]] = {
    "allocatedDevices": [],
    "allocatedSharedDeviceIDs": [],
    "aggregatedCapacity": [],
}
POSITIONS_TRIED = 2_000
HOLDERS_TRIED = 16
HELPED_AT_LEAST = {"allocator": 0.7, "fuzz_allocator": 0.55}
"""By table, the share of refusals for which a change is found. The others have two causes, or no
devices: random problems more often than those that were written to show one thing."""


def is_refused(case: dict[str, Any] | None) -> bool:
    """Whether none of the upstream allocators finds devices."""
    if case is None:
        return True
    answers = [case["expectResults"], *(run.get("results") for run in case["runs"].values())]
    return bool(case["claimsToAllocate"]) and not any(answers)


REFUSED = {
    stem: [each for each in cases.parameters(stem) if is_refused(each.values[0])]
    for stem in HELPED_AT_LEAST
}
CASES = [
    pytest.param(parameter.values[0], id=f"{stem}-{parameter.id}", marks=parameter.marks)
    for stem, parameters in REFUSED.items()
    for parameter in parameters
]


class Problem(NamedTuple):
    fleet: ClusterInventory
    claims: list[ResourceClaim]


def problem(case: dict[str, Any]) -> Problem:
    """The recorded problem, with a claim of its own for everything that is allocated."""
    fleet = allocation.build_fleet({**case, "allocatedState": NOTHING_ALLOCATED})
    for number, result in enumerate(held(case["allocatedState"])):
        allocated = AllocationResult(DeviceAllocationResult((result,)))
        fleet.record_allocation(ClaimKey("held", f"claim-{number}"), allocated)
    return Problem(
        fleet, [msgspec.convert(each, ResourceClaim) for each in case["claimsToAllocate"] or ()]
    )


def held(state: dict[str, Any]) -> Iterator[DeviceRequestAllocationResult]:
    for each in state["allocatedDevices"]:
        yield DeviceRequestAllocationResult("held", *allocation.device_id(each))
    consumed: dict[DeviceId, dict[str, str]] = {
        allocation.device_id(each): each["capacity"] for each in state["aggregatedCapacity"]
    }
    shares = [
        (allocation.device_id(id_), id_["shareID"]) for id_ in state["allocatedSharedDeviceIDs"]
    ]
    known = {device for device, _ in shares}
    for device, share in [*shares, *((each, "sum") for each in consumed if each not in known)]:
        # The recorded sum of all shares of a device is given to the first of them.
        yield DeviceRequestAllocationResult(
            request="held",
            driver=device.driver,
            pool=device.pool,
            device=device.device,
            share_id=share,
            consumed_capacity=consumed.pop(device, {}),
        )


EXPLANATIONS: dict[int, Explanation] = {}


def explained(case: dict[str, Any]) -> Explanation:
    known = EXPLANATIONS.get(id(case))
    if known is None:
        known = claim_explanation.explain(*problem(case), new_share_id=lambda: allocation.SHARE_ID)
        EXPLANATIONS[id(case)] = known
    return known


def fits(change: SuggestedChange, asked: Problem, node: str) -> bool:
    fleet, claims = asked
    left = iter(range(POSITIONS_TRIED))
    with change.applied_in(fleet):
        placement = Allocator(
            fleet,
            new_share_id=lambda: allocation.SHARE_ID,
            should_stop=lambda: next(left, None) is None,
        )
        try:
            return isinstance(placement.allocate_on(change.applied_to(claims), node), Fit)
        except AllocationError:
            return False


@pytest.mark.parametrize("case", CASES)
def test_refusal_names_a_cause_and_named_changes_help(case: dict[str, Any]) -> None:
    explanation = explained(case)
    if explanation.outcome is Outcome.FAILED:
        assert explanation.faults
        assert explanation.message == allocation.run(case).error
    else:
        assert explanation.outcome is Outcome.REFUSED
        assert explanation.reasons
    assert explanation_text.text(explanation)
    for change in explanation.changes:
        assert fits(change, problem(case), change.node), change


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_no_plain_change_helps_where_none_is_named(case: dict[str, Any]) -> None:
    if explained(case).changes:
        return
    asked = problem(case)
    node = case["node"]["metadata"]["name"]
    assert [change for change in plain_changes(asked) if fits(change, asked, node)] == []


def plain_changes(asked: Problem) -> Iterator[SuggestedChange]:
    """Every way to ask for less by one thing, to end one claim or to change one part of a class."""
    fleet, claims = asked
    for number, claim in enumerate(claims):
        if len(claims) > 1:
            yield changes.DropClaim(claim=number, name=ClaimKey("", ""))
        for index, _ in enumerate(claim.spec.devices.constraints):
            yield changes.DropConstraint(claim=number, index=index, attribute="", is_match=True)
        for request in claim.spec.devices.requests:
            if len(claim.spec.devices.requests) > 1:
                yield changes.DropRequest(claim=number, request=request.name)
            if request.exactly is not None:
                yield from changes_of_request(fleet, number, request.name, request.exactly)
            for option in request.first_available:
                name = f"{request.name}/{option.name}"
                yield from changes_of_request(fleet, number, name, option)
    for result in range(HOLDERS_TRIED):
        yield changes.WaitForClaim(holder=ClaimKey("held", f"claim-{result}"))
    for name, device_class in list(fleet.classes.items()):
        for index, _ in enumerate(device_class.spec.selectors):
            yield changes.DropClassSelector(device_class=name, index=index, expression="")
    for gate in features.GATES:
        yield changes.EnableGate(gate=gate)


def changes_of_request(
    fleet: ClusterInventory, claim: int, request: str, body: changes.Body
) -> Iterator[SuggestedChange]:
    yield changes.TolerateTaint(claim=claim, request=request, taint=None)
    yield changes.FewerDevices(claim=claim, request=request, count=1, asked=0)
    yield changes.LessCapacity(claim=claim, request=request, amounts={}, asked={})
    for index, _ in enumerate(body.selectors):
        yield changes.DropSelector(claim=claim, request=request, index=index, expression="")
    for name in fleet.classes:
        yield changes.OtherClass(claim=claim, request=request, device_class=name, asked="")


@pytest.mark.parametrize("stem", HELPED_AT_LEAST)
def test_most_refusals_can_be_mended_by_one_change(
    stem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    known: list[Any] = [parameter.values[0] for parameter in REFUSED[stem]]
    if None in known:
        pytest.skip(recorded.CASES.why_absent(f"{stem}.jsonl"))
    helped = sum(bool(explained(case).changes) for case in known)
    with capsys.disabled():
        print(f"\n{stem}: {helped} of {len(known)} refusals can be mended by one change")
    assert helped / len(known) >= HELPED_AT_LEAST[stem]
