"""Nodes that are added, removed, drained and tainted."""

from __future__ import annotations

import msgspec
import pytest

from dray.api.types.core import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from dray.api.types.dra import DeviceTaint, ResourceSlice
from dray.api.types.meta import LabelSelector, ObjectMeta
from dray.api.types.nodes import Node, Taint
from dray.planner.what_if import compare
from dray.planner.what_if.changes import ImpossibleChange
from dray.planner.what_if.node_changes import AddNodes, CopyNode, DrainNode, RemoveNode, TaintNode
from tests import builders
from tests.unit.planner.what_if import small_clusters as small
from tests.unit.planner.what_if.small_clusters import cluster, results, running, what_if

DEDICATED = Taint(key="team", value="a", effect="NoExecute")


def test_pods_of_a_removed_node_move_and_their_devices_are_free() -> None:
    model = cluster(running("web-1", "n1", "gpu-1"), running("web-2", "n2", "gpu-0"))
    found = what_if(model, RemoveNode("n1"))
    assert results(found) == {"web-1": "moves n2"}
    (moved,) = found.pods
    assert (moved.before.node, [device.device for device in moved.before.devices]) == (
        "n1",
        ["gpu-1"],
    )
    assert [str(device) for device in moved.after.devices] == ["gpu.example.com/n2/gpu-1"]
    assert moved.owner == "replicaset/web-5d9"
    assert found.is_good
    assert found.running == 1
    before, after = compare.room(found)["gpu"]
    assert (before.pods, after.pods) == (2, 0)


def test_a_pod_without_room_elsewhere_stops() -> None:
    model = cluster(running("web-1", "n1", "gpu-0", "gpu-1"), running("web-2", "n2", "gpu-0"))
    found = what_if(model, RemoveNode("n1"))
    assert results(found) == {"web-1": "stops"}
    assert not found.is_good


def test_a_pod_without_a_controller_is_lost_and_one_of_a_daemon_set_ends() -> None:
    bare = running("notebook", "n1", "gpu-0", owner=None)
    daemon = running("agent-x", "n1", owner=small.DAEMON_SET)
    found = what_if(cluster(bare, daemon), RemoveNode("n1"))
    assert results(found) == {"notebook": "lost", "agent-x": "ends"}
    assert not found.is_good


def test_a_drained_node_keeps_daemons_and_gets_no_pods() -> None:
    daemon = running("agent-x", "n1", owner=small.DAEMON_SET)
    found = what_if(cluster(daemon, running("web-1", "n1", "gpu-0")), DrainNode("n1"))
    assert results(found) == {"web-1": "moves n2"}
    assert found.running == 1
    assert compare.room(found)["gpu"][1].pods == 1


def test_pods_that_are_evicted_together_find_their_places_one_after_the_other() -> None:
    model = cluster(
        running("low", "n1", "gpu-0"), running("high", "n1", "gpu-1", priority=10), gpus=2
    )
    model = model.with_objects(running("web", "n2", "gpu-0"))
    found = what_if(model, DrainNode("n1"))
    assert results(found) == {"high": "moves n2", "low": "stops"}


def test_a_taint_evicts_pods_that_do_not_tolerate_it() -> None:
    tolerant = running(
        "tolerant", "n1", "gpu-0", tolerations=[{"key": "team", "operator": "Exists"}]
    )
    for_a_while = [{"key": "team", "operator": "Exists", "tolerationSeconds": 60}]
    model = cluster(tolerant, running("web", "n1", "gpu-1", tolerations=for_a_while))
    found = what_if(model, TaintNode("n1", DEDICATED))
    assert results(found) == {"web": "moves n2"}
    no_schedule = msgspec.structs.replace(DEDICATED, effect="NoSchedule")
    found = what_if(model, TaintNode("n1", no_schedule))
    assert results(found) == {}


