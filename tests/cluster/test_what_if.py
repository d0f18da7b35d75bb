"""A what-if says what happens: the same changes are made to a running cluster and compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.api import errors, kinds
from dray.api.ids import ObjectKey
from dray.api.types.meta import JsonObject
from dray.api.types.nodes import Taint
from dray.cli.inputs import cluster_objects
from dray.drivers.simulated import fleet, scaling
from dray.planner import cluster_model
from dray.planner.cluster_model import ClusterModel
from dray.planner.submission import expansion
from dray.planner.what_if import changes, compare
from dray.planner.what_if.changes import Change
from dray.planner.what_if.compare import PodOutcome, WhatIf
from dray.planner.what_if.device_changes import FailDevice
from dray.planner.what_if.node_changes import AddNodes, DrainNode, RemoveNode, TaintNode
from dray.planner.what_if.other_changes import RemovePod
from dray.testing import Cluster
from tests import builders

FLEET = """
nodes:
  - name: n{number}
    count: 3
    devices:
      gpu.nvidia.com: [{model: h100-80gb-hbm3, count: 2}]
"""
CLASS = "gpu.nvidia.com"
Places = Counter[tuple[str, tuple[str, ...]]]
"""How many pods have each node and devices; those that wait have neither."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    described = tmp_path / "three.yaml"
    described.write_text(FLEET, "utf-8")
    with Cluster(described) as running:
        yield running


def workload(kind: str, name: str, replicas: int, **spec: Any) -> JsonObject:
    labels = {"app": name}
    template = builders.pod_manifest(templates={"gpu": "one"})
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
            **spec,
        },
    }


def model_of(cluster: Cluster) -> ClusterModel:
    """Return the cluster as the planner sees it."""
    objects = []
    # The group of PodGroups is served only with the feature gate GenericWorkload.
    types = [type_ for type_ in cluster_model.TYPES if type_[1] != "PodGroup"]
    for kind in (kinds.served(*type_) for type_ in types):
        for document in cluster.list(kind.plural):
            objects.append(cluster_objects.decode({**kind.type_meta, **document}, "cluster"))
    return ClusterModel().with_objects(objects)


def pods_of(cluster: Cluster, app: str) -> list[JsonObject]:
    return cluster.list("pods", labels=f"app={app}")


def is_settled(pod: JsonObject) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    conditions = pod.get("status", {}).get("conditions", ())
    waits = any(item.get("reason") == "Unschedulable" for item in conditions)
    return bool(pod["spec"].get("nodeName")) or waits


def places(cluster: Cluster, app: str) -> Places:
    found: Places = Counter()
    for pod in pods_of(cluster, app):
        statuses = pod.get("status", {}).get("resourceClaimStatuses", ())
        devices = [
            device
            for status in statuses
            for device in cluster.devices_of(status["resourceClaimName"])
        ]
        found[pod["spec"].get("nodeName", ""), tuple(devices)] += 1
    return found


def settle(cluster: Cluster, app: str, replicas: int, gone: set[str] = frozenset()) -> None:  # type: ignore[assignment]
    def is_done() -> bool:
        pods = pods_of(cluster, app)
        uids = {pod["metadata"]["uid"] for pod in pods}
        return len(pods) == replicas and uids.isdisjoint(gone) and all(map(is_settled, pods))

    cluster.wait_for(is_done, f"{replicas} pods of {app} with or without a node")


def start(cluster: Cluster, replicas: int, kind: str = "Deployment") -> ClusterModel:
    """Run pods with one GPU each, and return the cluster for plans."""
    cluster.apply(builders.template_manifest("one", builders.request_manifest(cls=CLASS)))
    cluster.apply(workload(kind, "web", replicas))
    settle(cluster, "web", replicas)
    return model_of(cluster)


def what_if(model: ClusterModel, *made: Change) -> WhatIf:
    changed = changes.apply_all(model, made)
    return compare.compare(
        expansion.expand((), model), expansion.expand((), changed.cluster), changed
    )


def promised(found: WhatIf, before: Places) -> Places:
    """Return where the pods of a workload are afterwards, from where they were."""
    after = Counter(before)
    for each in found.pods:
        was = tuple(f"{device.pool}/{device.device}" for device in each.before.devices)
        now = tuple(f"{device.pool}/{device.device}" for device in each.after.devices)
        after[each.before.node, was] -= 1
        after[each.after.node, now] += 1
    return +after


def on_node(cluster: Cluster, node: str) -> set[str]:
    pods = [pod for pod in pods_of(cluster, "web") if pod["spec"].get("nodeName") == node]
    return {pod["metadata"]["uid"] for pod in pods}


def cordon_and_evict(cluster: Cluster, node: str) -> None:
    cluster.patch("nodes", node, {"spec": {"unschedulable": True}})
    for pod in pods_of(cluster, "web"):
        if pod["spec"].get("nodeName") == node:
            name = pod["metadata"]["name"]
            body = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": name, "namespace": "default"},
            }
            client = cluster.client()
            cluster.run(client.create_subresource(kinds.POD, name, "eviction", body, "default"))


def taint(cluster: Cluster, node: str) -> None:
    added = [{"key": "team", "value": "a", "effect": "NoExecute"}]
    cluster.patch("nodes", node, {"spec": {"taints": added}})


def fail(cluster: Cluster, node: str) -> None:
    cluster.fail(node, *(f"gpu-{number}" for number in range(2)))


