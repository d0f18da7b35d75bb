"""Fragmentation of small nodes, computed by hand."""

from __future__ import annotations

import pytest

from dray.allocator.fragmentation.gradient import Fragmentation
from dray.allocator.fragmentation.shapes import Shape, shape_of
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.types.dra import DeviceCapacity, DeviceRequest, ResourceClaim
from tests import builders
from tests.unit.allocator import allocating

SIZE = f'device.attributes["{builders.DRIVER}"].size == '
QUARTER, HALF, WHOLE = (SIZE + f'"{size}"' for size in ("quarter", "half", "whole"))


def shape(*requests: DeviceRequest) -> Shape:
    found = shape_of(builders.claim(*requests))
    assert found is not None
    return found


def asking(selector: str, count: int = 1) -> ResourceClaim:
    return builders.claim(builders.request("gpu", selector, count=count))


def measured(cluster: ClusterInventory, *mix: Shape) -> Fragmentation:
    fragmentation = Fragmentation(cluster)
    fragmentation.set_mix(dict.fromkeys(mix, 1 / len(mix)))
    return fragmentation


def gpus(**nodes: int) -> ClusterInventory:
    slices = [builders.gpu_slice(name, count) for name, count in nodes.items()]
    return builders.cluster_inventory(*slices)


ONE, PAIR, ALL = (
    shape(builders.request("gpu")),
    shape(builders.request("gpu", count=2)),
    shape(builders.request("gpu", mode="All")),
)


def test_a_device_too_few_strands_the_others() -> None:
    cluster = gpus(n1=2, n2=3)
    fragmentation = measured(cluster, PAIR)
    # One of two: the other is of no use to pairs. One of three: a pair is left.
    assert fragmentation.growth([ONE], "n1") == 1
    assert fragmentation.growth([ONE], "n2") == 0
    assert fragmentation.growth([PAIR], "n1") == 0
    assert fragmentation.growth([PAIR], "n2") == 1


def test_taking_what_is_stranded_makes_fragmentation_smaller() -> None:
    cluster = gpus(n1=2)
    fragmentation = measured(cluster, PAIR)
    builders.hold(cluster, "x", "gpu-0")
    assert fragmentation.growth([ONE], "n1") == -1


def test_weights_of_the_mix_count() -> None:
    cluster = gpus(n1=2)
    assert measured(cluster, PAIR, ONE).growth([ONE], "n1") == 0.5


def test_all_devices_of_a_node_are_one_request() -> None:
    cluster = gpus(n1=3)
    fragmentation = measured(cluster, ALL)
    assert fragmentation.growth([ONE], "n1") == 2
    assert fragmentation.growth([ALL], "n1") == 0


def test_a_shape_that_is_not_in_the_mix_is_placed_as_well() -> None:
    other = shape(builders.request("other", count=3))
    fragmentation = measured(gpus(n1=4), PAIR)
    assert fragmentation.growth([other], "n1") == 1
    assert fragmentation.growth([other, ONE], "n1") == 0


def test_partitions_stay_together() -> None:
    cluster = builders.cluster_inventory(*builders.mig_slices(gpus=2))
    builders.hold(cluster, "x", "gpu-1-quarter-0")
    fragmentation = measured(cluster, shape(*asking(WHOLE).spec.devices.requests))
    found = allocating.devices(cluster, asking(QUARTER), order=fragmentation.order)
    assert found == ["gpu-1-quarter-1"]
    assert fragmentation.free("n1") == 1.75
    # What is left of gpu-1 is of no use to whole GPUs: half of it is better taken.
    assert fragmentation.growth([shape(*asking(HALF).spec.devices.requests)], "n1") == -0.5


def test_shares_of_devices_that_are_in_use_come_first() -> None:
    policy = builders.valid_values("40Gi", "10Gi", "20Gi", "40Gi", default="40Gi")
    cluster = builders.cluster_inventory(builders.gpu_slice(count=2, shareable=True, memory=policy))
    small = builders.claim(builders.request("gpu", capacity={"memory": "10Gi"}))
    fragmentation = measured(cluster, shape(builders.request("gpu")))
    for number, device in enumerate(["gpu-0", "gpu-0", "gpu-0", "gpu-0", "gpu-1"]):
        before = fragmentation.free("n1")
        assert allocating.devices(cluster, small, order=fragmentation.order) == [device]
        builders.hold(cluster, f"c{number}", device, share={"memory": "10Gi"})
        assert fragmentation.free("n1") == before - 0.25


def test_a_share_is_not_placed_where_too_little_is_left() -> None:
    memory = DeviceCapacity("40Gi")
    cluster = builders.cluster_inventory(builders.gpu_slice(count=1, shareable=True, memory=memory))
    most = builders.claim(builders.request("gpu", capacity={"memory": "30Gi"}))
    fragmentation = measured(cluster, shape(*most.spec.devices.requests))
    assert fragmentation.growth([shape(*most.spec.devices.requests)], "n1") == 0.25
    builders.hold(cluster, "x", "gpu-0", share={"memory": "30Gi"})
    assert fragmentation.growth([shape(*most.spec.devices.requests)], "n1") == 0


@pytest.mark.parametrize("is_used", [False, True])
def test_the_results_follow_the_cluster(is_used: bool) -> None:
    cluster = gpus(n1=2)
    fragmentation = measured(cluster, PAIR)
    if is_used:
        assert fragmentation.growth([ONE], "n1") == 1
    cluster.put_slice(builders.gpu_slice("n1", 3))
    assert fragmentation.growth([ONE], "n1") == 0
    cluster.put_class(builders.device_class("gpu", "false"))
    # Now no device is of use to any claim.
    assert fragmentation.growth([ONE], "n1") == 0
    assert fragmentation.free("n1") == 3


def test_admin_access_takes_nothing_from_others() -> None:
    assert shape_of(builders.claim(builders.request("gpu", admin=True))) is None
    assert shape_of(builders.claim()) is None
