"""Policies order candidates and nothing else."""

from __future__ import annotations

import pytest

from dray.allocator.search import device_order
from dray.api.types.dra import DeviceCapacity
from tests import builders
from tests.unit.allocator import asking

ENOUGH = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("15Gi")) >= 0'
MIG = 'device.attributes["gpu.example.com"].type == "mig"'


def test_best_fit_takes_the_smallest_that_satisfies() -> None:
    sizes = {"large": "80Gi", "tiny": "10Gi", "small": "20Gi"}
    piece = builders.resource_slice(
        *[builders.gpu(name, memory=memory) for name, memory in sizes.items()]
    )
    claim = builders.claim(builders.request("gpu", ENOUGH, count=2))
    fleet = builders.fleet(piece)
    assert asking.devices(fleet, claim) == ["large", "small"]
    assert asking.devices(fleet, claim, order=device_order.best_fit) == ["small", "large"]


@pytest.mark.parametrize(
    ("order", "device"), [(device_order.pack, "gpu-1"), (device_order.spread, "gpu-0")]
)
def test_pack_and_spread_look_at_what_is_in_use(order: device_order.Order, device: str) -> None:
    memory = DeviceCapacity("80Gi")
    fleet = builders.fleet(builders.gpu_slice(count=3, memory=memory, shareable=True))
    builders.hold(fleet, "a", "gpu-1", share={"memory": "40Gi"})
    builders.hold(fleet, "b", "gpu-2", share={"memory": "10Gi"})
    claim = builders.claim(builders.request(capacity={"memory": "10Gi"}))
    assert asking.devices(fleet, claim, order=order) == [device]


def test_pack_looks_at_the_counters_of_partitions() -> None:
    fleet = builders.fleet(*builders.mig_slices(gpus=2))
    builders.hold(fleet, "a", "gpu-1-quarter-0")
    claim = builders.claim(builders.request("gpu", MIG))
    (found,) = asking.devices(fleet, claim, order=device_order.pack)
    assert found.startswith("gpu-1")
    (found,) = asking.devices(fleet, claim, order=device_order.spread)
    assert found.startswith("gpu-0")


def test_least_stranding_leaves_the_most_partitions_possible() -> None:
    fleet = builders.fleet(*builders.mig_slices(gpus=2))
    builders.hold(fleet, "a", "gpu-1-half-0")
    claim = builders.claim(builders.request("gpu", MIG))
    (found,) = asking.devices(fleet, claim, order=device_order.least_stranding)
    assert found == "gpu-1-quarter-0"


@pytest.mark.parametrize("name", device_order.BY_NAME)
def test_a_policy_finds_a_combination_if_there_is_one(name: str) -> None:
    rings = ("east", "west", "west", "east", "west")
    devices = [
        builders.gpu(f"g{number}", attributes={"ring": ring}, memory=f"{number + 1}0Gi")
        for number, ring in enumerate(rings)
    ]
    fleet = builders.fleet(builders.resource_slice(*devices))
    claim = builders.claim(builders.request(count=3), match="gpu.example.com/ring")
    found = asking.devices(fleet, claim, order=device_order.BY_NAME[name])
    assert sorted(found) == ["g1", "g2", "g4"]