FAILED = [FailDevice("n0", "gpu-0"), FailDevice("n0", "gpu-1")]
CHANGES = [
    pytest.param([DrainNode("n0")], cordon_and_evict, id="drain"),
    pytest.param([TaintNode("n0", Taint("team", "a", "NoExecute"))], taint, id="taint"),
    pytest.param(FAILED, fail, id="fail"),
]


@pytest.mark.parametrize("replicas", [3, 5])
@pytest.mark.parametrize(("made", "do"), CHANGES)
def test_pods_that_have_to_go_end_up_where_the_plan_says(
    cluster: Cluster, made: list[Change], do: Callable[[Cluster, str], None], replicas: int
) -> None:
    model = start(cluster, replicas)
    before, gone = places(cluster, "web"), on_node(cluster, "n0")
    assert gone
    found = what_if(model, *made)
    do(cluster, "n0")
    settle(cluster, "web", replicas, gone)
    assert places(cluster, "web") == promised(found, before)
    waiting = sum(each.result is PodOutcome.STOPS for each in found.pods)
    assert waiting == max(0, replicas - 4)


def test_pods_of_a_stateful_set_move_in_their_order(cluster: Cluster) -> None:
    model = start(cluster, 5, "StatefulSet")
    gone = on_node(cluster, "n0")
    found = what_if(model, DrainNode("n0"))
    planned = {each.pod.metadata.name: each.after.node for each in found.pods}
    assert list(planned.values()).count("") == 1
    cordon_and_evict(cluster, "n0")
    settle(cluster, "web", 5, gone)
    pods = {pod["metadata"]["name"]: pod for pod in pods_of(cluster, "web")}
    assert {name: pods[name]["spec"].get("nodeName", "") for name in planned} == planned


def test_pods_of_a_removed_node_move_and_others_are_lost(cluster: Cluster) -> None:
    bare = builders.pod_manifest("notebook", nodeSelector={"kubernetes.io/hostname": "n0"})
    cluster.apply(bare)
    cluster.wait_for_pod("notebook")
    model = start(cluster, 5)
    before, gone = places(cluster, "web"), on_node(cluster, "n0")
    found = what_if(model, RemoveNode("n0"))
    assert [each.pod.metadata.name for each in found.pods if each.result is PodOutcome.LOST] == [
        "notebook"
    ]
    cluster.delete("nodes", "n0")
    # In place of the pod garbage collector, which waits 40 s to be sure.
    for pod in cluster.list("pods"):
        if pod["spec"].get("nodeName") == "n0":
            name, at_once = pod["metadata"]["name"], {"gracePeriodSeconds": 0}
            cluster.run(cluster.client().delete(kinds.POD, name, "default", at_once))
    settle(cluster, "web", 5, gone)
    moved = found._replace(pods=[each for each in found.pods if each.owner == "deployment/web"])
    assert places(cluster, "web") == promised(moved, before)
    assert {pod["metadata"]["name"] for pod in cluster.list("pods", labels="app!=web")} == set()


def test_a_waiting_pod_starts_without_another_one(cluster: Cluster) -> None:
    start(cluster, 5)
    request = builders.request_manifest(cls=CLASS)
    for name in ("notebook", "late"):
        cluster.apply(builders.claim_manifest(name, request))
        cluster.apply(builders.pod_manifest(name, claims={"gpu": name}))
        if name == "notebook":
            cluster.wait_for_pod(name)
    cluster.wait_until_unschedulable("late")
    found = what_if(model_of(cluster), RemovePod(ObjectKey("default", "notebook")))
    after = {each.pod.metadata.name: each for each in found.pods}
    assert {name: each.result for name, each in after.items()} == {
        "notebook": PodOutcome.REMOVED,
        "late": PodOutcome.STARTS,
    }
    cluster.delete("pods", "notebook")
    pod = cluster.wait_for_pod("late")
    assert pod["spec"]["nodeName"] == after["late"].after.node
    assert cluster.devices_of("late") == [
        f"{device.pool}/{device.device}" for device in after["late"].after.devices
    ]
    # Its claim is free again, as the plan assumes.
    assert cluster.devices_of("notebook") == []


def test_a_waiting_pod_starts_on_an_added_node(cluster: Cluster, tmp_path: Path) -> None:
    model = start(cluster, 7)
    before = places(cluster, "web")
    larger = fleet.load(tmp_path / "three.yaml", nodes=4)
    nodes = [node for node in larger.nodes() if node.metadata.name == "n3"]
    slices = [item for item in larger.slices() if item.spec.node_name == "n3"]
    found = what_if(model, AddNodes(nodes, slices))
    assert [each.result for each in found.pods] == [PodOutcome.STARTS]
    cluster.run(scaling.set_desired_size(cluster.client(), "three", 4))
    expected = promised(found, before)
    cluster.wait_for(lambda: places(cluster, "web") == expected, str(expected))


def test_a_budget_that_stops_a_drain_refuses_the_eviction(cluster: Cluster) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
    }
    cluster.apply(budget)
    model = start(cluster, 5)
    (blocked,) = what_if(model, DrainNode("n0")).blocked
    assert (str(blocked.budget), blocked.allowed) == ("default/web", 0)
    with pytest.raises(errors.TooManyRequests):
        cordon_and_evict(cluster, "n0")
