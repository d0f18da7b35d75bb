"""Proofs by counting."""

from __future__ import annotations

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model import rejections
from dray.allocator.search import infeasibility
from dray.api.types.dra import DeviceCapacity, ResourceClaim
from tests import builders
from tests.unit.allocator import allocating

RING = "gpu.example.com/ring"


def proof(cluster: ClusterInventory, claim: ResourceClaim) -> rejections.Rejection | None:
    return infeasibility.find_infeasibility(allocating.allocator_on(cluster).problem([claim], "n1"))


def test_requests_that_want_the_same_devices_are_counted_together() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=3))
    two = builders.claim(builders.request("a", count=2), builders.request("b", count=2))
    assert proof(cluster, two) == rejections.TooFewDevicesCombined(0, "a, b", needed=4, free=3)


def test_a_device_has_room_for_as_many_shares_as_fit() -> None:
    shared = builders.gpu_slice(count=2, memory=DeviceCapacity("80Gi"), shareable=True)
    cluster = builders.cluster_inventory(shared)
    wanted = [builders.request(f"r{n}", capacity={"memory": "30Gi"}) for n in range(5)]
    assert proof(cluster, builders.claim(*wanted[:4])) is None
    assert isinstance(proof(cluster, builders.claim(*wanted)), rejections.TooFewDevicesCombined)


def test_what_holds_for_no_option_holds_for_the_request() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=2))
    claim = builders.claim(
        builders.alternatives("any", builders.option("a", "false"), builders.option("b", count=3))
    )
    found = proof(cluster, claim)
    assert found == rejections.TooFewDevices(0, "any/a", needed=1, matching=0, free=0)


def test_nothing_is_proved_where_a_failure_may_hide() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=2))
    failing = 'device.attributes["gpu.example.com"].ring == "east"'
    claim = builders.claim(builders.request("gpu", failing, count=3))
    assert proof(cluster, claim) is None


def test_devices_whose_value_cannot_serve_all_are_of_no_use() -> None:
    rings = ("east", "west", "west", "east")
    devices = [
        builders.gpu(f"g{number}", attributes={"ring": ring}, memory=f"{20 * number + 20}Gi")
        for number, ring in enumerate(rings)
    ]
    cluster = builders.cluster_inventory(builders.resource_slice(*devices))
    large = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("60Gi")) >= 0'
    small = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) <= 0'
    claim = builders.claim(builders.request("a", large), builders.request("b", small), match=RING)
    problem = allocating.allocator_on(cluster).problem([claim], "n1")
    builders.hold(cluster, "other", "g0")
    problem.inventory.sync()
    left = [
        [device.device.name for device in problem.inventory.members(members)]
        for members in infeasibility.usable_devices(problem).values()
    ]
    assert left == [["g2"], ["g1"]]
