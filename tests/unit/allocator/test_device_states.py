"""The state of a device in the words that users read. The properties are in tests/properties."""

from __future__ import annotations

import pytest

from dray.allocator import device_states
from dray.allocator.checks import capacity
from dray.allocator.device_states import DeviceAvailability, DeviceState
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.ids import ClaimKey
from dray.api.types.dra import DeviceCapacity, DeviceTaint
from tests import builders


def states(cluster: ClusterInventory) -> dict[str, DeviceAvailability]:
    return {found.id.device: found for found in device_states.all_devices(cluster)}


def texts(cluster: ClusterInventory) -> dict[str, str]:
    return {name: device_states.text(found) for name, found in states(cluster).items()}


def test_a_shared_device_says_what_is_left_until_nothing_is() -> None:
    memory = builders.valid_values("40Gi", "10Gi", "20Gi")
    cluster = builders.cluster_inventory(
        builders.resource_slice(builders.gpu("gpu-0", memory=memory, shareable=True))
    )
    assert texts(cluster) == {"gpu-0": "free"}
    builders.hold(cluster, "a", "gpu-0", share={"memory": "20Gi"})
    assert texts(cluster) == {"gpu-0": "shared (20Gi of 40Gi left)"}
    builders.hold(cluster, "b", "gpu-0", share={"memory": "15Gi"})
    found = states(cluster)["gpu-0"]
    assert (found.state, found.left["memory"].left) == (DeviceState.IN_USE, "5Gi")
    assert {key.name for key in found.holders} == {"a", "b"}


def test_several_capacities_are_named() -> None:
    device = builders.device("gpu-0", capacity={"memory": "40Gi", "slots": "4"}, shareable=True)
    cluster = builders.cluster_inventory(builders.resource_slice(device))
    builders.hold(cluster, "a", "gpu-0", share={"memory": "28Gi", "slots": "1"})
    assert texts(cluster) == {"gpu-0": "shared (12Gi of 40Gi memory, 3 of 4 slots left)"}


def test_a_capacity_of_zero_does_not_block_a_device() -> None:
    device = builders.device("gpu-0", capacity={"memory": "40Gi", "encoders": "0"})
    assert texts(builders.cluster_inventory(builders.resource_slice(device))) == {"gpu-0": "free"}


def test_a_capacity_that_no_request_can_have_blocks_a_device() -> None:
    memory = builders.valid_values("4Gi", "10Gi")
    device = builders.device("gpu-0", capacity={"memory": memory})
    cluster = builders.cluster_inventory(builders.resource_slice(device))
    assert texts(cluster) == {"gpu-0": "blocked (no request can be as small as its capacity)"}


def test_a_partition_is_blocked_by_the_whole_device_and_the_other_way_round() -> None:
    cluster = builders.cluster_inventory(*builders.mig_slices("n1"))
    builders.hold(cluster, "train", "gpu-0")
    found = texts(cluster)
    assert found.pop("gpu-0") == "in use"
    assert set(found.values()) == {"blocked (by gpu-0, in use by default/train)"}
    cluster.release(ClaimKey("default", "train"))
    for number in range(2):
        builders.hold(cluster, f"part-{number}", f"gpu-0-quarter-{number}")
    assert texts(cluster)["gpu-0"] == (
        "blocked (by gpu-0-quarter-0 and 1 more, in use by default/part-0 and 1 more)"
    )
    blocked = states(cluster)["gpu-0"]
    assert device_states.text(blocked, lambda claim: f"pod {claim.name}").endswith(
        "in use by pod part-0 and 1 more)"
    )


def test_partitions_know_the_device_that_they_are_part_of() -> None:
    found = states(builders.cluster_inventory(*builders.mig_slices("n1", 2)))
    assert found["gpu-0"].parent == ""
    assert found["gpu-1-quarter-3"].parent == "gpu-1"


@pytest.mark.parametrize(
    ("names", "parents"),
    [
        (("gpu-0", "gpu-0-all", "gpu-0-half"), {"gpu-0-all": "gpu-0", "gpu-0-half": "gpu-0"}),
        (("left", "right", "half"), {"left": "set", "right": "set", "half": "set"}),
    ],
)
def test_equal_devices_are_told_apart_by_their_names(
    names: tuple[str, str, str], parents: dict[str, str]
) -> None:
    amounts = ("40Gi", "40Gi", "20Gi")
    devices = [
        builders.device(name, consumes={"set": {"memory": amount}})
        for name, amount in zip(names, amounts, strict=True)
    ]
    cluster = builders.cluster_inventory(
        builders.resource_slice(*devices, slices=2),
        builders.resource_slice(name="counters", slices=2, counters={"set": {"memory": "40Gi"}}),
    )
    found = {name: device.parent for name, device in states(cluster).items() if device.parent}
    assert found == parents


def test_a_device_that_no_node_can_use_is_not_free() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice("n1", 1))
    cluster.drop_node("n1")
    assert texts(cluster) == {"gpu-0": "blocked (node n1 does not exist)"}
    network = builders.cluster_inventory(
        builders.resource_slice(
            builders.gpu("net"), node_selector=builders.nodes_labelled("zone", "a")
        ),
        nodes=[builders.node("n1")],
    )
    assert texts(network) == {"net": "blocked (no node can use it)"}


def test_a_device_of_an_incomplete_pool_is_blocked_unless_it_is_in_use() -> None:
    slices = builders.resource_slice(builders.gpu("gpu-0"), builders.gpu("gpu-1"), slices=2)
    cluster = builders.cluster_inventory(slices)
    builders.hold(cluster, "train", "gpu-1")
    assert texts(cluster) == {
        "gpu-0": "blocked (slices of its pool are missing)",
        "gpu-1": "in use",
    }


@pytest.mark.parametrize(
    ("key", "effect", "tainted", "unhealthy"),
    [
        ("example.com/worn", "NoSchedule", True, False),
        ("example.com/worn", "None", False, False),
        ("gpu.example.com/unhealthy", "NoExecute", True, True),
        ("gpu.example.com/unhealthy", "None", False, True),
    ],
)
def test_taints_and_health_leave_the_state_as_it_is(
    key: str, effect: str, tainted: bool, unhealthy: bool
) -> None:
    taint = DeviceTaint(key=key, effect=effect)
    cluster = builders.cluster_inventory(builders.gpu_slice("n1", 2, taints=(taint,)))
    builders.hold(cluster, "train", "gpu-1")
    found = states(cluster)
    assert {name: str(item.state) for name, item in found.items()} == {
        "gpu-0": "free",
        "gpu-1": "in use",
    }
    for item in found.values():
        assert (item.is_tainted, item.is_unhealthy) == (tainted, unhealthy)


def test_the_least_amount_of_a_capacity_is_that_of_its_policy() -> None:
    assert str(capacity.least(DeviceCapacity("4Gi"))) == "1n"
    assert str(capacity.least(builders.valid_values("40Gi", "10Gi", "20Gi"))) == "10Gi"
