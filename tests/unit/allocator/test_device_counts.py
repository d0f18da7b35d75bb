"""Devices by class and state: what is remembered is what a fresh count would say."""

from __future__ import annotations

import random

import pytest

from dray.allocator.device_counts import DeviceCounts, DeviceGroupKey
from dray.allocator.device_states import DeviceState
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.ids import ClaimKey
from dray.api.types.dra import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
)
from dray.api.types.meta import ObjectMeta
from tests import builders, rounds

BROKEN = DeviceTaint(key="example.com/unhealthy", effect="NoExecute")


def counted(cluster: ClusterInventory) -> dict[DeviceGroupKey, int]:
    return {group: count for group, count in DeviceCounts(cluster).counts().items() if count}


def test_a_device_counts_in_every_class_that_it_matches_or_in_none() -> None:
    cluster = builders.cluster_inventory(
        builders.gpu_slice("n1", 2),
        classes=[builders.device_class("gpu"), builders.device_class("none", "false")],
    )
    assert counted(cluster) == {DeviceGroupKey(DeviceState.FREE, "gpu"): 2}
    cluster.put_class(builders.device_class("all"))
    assert counted(cluster) == {
        DeviceGroupKey(DeviceState.FREE, "gpu"): 2,
        DeviceGroupKey(DeviceState.FREE, "all"): 2,
    }
    cluster.drop_class("gpu")
    cluster.drop_class("all")
    assert counted(cluster) == {DeviceGroupKey(DeviceState.FREE, ""): 2}


def test_the_newest_generation_of_a_pool_counts() -> None:
    old = [builders.gpu(f"gpu-{number}") for number in range(3)]
    new = builders.resource_slice(builders.gpu("gpu-0"), name="new", generation=7)
    cluster = builders.cluster_inventory(builders.resource_slice(*old, name="old"), new)
    assert counted(cluster) == {DeviceGroupKey(DeviceState.FREE, "gpu"): 1}


def test_taints_and_health_are_counted_beside_the_state() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice("n1", 2))
    builders.hold(cluster, "train", "gpu-0")
    spec = DeviceTaintRuleSpec(device_selector=DeviceTaintSelector(), taint=BROKEN)
    cluster.put_taint_rule(DeviceTaintRule(ObjectMeta(name="all"), spec))
    assert counted(cluster) == {
        DeviceGroupKey(DeviceState.IN_USE, "gpu", is_tainted=True, is_unhealthy=True): 1,
        DeviceGroupKey(DeviceState.FREE, "gpu", is_tainted=True, is_unhealthy=True): 1,
    }


def test_a_missing_device_counts_in_no_class() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice("n1", 1))
    builders.hold(cluster, "train", "gpu-7")
    assert counted(cluster) == {
        DeviceGroupKey(DeviceState.FREE, "gpu"): 1,
        DeviceGroupKey(DeviceState.MISSING, ""): 1,
    }


def test_partitions_of_a_device_in_use_are_not_counted_as_free() -> None:
    cluster = builders.cluster_inventory(*builders.mig_slices("n1"))
    builders.hold(cluster, "train", "gpu-0-half-0")
    assert counted(cluster) == {
        DeviceGroupKey(DeviceState.IN_USE, "gpu"): 1,
        DeviceGroupKey(DeviceState.BLOCKED, "gpu"): 1,
        DeviceGroupKey(DeviceState.FREE, "gpu"): 5,
    }
    builders.hold(cluster, "other", "gpu-0-half-1")
    assert counted(cluster) == {
        DeviceGroupKey(DeviceState.IN_USE, "gpu"): 2,
        DeviceGroupKey(DeviceState.BLOCKED, "gpu"): 5,
    }


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(3, long=200))
def test_what_is_remembered_is_what_a_fresh_count_says(seed: int) -> None:
    dice = random.Random(seed)
    cluster = builders.cluster_inventory()
    census = DeviceCounts(cluster)
    held: list[str] = []
    for step in range(300):
        node = f"n{dice.randrange(4)}"
        match dice.randrange(6):
            case 0:
                cluster.put_slice(builders.gpu_slice(node, dice.randint(1, 4)))
                if dice.random() < 0.2:
                    cluster.put_slice(builders.resource_slice(builders.gpu("net"), all_nodes=True))
            case 1:
                cluster.drop_slice(builders.gpu_slice(node).metadata.name)
            case 2:
                held.append(f"claim-{step}")
                builders.hold(cluster, held[-1], f"gpu-{dice.randrange(4)}", pool=node)
            case 3 if held:
                name = held.pop(dice.randrange(len(held)))
                cluster.release(ClaimKey(builders.NAMESPACE, name))
            case 4 if dice.random() < 0.5:
                cluster.drop_node(node)
            case 4:
                cluster.put_node(builders.node(node))
            case _:
                cluster.put_class(builders.device_class(f"class-{dice.randrange(2)}"))
        remembered = {group: count for group, count in census.counts().items() if count}
        assert remembered == counted(cluster)