def test_a_copy_has_the_same_devices_under_a_name_of_its_own_and_is_healthy() -> None:
    worn = builders.gpu("gpu-0", taints=[DeviceTaint("worn", "", "NoSchedule")])
    model = cluster(running("web", "n1", "gpu-1"), small.node("n1-copy-1"))
    tainted = builders.resource_slice(worn, builders.gpu("gpu-1"), node="n1")
    model = model.with_objects([tainted])
    changed = CopyNode("n1", 2).apply(DrainNode("n1").apply(model).cluster).cluster
    copies = {node.metadata.name: node for node in changed.of(Node)}
    assert sorted(copies) == ["n1", "n1-copy-1", "n1-copy-2", "n1-copy-3", "n2"]
    copy = copies["n1-copy-2"]
    assert copy.metadata.labels == {"kubernetes.io/hostname": "n1-copy-2"}
    assert not copy.spec.unschedulable
    assert copy.spec.taints == ()
    (published,) = [
        item for item in changed.of(ResourceSlice) if item.spec.node_name == "n1-copy-2"
    ]
    assert published.spec.pool.name == "n1-copy-2"
    assert [device.taints for device in published.spec.devices] == [(), ()]
    found = what_if(model, CopyNode("n1", 2))
    assert [count.pods for count in compare.room(found)["gpu"]] == [2, 6]


def test_a_copy_gets_the_pods_of_daemon_sets() -> None:
    containers = [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]
    daemon = running("agent-x", "n1", "gpu-0", owner=small.DAEMON_SET, containers=containers)
    found = what_if(cluster(daemon, running("web", "n1", "gpu-1")), CopyNode("n1", 2))
    assert results(found) == {
        "agent-x-n1-copy-1": "starts n1-copy-1",
        "agent-x-n1-copy-2": "starts n1-copy-2",
    }
    assert {each.owner for each in found.pods} == {"daemonset/agent"}
    assert compare.room(found)["gpu"][1].pods == 4


def test_added_nodes_bring_their_devices_and_missing_classes() -> None:
    fast = builders.device_class("fast")
    added = AddNodes([small.node("n3")], [builders.gpu_slice("n3", 4)], [fast])
    found = what_if(cluster(), added)
    assert {name: after.pods for name, (_, after) in compare.room(found).items()} == {
        "gpu": 8,
        "fast": 8,
    }
    with pytest.raises(ImpossibleChange, match="there is a node n1 already"):
        AddNodes([small.node("n1")]).apply(cluster())


def test_waiting_pods_start_when_there_is_room() -> None:
    waiting = builders.pod("late", uid="late", claims={"gpu": "late"})
    claim = builders.claim(builders.request(count=3), name="late")
    model = cluster(waiting, claim)
    assert results(what_if(model, RemoveNode("n2"))) == {"late": "waits"}
    added = AddNodes([small.node("n3")], [builders.gpu_slice("n3", 4)])
    assert results(what_if(model, added)) == {"late": "starts n3"}


@pytest.mark.parametrize("change", [RemoveNode("n3"), DrainNode("n3"), CopyNode("n3")])
def test_an_unknown_node_is_refused_with_the_nearest_name(change: RemoveNode) -> None:
    with pytest.raises(ImpossibleChange, match="there is no node n3; did you mean n"):
        change.apply(cluster())


def test_a_change_that_changes_nothing_is_refused() -> None:
    drained = DrainNode("n1").apply(cluster()).cluster
    with pytest.raises(ImpossibleChange, match="node n1 is drained already"):
        DrainNode("n1").apply(drained)
    tainted = TaintNode("n1", DEDICATED).apply(cluster()).cluster
    with pytest.raises(ImpossibleChange, match="has this taint already"):
        TaintNode("n1", DEDICATED).apply(tainted)


def _budget(allowed: int) -> PodDisruptionBudget:
    selector = LabelSelector(match_labels={"app": "web"})
    return PodDisruptionBudget(
        ObjectMeta(name="web", namespace="default"),
        PodDisruptionBudgetSpec(selector=selector),
        PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


@pytest.mark.parametrize(
    ("allowed", "taken", "is_blocked"),
    [
        pytest.param(0, 0, True, id="nothing is allowed"),
        pytest.param(1, 0, False, id="one after the other"),
        pytest.param(1, 1, True, id="one waits and the other may not go"),
        pytest.param(2, 2, False, id="both may wait"),
    ],
)
def test_a_budget_may_stop_a_drain(allowed: int, taken: int, is_blocked: bool) -> None:
    labels = {"app": "web"}
    pods = [running(f"web-{n}", "n1", f"gpu-{n}", labels=labels) for n in range(2)]
    others = [running(f"other-{n}", "n2", f"gpu-{n}") for n in range(taken)]
    found = what_if(cluster(*pods, *others, _budget(allowed)), DrainNode("n1"))
    assert bool(found.blocked) == is_blocked
    # Nobody asks a budget when a node disappears.
    assert not what_if(cluster(*pods, *others, _budget(0)), RemoveNode("n1")).blocked
