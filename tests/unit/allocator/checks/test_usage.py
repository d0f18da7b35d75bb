"""Who holds devices, and what admin access may do."""

from __future__ import annotations

from dray.allocator.checks.usage import PoolHolders
from dray.allocator.model import rejections
from dray.api.ids import ClaimKey
from tests import builders
from tests.unit.allocator import allocating

ONE, OTHER = ClaimKey("default", "one"), ClaimKey("default", "other")


def test_a_device_is_held_until_its_last_holder_lets_go() -> None:
    holders = PoolHolders()
    holders.take("gpu-0", ONE)
    holders.take("gpu-0", OTHER)
    holders.release("gpu-0", ONE)
    assert holders.by_device["gpu-0"].claims() == (OTHER,)
    holders.release("gpu-0", OTHER)
    assert holders.by_device == {}


def test_shares_add_up_and_go_away() -> None:
    holders = PoolHolders()
    holders.take_share("gpu-0", ONE, {"memory": 3})
    holders.take_share("gpu-0", OTHER, {"memory": 4})
    assert holders.by_device["gpu-0"].capacity == {"memory": 7}
    holders.release_share("gpu-0", ONE, {"memory": 3})
    assert holders.by_device["gpu-0"].capacity == {"memory": 4}


def test_the_journal_says_what_changed_until_it_is_too_long_ago() -> None:
    holders = PoolHolders()
    holders.take("gpu-0", ONE)
    seen = holders.version
    holders.take("gpu-1", ONE)
    assert list(holders.changed_since(seen) or ()) == ["gpu-1"]
    for _ in range(100):
        holders.take("gpu-2", ONE)
        holders.release("gpu-2", ONE)
    assert holders.changed_since(seen) is None


def test_a_taken_device_is_passed_over() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=2))
    builders.hold(cluster, "other", "gpu-0")
    assert allocating.devices(cluster, builders.claim(builders.request())) == ["gpu-1"]


def test_the_refusal_says_how_many_devices_are_free() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=2))
    builders.hold(cluster, "other", "gpu-0")
    reason = allocating.rejection(cluster, builders.claim(builders.request(count=2)))
    assert reason == rejections.TooFewDevices(0, "gpu", needed=2, matching=2, free=1)


def test_admin_access_gets_devices_that_others_hold() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=1))
    builders.hold(cluster, "other", "gpu-0")
    (allocation,) = allocating.allocations(cluster, builders.claim(builders.request(admin=True)))
    assert allocation.devices.results[0].admin_access is True


def test_admin_access_gets_a_device_once_in_a_claim() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=1))
    both = builders.claim(builders.request("a", admin=True), builders.request("b", admin=True))
    allocating.rejection(cluster, both)


def test_what_one_claim_of_a_pod_gets_the_next_does_not() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=2))
    claims = [builders.claim(builders.request(), name=name) for name in ("a", "b")]
    assert allocating.devices(cluster, *claims) == ["gpu-0", "gpu-1"]


def test_a_claim_with_admin_access_holds_nothing() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=1))
    (allocation,) = allocating.allocations(cluster, builders.claim(builders.request(admin=True)))
    cluster.record_allocation(ONE, allocation)
    assert allocating.devices(cluster, builders.claim(builders.request())) == ["gpu-0"]
