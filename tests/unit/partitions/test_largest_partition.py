"""The largest part of a card that is left, by compute and memory or else by counters."""

from __future__ import annotations

import pytest

from dray.allocator import device_groups, device_states
from dray.allocator.inventory.cluster_inventory import AllocatedState, ClusterInventory
from dray.api.ids import DeviceId, PoolId
from dray.drivers.simulated import fleet
from dray.partitions import largest_partition
from tests import builders


def largest(cluster: ClusterInventory, pool: PoolId, *held: str) -> tuple[str, float]:
    cluster.record_state(AllocatedState([DeviceId(*pool, name) for name in held]))
    group, *_ = device_groups.groups(device_states.devices_of_pool(cluster, pool))
    found = largest_partition.of_group(group)
    return (found.device.id.device, found.share) if found is not None else ("", 0.0)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param([], ("gpu-0", 1.0), id="all"),
        pytest.param(["gpu-0-mig-1g10gb-19-6"], ("gpu-0-mig-4g40gb-5-0", 0.5357), id="four"),
        pytest.param(["gpu-0-mig-4g40gb-5-0"], ("gpu-0-mig-3g40gb-9-4", 0.4643), id="three"),
        pytest.param(["gpu-0"], ("", 0.0), id="nothing"),
    ],
)
def test_profiles_are_compared_by_compute_and_memory(
    held: list[str], expected: tuple[str, float]
) -> None:
    cluster = builders.cluster_inventory(*fleet.load("a100-mig", nodes=1).slices())
    assert largest(cluster, PoolId("gpu.nvidia.com", "a100-0"), *held) == expected


def test_devices_without_capacity_are_compared_by_counters() -> None:
    sizes = {"whole": ("4", "4"), "half": ("2", "2"), "wide": ("1", "4")}
    devices = [
        builders.device(name, consumes={"set": {"a": first, "b": second}})
        for name, (first, second) in sizes.items()
    ]
    slices = [
        builders.resource_slice(*devices, slices=2),
        builders.resource_slice(name="counters", slices=2, counters={"set": {"a": "4", "b": "6"}}),
    ]
    cluster = builders.cluster_inventory(*slices)
    pool = PoolId(builders.DRIVER, "n1")
    assert largest(cluster, pool) == ("whole", 1.0)
    assert largest(cluster, pool, "half") == ("wide", 0.625)
