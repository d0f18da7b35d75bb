"""The search: upstream's first combination, its limits, and how much it leaves out."""

from __future__ import annotations

import msgspec
import pytest

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model import rejections
from dray.allocator.search import backtracking
from dray.allocator.search.backtracking import Search
from dray.api import features
from dray.api.types.dra import ResourceClaim
from dray.cel import device as cel
from tests import builders
from tests.unit.allocator import allocating

RING = "gpu.example.com/ring"
MEMORY = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("{}")) >= 0'


def positions(cluster: ClusterInventory, claim: ResourceClaim) -> int:
    """How many positions the search goes through."""
    attempt = Search(allocating.allocator_on(cluster).problem([claim], "n1"))
    attempt.run()
    return attempt._positions


def test_a_request_gives_way_to_one_that_has_no_choice() -> None:
    cluster = builders.cluster_inventory(
        builders.resource_slice(builders.gpu("large"), builders.gpu("small", memory="20Gi"))
    )
    claim = builders.claim(builders.request("any"), builders.request("big", MEMORY.format("40Gi")))
    assert allocating.devices(cluster, claim) == ["small", "large"]


def test_claims_are_served_together() -> None:
    cluster = builders.cluster_inventory(
        builders.resource_slice(builders.gpu("large"), builders.gpu("small", memory="20Gi"))
    )
    first = builders.claim(builders.request("any"), name="first")
    second = builders.claim(builders.request("big", MEMORY.format("40Gi")), name="second")
    assert allocating.devices(cluster, first, second) == ["small", "large"]


def test_the_first_option_that_leads_to_a_solution_is_taken() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=2))
    claim = builders.claim(
        builders.alternatives("some", builders.option("two", count=2), builders.option("one")),
        builders.request("more"),
    )
    (allocation,) = allocating.allocations(cluster, claim)
    assert [result.request for result in allocation.devices.results] == ["some/one", "more"]


def test_options_that_would_exceed_the_limit_are_passed_over() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=40))
    claim = builders.claim(
        builders.alternatives("some", builders.option("many", count=20), builders.option("few")),
        builders.request("more", count=20),
    )
    assert len(allocating.devices(cluster, claim)) == 21


def test_more_than_the_limit_is_a_failure() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=40))
    assert allocating.error_text(cluster, builders.claim(builders.request(count=33))) == (
        "claim default/train: number of requested devices 33 exceeds the claim limit of 32"
    )


def test_all_means_every_device_that_matches() -> None:
    cluster = builders.cluster_inventory(
        builders.resource_slice(
            builders.gpu("a"), builders.gpu("b", memory="20Gi"), builders.gpu("c")
        )
    )
    claim = builders.claim(builders.request("gpu", MEMORY.format("40Gi"), mode="All"))
    assert allocating.devices(cluster, claim) == ["a", "c"]


def test_all_of_nothing_does_not_fit() -> None:
    claim = builders.claim(builders.request("gpu", "false", mode="All"))
    reason = allocating.rejection(builders.cluster_inventory(builders.gpu_slice()), claim)
    assert reason == rejections.NoMatchForAllMode(0, "gpu")


def test_all_fails_while_a_pool_is_being_updated() -> None:
    cluster = builders.cluster_inventory(
        builders.gpu_slice(), builders.resource_slice(builders.gpu("x"), pool="other", slices=2)
    )
    claim = builders.claim(builders.request(mode="All"))
    assert allocating.error_text(cluster, claim) == (
        "claim default/train, request gpu: asks for all devices, but resource pool "
        "gpu.example.com/other is currently being updated"
    )


def test_all_derives_no_attribute_after_the_first_device_that_is_in_use() -> None:
    """Upstream tries the devices of allocationMode All in order, evaluates derived attributes only
    for a device that passes all other checks, and ends the request at the first rejection. Its
    error on a later device is therefore not the result."""
    cluster = builders.cluster_inventory(
        builders.gpu_slice(count=2),
        features=msgspec.structs.replace(features.DEFAULT, derived_attributes=True),
    )
    derived = {"gpu.example.com/side": 'device.attributes["gpu.example.com"].side'}
    claim = builders.claim(
        builders.request(mode="All", derived=derived), distinct="gpu.example.com/side"
    )
    assert allocating.error_text(cluster, claim) == (
        "evaluate derived attribute gpu.example.com/side on device gpu.example.com/n1/gpu-0 "
        "failed: no such key: side"
    )
    builders.hold(cluster, "other", "gpu-0")
    reason = allocating.rejection(cluster, claim)
    assert isinstance(reason, rejections.NoCombination)
    assert isinstance(reason.last, rejections.DeviceInUse)


