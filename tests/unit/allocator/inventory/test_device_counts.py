"""Devices by class and state: what is remembered is what a fresh count would say."""

from __future__ import annotations

import random

import pytest

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.inventory.device_counts import DeviceCounts, DeviceGroupKey, device_state
from dray.api.ids import ClaimKey
from dray.api.types.dra import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
)
from dray.api.types.meta import ObjectMeta
from tests import builders, rounds

BROKEN = DeviceTaint(key="example.com/broken", effect="NoExecute")


def counted(cluster: ClusterInventory) -> dict[DeviceGroupKey, int]:
    return {group: count for group, count in DeviceCounts(cluster).counts().items() if count}


def test_a_device_counts_in_every_class_that_it_matches_or_in_none() -> None:
    cluster = builders.cluster_inventory(
        builders.gpu_slice("n1", 2),
        classes=[builders.device_class("gpu"), builders.device_class("none", "false")],
    )
    assert counted(cluster) == {DeviceGroupKey("free", "gpu"): 2}
    cluster.put_class(builders.device_class("all"))
    assert counted(cluster) == {DeviceGroupKey("free", "gpu"): 2, DeviceGroupKey("free", "all"): 2}
    cluster.drop_class("gpu")
    cluster.drop_class("all")
    assert counted(cluster) == {DeviceGroupKey("free", ""): 2}


def test_the_newest_generation_of_a_pool_counts() -> None:
    old = [builders.gpu(f"gpu-{number}") for number in range(3)]
    new = builders.resource_slice(builders.gpu("gpu-0"), name="new", generation=7)
    cluster = builders.cluster_inventory(builders.resource_slice(*old, name="old"), new)
    assert counted(cluster) == {DeviceGroupKey("free", "gpu"): 1}


def test_a_held_device_is_not_counted_as_tainted() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice("n1", 2))
    builders.hold(cluster, "train", "gpu-0")
    spec = DeviceTaintRuleSpec(device_selector=DeviceTaintSelector(), taint=BROKEN)
    cluster.put_taint_rule(DeviceTaintRule(ObjectMeta(name="all"), spec))
    assert counted(cluster) == {
        DeviceGroupKey("allocated", "gpu"): 1,
        DeviceGroupKey("tainted", "gpu"): 1,
    }


@pytest.mark.parametrize(
    ("is_owned", "is_shared", "effect", "state"),
    [
        (False, False, None, "free"),
        (False, False, "None", "free"),
        (False, False, "NoSchedule", "tainted"),
        (False, False, "NoExecute", "tainted"),
        (True, False, None, "allocated"),
        (True, False, "NoExecute", "allocated"),
        (False, True, None, "shared"),
        (False, True, "NoExecute", "shared"),
        (True, True, None, "allocated"),
    ],
)
def test_a_holder_decides_before_a_taint(
    is_owned: bool, is_shared: bool, effect: str | None, state: str
) -> None:
    taints = [DeviceTaint(key="worn", effect=effect)] if effect else []
    assert device_state(is_owned=is_owned, is_shared=is_shared, taints=taints) == state


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(3, long=200))
def test_what_is_remembered_is_what_a_fresh_count_says(seed: int) -> None:
    dice = random.Random(seed)
    cluster = builders.cluster_inventory()
    census = DeviceCounts(cluster)
    held: list[str] = []
    for step in range(300):
        node = f"n{dice.randrange(4)}"
        match dice.randrange(5):
            case 0:
                cluster.put_slice(builders.gpu_slice(node, dice.randint(1, 4)))
            case 1:
                cluster.drop_slice(builders.gpu_slice(node).metadata.name)
            case 2:
                held.append(f"claim-{step}")
                builders.hold(cluster, held[-1], f"gpu-{dice.randrange(4)}", pool=node)
            case 3 if held:
                name = held.pop(dice.randrange(len(held)))
                cluster.release(ClaimKey(builders.NAMESPACE, name))
            case _:
                cluster.put_class(builders.device_class(f"class-{dice.randrange(2)}"))
        remembered = {group: count for group, count in census.counts().items() if count}
        assert remembered == counted(cluster)
