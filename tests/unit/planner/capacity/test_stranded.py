"""Stranded devices: free, and of no use to the pods of the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.types.dra import DeviceTaint
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node, NodeSpec, NodeStatus
from dray.planner.capacity import shapes, stranded
from dray.planner.cluster_model import ClusterModel
from tests import builders

WORN = DeviceTaint("worn", "", "NoSchedule")


def node(name: str = "n1", *, is_cordoned: bool = False, **allocatable: str) -> Node:
    amounts = {"pods": "10", "cpu": "8", **allocatable}
    spec = NodeSpec(unschedulable=is_cordoned)
    return Node(ObjectMeta(name=name), spec, NodeStatus(allocatable=amounts))


def running(name: str, *devices: str, on: str = "n1", cpu: str = "1") -> list[Any]:
    """Return a pod that runs with GPUs of its node, and its claim."""
    claim = builders.claim(builders.request(count=len(devices)), name=name)
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    pod = builders.pod(name, claims={"gpu": name}, uid=name, nodeName=on, containers=containers)
    return [builders.allocated(claim, *devices, pool=on), pod]


def found(*objects: Any) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    cluster = ClusterModel().with_objects([builders.device_class(), *objects])
    return [
        (item.node, item.devices, item.limits)
        for item in stranded.find(cluster.state(), shapes.in_use(cluster))
    ]


def test_nothing_is_stranded_where_pods_like_those_fit() -> None:
    assert found(node(), builders.gpu_slice(), *running("a", "gpu-0")) == []


@pytest.mark.parametrize(
    ("limited", "reason"),
    [
        pytest.param(node(cpu="2"), "cpu", id="cpu"),
        pytest.param(node(pods="2"), "pods", id="pods"),
    ],
)
def test_what_the_room_of_the_node_does_not_suffice_for(limited: Node, reason: str) -> None:
    objects = [limited, builders.gpu_slice(), *running("a", "gpu-0")]
    assert found(*objects) == [("n1", ("gpu-2", "gpu-3"), (reason,))]


def test_one_device_is_of_no_use_to_pods_that_need_two() -> None:
    objects = [node(), builders.gpu_slice(count=3), *running("a", "gpu-0", "gpu-1")]
    assert found(*objects) == [("n1", ("gpu-2",), ("devices",))]
    smaller = [node("n2"), builders.gpu_slice("n2", 1), *running("b", "gpu-0", on="n2")]
    assert found(*objects, *smaller) == [], "a pod with one device is in use too"


def test_devices_that_no_pod_tolerates_or_reaches() -> None:
    worn = builders.resource_slice(builders.gpu("gpu-0"), builders.gpu("gpu-1", taints=[WORN]))
    assert found(node(), worn, *running("a", "gpu-0")) == [("n1", ("gpu-1",), ("device taints",))]
    cordoned = [node(is_cordoned=True), builders.gpu_slice(count=2), *running("a", "gpu-0")]
    assert found(*cordoned) == [("n1", ("gpu-1",), ("unschedulable node",))]


def test_without_pods_one_device_of_each_class_is_the_shape() -> None:
    assert found(node(), builders.gpu_slice()) == []
    assert found(node(pods="1"), builders.gpu_slice(count=2)) == [("n1", ("gpu-1",), ("pods",))]


def test_a_card_is_stranded_only_if_nothing_of_it_can_be_used() -> None:
    small = 'device.attributes["gpu.example.com"].size == "quarter"'
    claim = builders.claim(builders.request("gpu", small), name="a")
    pod = builders.pod("a", claims={"gpu": "a"}, uid="a", nodeName="n1")
    used = builders.allocated(claim, "gpu-0-quarter-0")
    slices = builders.mig_slices(gpus=2)
    assert found(node(), *slices, used, pod) == []
    assert found(node(pods="1"), *slices, used, pod) == [("n1", ("gpu-0", "gpu-1"), ("pods",))]
