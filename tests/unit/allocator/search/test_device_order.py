"""Policies order candidates and nothing else."""

from __future__ import annotations

import pytest

from dray.allocator.search import device_order
from dray.api.types.dra import DeviceCapacity
from tests import builders
from tests.unit.allocator import allocating

ENOUGH = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("15Gi")) >= 0'
MIG = 'device.attributes["gpu.example.com"].type == "mig"'


def test_best_fit_takes_the_smallest_that_satisfies() -> None:
    sizes = {"large": "80Gi", "tiny": "10Gi", "small": "20Gi"}
    resource_slice = builders.resource_slice(
        *[builders.gpu(name, memory=memory) for name, memory in sizes.items()]
    )
    claim = builders.claim(builders.request("gpu", ENOUGH, count=2))
    cluster = builders.cluster_inventory(resource_slice)
    assert allocating.devices(cluster, claim) == ["large", "small"]
    assert allocating.devices(cluster, claim, order=device_order.best_fit) == ["small", "large"]


@pytest.mark.parametrize(
    ("order", "device"), [(device_order.pack, "gpu-1"), (device_order.spread, "gpu-0")]
)
def test_pack_and_spread_look_at_what_is_in_use(order: device_order.Order, device: str) -> None:
    memory = DeviceCapacity("80Gi")
    cluster = builders.cluster_inventory(builders.gpu_slice(count=3, memory=memory, shareable=True))
    builders.hold(cluster, "a", "gpu-1", share={"memory": "40Gi"})
    builders.hold(cluster, "b", "gpu-2", share={"memory": "10Gi"})
    claim = builders.claim(builders.request(capacity={"memory": "10Gi"}))
    assert allocating.devices(cluster, claim, order=order) == [device]


def test_pack_looks_at_the_counters_of_partitions() -> None:
    cluster = builders.cluster_inventory(*builders.mig_slices(gpus=2))
    builders.hold(cluster, "a", "gpu-1-quarter-0")
    claim = builders.claim(builders.request("gpu", MIG))
    (found,) = allocating.devices(cluster, claim, order=device_order.pack)
    assert found.startswith("gpu-1")
    (found,) = allocating.devices(cluster, claim, order=device_order.spread)
    assert found.startswith("gpu-0")


def test_least_stranding_leaves_the_most_partitions_possible() -> None:
    cluster = builders.cluster_inventory(*builders.mig_slices(gpus=2))
    builders.hold(cluster, "a", "gpu-1-half-0")
    claim = builders.claim(builders.request("gpu", MIG))
    (found,) = allocating.devices(cluster, claim, order=device_order.least_stranding)
    assert found == "gpu-1-quarter-0"


@pytest.mark.parametrize("name", device_order.BY_NAME)
def test_a_policy_finds_a_combination_if_there_is_one(name: str) -> None:
    rings = ("east", "west", "west", "east", "west")
    devices = [
        builders.gpu(f"g{number}", attributes={"ring": ring}, memory=f"{number + 1}0Gi")
        for number, ring in enumerate(rings)
    ]
    cluster = builders.cluster_inventory(builders.resource_slice(*devices))
    claim = builders.claim(builders.request(count=3), match="gpu.example.com/ring")
    found = allocating.devices(cluster, claim, order=device_order.BY_NAME[name])
    assert sorted(found) == ["g1", "g2", "g4"]
