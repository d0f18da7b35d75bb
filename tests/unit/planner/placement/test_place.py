"""Pods are placed one after the other, and a placed pod counts for the next."""

from __future__ import annotations

from typing import Any

from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node, NodeStatus
from dray.planner.cluster_model import ClusterModel
from dray.planner.placement import place as placing
from dray.planner.submission.submitted_pods import SubmittedPod
from dray.scheduling.unschedulable import Unschedulable
from tests import builders


def cluster(*objects: Any) -> ClusterModel:
    nodes = [node("n1"), node("n2")]
    slices = [builders.gpu_slice("n1", 1), builders.gpu_slice("n2", 1)]
    return ClusterModel().with_objects([*nodes, *slices, builders.device_class(), *objects])


def node(name: str) -> Node:
    return Node(ObjectMeta(name=name), status=NodeStatus(allocatable={"pods": "10"}))


def submitted(name: str) -> SubmittedPod:
    pod = builders.pod(name, claims={"gpu": f"{name}-claim"}, uid=name)
    return SubmittedPod(pod, [builders.claim(builders.request(), name=f"{name}-claim")])


def test_each_pod_gets_what_the_ones_before_it_left() -> None:
    plan = placing.place(cluster(), [submitted("a"), submitted("b"), submitted("c")])
    assert sorted(planned.node for planned in plan.pods) == ["", "n1", "n2"]
    assert plan.pods[2].node == ""
    assert isinstance(plan.pods[2].decision, Unschedulable)
    assert not plan.fits
    devices = [device for planned in plan.pods for device in planned.devices()]
    assert len(set(devices)) == len(devices) == 2


def test_the_cluster_is_the_same_afterwards() -> None:
    model = cluster()
    assert placing.place(model, [submitted("a"), submitted("b")]).fits
    assert placing.place(model, [submitted("c"), submitted("d")]).fits


def test_an_object_of_the_same_name_replaces_the_old_one() -> None:
    model = cluster(builders.gpu_slice("n1", 2))
    assert placing.place(model, [submitted("a"), submitted("b"), submitted("c")]).fits
    assert len(model.of(Node)) == 2


def test_removed_objects_are_gone() -> None:
    model = cluster().without(Node, lambda node: node.metadata.name == "n1")
    plan = placing.place(model, [submitted("a"), submitted("b")])
    assert [planned.node for planned in plan.pods] == ["n2", ""]


def test_pods_that_share_a_claim_run_where_the_first_one_does() -> None:
    shared = builders.claim(builders.request(), name="shared")
    pods = [
        SubmittedPod(builders.pod(name, claims={"gpu": "shared"}, uid=name))
        for name in ("a", "b", "c")
    ]
    plan = placing.place(cluster(shared), pods)
    assert plan.fits
    assert len({(planned.node, *planned.devices()) for planned in plan.pods}) == 1
    other = submitted("d")
    assert len(placing.place(cluster(shared), [*pods, other]).pods[3].devices()) == 1
