"""Consumable capacity: policies, rounding, shares."""

from __future__ import annotations

import msgspec
import pytest

from dray.allocator.checks import capacity
from dray.allocator.model import rejections
from dray.api import features
from dray.api.formats import quantity
from dray.api.types.dra import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from tests import builders
from tests.unit.allocator import allocating

STEPS = DeviceCapacity(
    "80Gi",
    CapacityRequestPolicy("10Gi", valid_range=CapacityRequestPolicyRange("1Gi", "40Gi", "1Gi")),
)


@pytest.mark.parametrize(
    ("requested", "published", "consumed"),
    [
        pytest.param(None, DeviceCapacity("8"), "8", id="nothing-asked-is-everything"),
        pytest.param(None, STEPS, "10Gi", id="nothing-asked-is-the-default"),
        pytest.param("3", DeviceCapacity("8"), "3", id="no-policy"),
        pytest.param("1", STEPS, "1Gi", id="at-least-the-minimum"),
        pytest.param("1100Mi", STEPS, "2Gi", id="up-to-the-next-step"),
        pytest.param("3", builders.valid_values("8", "2", "4"), "4", id="up-to-a-valid-value"),
        pytest.param("5", builders.valid_values("8", "2", "4"), "5", id="above-all-valid-values"),
    ],
)
def test_amounts_are_filled_in_and_rounded_up(
    requested: str | None, published: DeviceCapacity, consumed: str
) -> None:
    asked = quantity.parse(requested) if requested else None
    assert str(capacity.consumed(asked, published, fractional=False)) == consumed


def test_fractions_are_kept_only_with_their_gate() -> None:
    policy = CapacityRequestPolicy(
        "200m", valid_range=CapacityRequestPolicyRange("200m", "1", "100m")
    )
    asked, published = quantity.parse("250m"), DeviceCapacity("1", policy)
    assert str(capacity.consumed(asked, published, fractional=True)) == "300m"
    assert str(capacity.consumed(asked, published, fractional=False)) == "1"


def test_an_amount_that_cannot_be_rounded_is_a_failure() -> None:
    policy = CapacityRequestPolicy("1", valid_range=CapacityRequestPolicyRange("1", None, "3"))
    shared = builders.gpu("gpu-0", memory=DeviceCapacity("1e20", policy), shareable=True)
    cluster = builders.cluster_inventory(builders.resource_slice(shared))
    claim = builders.claim(builders.request(capacity={"memory": "18446744073709551616"}))
    assert allocating.error_text(cluster, claim) == (
        "claim default/train, request gpu: checking capacity for device gpu.example.com/n1/gpu-0: "
        'capacity "memory": capacity request cannot be represented in the device\'s range '
        "arithmetic: request 18446744073709551616 exceeds MaxInt64"
    )


def test_shares_fill_a_device_before_the_next_is_used() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=2, memory=STEPS, shareable=True))
    wanted = [builders.request(name, capacity={"memory": "30Gi"}) for name in "abc"]
    assert allocating.devices(cluster, builders.claim(*wanted)) == ["gpu-0", "gpu-0", "gpu-1"]


def test_a_share_says_what_it_consumes() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=1, memory=STEPS, shareable=True))
    wanted = builders.claim(builders.request(capacity={"memory": "1500Mi"}))
    (allocation,) = allocating.allocations(cluster, wanted)
    (result,) = allocation.devices.results
    assert (result.share_id, result.consumed_capacity) == ("share", {"memory": "2Gi"})


def test_one_request_gets_a_device_only_once() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=1, memory=STEPS, shareable=True))
    allocating.rejection(
        cluster, builders.claim(builders.request(count=2, capacity={"memory": "1Gi"}))
    )


def test_the_refusal_says_what_is_left_and_who_has_the_rest() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=1, memory=STEPS, shareable=True))
    builders.hold(cluster, "other", "gpu-0", share={"memory": "60Gi"})
    reason = allocating.rejection(
        cluster, builders.claim(builders.request(capacity={"memory": "30Gi"}))
    )
    assert isinstance(reason, rejections.NoCombination)
    short = reason.last
    assert isinstance(short, rejections.InsufficientCapacity)
    assert (short.needed, short.available, short.total) == ("30Gi", "20Gi", "80Gi")
    assert [holder.name for holder in short.holders] == ["other"]


@pytest.mark.parametrize("amount", ["41Gi", "90Gi"])
def test_more_than_the_policy_hands_out_fits_nowhere(amount: str) -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=1, memory=STEPS, shareable=True))
    reason = allocating.rejection(
        cluster, builders.claim(builders.request(capacity={"memory": amount}))
    )
    assert reason == rejections.TooFewDevices(0, "gpu", needed=1, matching=0, free=0)


def test_a_capacity_that_a_device_lacks_is_not_a_failure() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=1))
    allocating.rejection(cluster, builders.claim(builders.request(capacity={"lanes": "1"})))


def test_without_the_gate_capacity_requests_are_a_failure() -> None:
    gates = msgspec.structs.replace(features.DEFAULT, consumable_capacity=False)
    cluster = builders.cluster_inventory(builders.gpu_slice(), features=gates)
    claim = builders.claim(builders.request(capacity={"memory": "1Gi"}))
    assert allocating.error_text(cluster, claim) == (
        "claim default/train, request gpu: has capacity requests, but the DRAConsumableCapacity "
        "feature is disabled"
    )


def test_without_the_gate_whoever_has_a_share_has_the_device() -> None:
    gates = msgspec.structs.replace(features.DEFAULT, consumable_capacity=False)
    cluster = builders.cluster_inventory(
        builders.gpu_slice(count=2, shareable=True), features=gates
    )
    builders.hold(cluster, "other", "gpu-0", share={"memory": "1Gi"})
    assert allocating.devices(cluster, builders.claim(builders.request())) == ["gpu-1"]
