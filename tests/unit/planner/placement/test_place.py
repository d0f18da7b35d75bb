"""Pods are placed one after the other, and a placed pod counts for the next."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api import features
from dray.api.types.dra import ResourceClaim
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node, NodeStatus
from dray.api.types.pods import Pod
from dray.api.types.workloads import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
)
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
    changed = model.with_objects([node("n1"), node("n3")])
    assert [item.metadata.name for item in changed.of(Node)] == ["n1", "n2", "n3"]


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


def test_a_later_pod_is_not_made_before_the_earlier_one_runs() -> None:
    first, second = submitted("a"), submitted("b")._replace(after="a")
    plan = placing.place(cluster(), [first, second])
    assert plan.fits
    holder = [submitted("x"), submitted("y")]
    plan = placing.place(cluster(), [*holder, first, second])
    assert [planned.node for planned in plan.pods[2:]] == ["", ""]
    decision = plan.pods[3].decision
    assert isinstance(decision, Unschedulable)
    assert decision.before_nodes == placing.NOT_MADE
    # It is not there, so it does not count.
    assert plan.state.pods.get(second.pod.metadata.key) is None


def test_a_refused_pod_takes_nothing() -> None:
    refused = submitted("a")._replace(refusal="exceeded quota")
    plan = placing.place(cluster(), [refused, submitted("b"), submitted("c")])
    assert [bool(planned.node) for planned in plan.pods] == [False, True, True]


def test_a_waiting_pod_is_tried_when_a_later_one_gives_it_a_place() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "host"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = [
        Node(
            ObjectMeta(name=name, labels={"host": name}),
            status=NodeStatus(allocatable={"pods": "10"}),
        )
        for name in ("n1", "n2")
    ]
    model = ClusterModel().with_objects(nodes)
    near = SubmittedPod(builders.pod("near", uid="near", affinity=affinity))
    web = builders.pod("web", uid="web")
    labelled = msgspec.structs.replace(
        web, metadata=msgspec.structs.replace(web.metadata, labels={"app": "web"})
    )
    assert not placing.place(model, [near]).fits
    plan = placing.place(model, [near, SubmittedPod(labelled)])
    assert plan.pods[0].node == plan.pods[1].node != ""


def test_pods_of_lower_priority_are_evicted_where_that_is_switched_on() -> None:
    gates = features.parse("DrayPreemption=true")
    model = ClusterModel(cluster().objects, gates)
    running = [submitted("a"), submitted("b")]
    high = submitted("high")
    spec = msgspec.structs.replace(high.pod.spec, priority=9)
    high = high._replace(pod=msgspec.structs.replace(high.pod, spec=spec))
    plan = placing.place(model, [*running, high])
    assert plan.pods[2].node
    (victim,) = plan.pods[2].evicted
    nodes = {planned.submitted.pod.metadata.uid: planned.node for planned in plan.pods}
    assert nodes[victim.metadata.uid] == ""
    after = plan.cluster_after(model)
    assert len(after.of(Pod)) == 2
    assert sum(claim.status.allocation is not None for claim in after.of(ResourceClaim)) == 2


def test_a_gang_is_placed_as_a_whole() -> None:
    gates = features.parse("GenericWorkload=true")
    group = PodGroup(
        ObjectMeta(name="gang", namespace=builders.NAMESPACE),
        PodGroupSpec(scheduling_policy=PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(2))),
    )
    model = ClusterModel(cluster(group).objects, gates)
    pods = [
        SubmittedPod(
            builders.pod(
                name,
                claims={"gpu": f"{name}-claim"},
                uid=name,
                schedulingGroup={"podGroupName": "gang"},
            ),
            [builders.claim(builders.request(), name=f"{name}-claim")],
        )
        for name in ("a", "b")
    ]
    assert placing.place(model, pods).fits
    plan = placing.place(model, [submitted("x"), *pods])
    assert [bool(planned.node) for planned in plan.pods] == [True, False, False]


def test_a_gang_evicts_each_of_its_victims_once() -> None:
    gates = features.parse("GenericWorkload=true,DrayPreemption=true")
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(2))
    group = PodGroup(
        ObjectMeta(name="gang", namespace=builders.NAMESPACE),
        PodGroupSpec(scheduling_policy=policy, priority=9),
    )
    model = ClusterModel(cluster(group).objects, gates)
    gang = [
        SubmittedPod(
            builders.pod(
                name,
                claims={"gpu": f"{name}-claim"},
                uid=name,
                schedulingGroup={"podGroupName": "gang"},
            ),
            [builders.claim(builders.request(), name=f"{name}-claim")],
        )
        for name in ("a", "b")
    ]
    plan = placing.place(model, [submitted("x"), submitted("y"), *gang])
    assert [bool(planned.node) for planned in plan.pods] == [False, False, True, True]
    evicted = [victim.metadata.name for planned in plan.pods for victim in planned.evicted]
    assert sorted(evicted) == ["x", "y"]


@pytest.mark.parametrize("is_on", [False, True])
def test_a_gang_is_searched_for_where_that_is_switched_on(is_on: bool) -> None:
    gates = features.parse(f"GenericWorkload=true,DrayGangSearch={str(is_on).lower()}")
    group = PodGroup(
        ObjectMeta(name="gang", namespace=builders.NAMESPACE),
        PodGroupSpec(scheduling_policy=PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(2))),
    )
    two_or_one = builders.alternatives(
        "some", builders.option("two", count=2), builders.option("one")
    )
    pods = [
        SubmittedPod(
            builders.pod(
                name,
                claims={"gpu": f"{name}-claim"},
                uid=name,
                schedulingGroup={"podGroupName": "gang"},
            ),
            [builders.claim(two_or_one, name=f"{name}-claim")],
        )
        for name in ("a", "b")
    ]
    objects = [node("n1"), builders.gpu_slice("n1", 2), builders.device_class(), group]
    model = ClusterModel(ClusterModel().with_objects(objects).objects, gates)
    assert placing.place(model, pods).fits is is_on