def test_a_search_stops_when_it_is_told_to() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=4))
    asked = allocating.allocator_on(cluster)
    problem = asked.problem([builders.claim(builders.request(count=2))], "n1")
    with pytest.raises(rejections.SearchTimeout):
        Search(problem, should_stop=lambda: True).run()
    assert Search(problem, should_stop=lambda: False).run() is not None


def test_devices_that_are_alike_are_tried_once() -> None:
    """Without that, sixteen devices for eight requests are half a billion combinations."""
    cluster = builders.cluster_inventory(builders.gpu_slice(count=16))
    requests = [builders.request(f"r{number}") for number in range(8)]
    claim = builders.claim(*requests, builders.request("last", MEMORY.format("90Gi")))
    assert positions(cluster, claim) < 64


def test_a_dead_end_jumps_back_to_what_caused_it() -> None:
    """The unrelated request in between has sixteen different devices to try."""
    devices = [builders.gpu(f"g{number}", attributes={"slot": number}) for number in range(16)]
    cluster = builders.cluster_inventory(
        builders.resource_slice(*devices),
        builders.resource_slice(
            builders.device("x1", attributes={"kind": 1}),
            builders.device("x2", attributes={"kind": 2}),
            driver="x.test",
            pool="x",
        ),
        classes=[
            builders.device_class("gpu"),
            builders.device_class("x", 'device.driver == "x.test"'),
        ],
    )
    slots = [
        builders.request(f"s{number}", f'device.attributes["gpu.example.com"].slot != {number}')
        for number in range(4)
    ]
    claim = builders.claim(
        builders.request("first", cls="x"),
        *slots,
        builders.request("second", 'device.attributes["x.test"].kind == 1', cls="x"),
    )
    assert allocating.devices(cluster, claim)[0] == "x2"
    assert positions(cluster, claim) < 16


@pytest.mark.parametrize("size", [8, 20, 62])
def test_no_value_with_enough_members_is_seen_without_trying_orders(size: int) -> None:
    devices = [
        builders.gpu(f"g{number}", attributes={"ring": str(number % 2)}) for number in range(size)
    ]
    requests = [builders.request(f"r{number}") for number in range(size // 2 + 1)]
    cluster = builders.cluster_inventory(builders.resource_slice(*devices))
    reason = allocating.rejection(cluster, builders.claim(*requests, match=RING))
    assert isinstance(reason, rejections.NoCommonValue)
    assert (reason.needed, reason.best) == (size // 2 + 1, size // 2)
    assert (
        positions(cluster, builders.claim(*requests, match=RING))
        <= backtracking._POSITIONS_BEFORE_PROOF
    )


def test_a_device_that_fails_switches_leaving_out_off() -> None:
    """Upstream comes upon the failure only after trying other devices for the first request."""
    odd = 'device.attributes["gpu.example.com"].odd == 1'
    cluster = builders.cluster_inventory(
        builders.resource_slice(
            builders.gpu("a"), builders.gpu("b", attributes={"odd": 2}), builders.gpu("c")
        )
    )
    builders.hold(cluster, "other", "c")
    claim = builders.claim(builders.request("first"), builders.request("second", odd))
    compiled = cel.compile_selector(odd, stored=True)
    assert compiled.error is None
    assert "on device gpu.example.com/n1/a: CEL runtime error" in allocating.error_text(
        cluster, claim
    )


def test_equal_claims_are_not_tried_with_their_devices_swapped() -> None:
    # Six GPUs that differ are too few for seven claims, in whatever order these take them.
    gpus = [builders.gpu(f"gpu-{number}", attributes={"ring": str(number)}) for number in range(6)]
    cluster = builders.cluster_inventory(builders.resource_slice(*gpus))
    claims = [
        builders.claim(builders.request(), match=RING, name=f"claim-{number}")
        for number in range(7)
    ]
    problem = allocating.allocator_on(cluster).problem(claims, "n1")
    counts = []
    for alike in ((), range(1, 7)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backtracking, "_POSITIONS_BEFORE_PROOF", 10**9)
            attempt = Search(problem, alike=alike)
            assert attempt.run() is None
        counts.append(attempt._positions)
    assert counts[1] < counts[0] / 5
