"""Claims with equal requests are explained once, and each explanation is that of its claims."""

from __future__ import annotations

from collections.abc import Sequence
from unittest import mock

import pytest

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.types.dra import DeviceRequest, ResourceClaim
from dray.explain import claim_explanation
from dray.explain.claim_explanation import Explanation, Outcome
from dray.explain.equal_claims import ClaimExplanations
from dray.explain.suggestions.changes import DropClaim
from tests.builders import claim, cluster_inventory, device_class, gpu_slice, hold, request

CLASSES = [device_class(), device_class("broken", "device.attributes['gpu.example.com'].none")]


def cluster() -> ClusterInventory:
    """Two devices, one of them held."""
    inventory = cluster_inventory(gpu_slice(count=2), classes=CLASSES)
    hold(inventory, "other", "gpu-0")
    return inventory


def claims_of(pod: str, *requests: DeviceRequest) -> list[ResourceClaim]:
    return [claim(item, name=f"{pod}-{number}") for number, item in enumerate(requests)]


def alone(claims: Sequence[ResourceClaim]) -> Explanation:
    return claim_explanation.explain(cluster(), claims, new_share_id=lambda: "new")


def made(explanations: ClaimExplanations, claims: Sequence[ResourceClaim]) -> Explanation:
    return explanations.explain(cluster(), claims, None, claim_explanation.CHANGES_COMBINED, {})


@pytest.mark.parametrize(
    ("requests", "outcome"),
    [
        pytest.param([request()], Outcome.FITS, id="fits"),
        pytest.param([request(count=2)], Outcome.REFUSED, id="waits"),
        pytest.param([request(cls="broken")], Outcome.FAILED, id="fails"),
        pytest.param([request(), request()], Outcome.REFUSED, id="two-claims"),
        pytest.param([request(), request("gpu", "false")], Outcome.REFUSED, id="claim-dropped"),
        pytest.param([request(), request(cls="none")], Outcome.FAILED, id="second-fails"),
        pytest.param([request(cls="gpus"), request(count=2)], Outcome.FAILED, id="combined"),
    ],
)
def test_the_second_explanation_is_that_of_its_own_claims(
    requests: list[DeviceRequest], outcome: Outcome
) -> None:
    explanations = ClaimExplanations()
    first, second = claims_of("a", *requests), claims_of("b", *requests)
    assert made(explanations, first) == alone(first)
    with mock.patch.object(claim_explanation, "explain") as explain:
        renamed = made(explanations, second)
    explain.assert_not_called()
    assert renamed == alone(second)
    assert renamed.outcome is outcome


def test_a_change_that_names_a_claim_is_among_them() -> None:
    found = alone(claims_of("a", request(), request("gpu", "false")))
    assert [change for change in found.changes if isinstance(change, DropClaim)]


def test_an_error_names_the_claim_with_it() -> None:
    assert alone(claims_of("a", request(cls="none"))).message.startswith("claim default/a-0")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param([request(count=2)], id="request"),
        pytest.param([request(), request()], id="number-of-claims"),
    ],
)
def test_other_requests_are_explained_by_themselves(other: list[DeviceRequest]) -> None:
    explanations = ClaimExplanations()
    made(explanations, claims_of("a", request()))
    claims = claims_of("b", *other)
    assert made(explanations, claims) == alone(claims)
