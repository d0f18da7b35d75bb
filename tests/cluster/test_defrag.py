"""The commands of a plan of moves do on a running cluster what the plan says."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dray.api.types.meta import JsonObject
from dray.cli.main import main
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
NODES = ("n0", "n1", "n2")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    described = tmp_path / "three.yaml"
    described.write_text(FLEET, "utf-8")
    with Cluster(described) as running:
        running.apply(builders.template_manifest("one", builders.request_manifest(cls=CLASS)))
        yield running


def dray(cluster: Cluster, *arguments: str) -> str:
    words = [*arguments, "--kubeconfig", str(cluster.kubeconfig)]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def run_on(cluster: Cluster, node: str, app: str) -> None:
    """Run a pod with a GPU on a node, whose controller would make it again on any."""
    cordon(cluster, *set(NODES) - {node})
    template = builders.pod_manifest(templates={"gpu": "one"})
    cluster.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": app},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": app}},
                "template": {"metadata": {"labels": {"app": app}}, "spec": template["spec"]},
            },
        }
    )
    cluster.wait_for(lambda: place_of(cluster, app)[0] == node, f"{app} on {node}")
    cordon(cluster)


def cordon(cluster: Cluster, *names: str) -> None:
    for name in NODES:
        cluster.patch("nodes", name, {"spec": {"unschedulable": name in names or None}})


def place_of(cluster: Cluster, app: str) -> tuple[str, list[str]]:
    """Return the node and devices of the only pod of a deployment."""
    pods = cluster.list("pods", labels=f"app={app}")
    return place(cluster, pods[0]) if len(pods) == 1 else ("", [])


def place(cluster: Cluster, pod: JsonObject) -> tuple[str, list[str]]:
    sources = {
        item["name"]: item.get("resourceClaimName") for item in pod["spec"]["resourceClaims"]
    }
    statuses = pod.get("status", {}).get("resourceClaimStatuses", ())
    claims = sources | {item["name"]: item["resourceClaimName"] for item in statuses}
    devices = [device for claim in claims.values() if claim for device in cluster.devices_of(claim)]
    return pod["spec"].get("nodeName", ""), devices


def promised(position: dict[str, Any]) -> tuple[str, list[str]]:
    return position["node"], [device.partition("/")[2] for device in position["devices"]]


def test_pods_move_as_planned_until_another_one_fits(cluster: Cluster, tmp_path: Path) -> None:
    for node, app in zip(NODES, "abc", strict=True):
        run_on(cluster, node, app)
    file = tmp_path / "train.json"
    claim = builders.claim_manifest("two", builders.request_manifest(cls=CLASS, count=2))
    pod = builders.pod_manifest("train", claims={"gpu": "two"})
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [claim, pod]}))
    plan = json.loads(dray(cluster, "plan", "defrag", "--for", str(file), "-o", "json"))
    assert (plan["isPossible"], plan["isProved"], plan["movedPods"]) == (True, True, 1)
    for command in plan["commands"]:
        dray(cluster, *shlex.split(command)[1:])
    (moved,) = plan["moves"][0]["pods"]
    assert place_of(cluster, moved["pod"][0]) == promised(moved["to"])
    (expected,) = plan["places"]
    assert place(cluster, cluster.wait_for_pod("train")) == promised(expected)


def test_a_node_is_emptied_as_planned(cluster: Cluster) -> None:
    run_on(cluster, "n0", "a")
    run_on(cluster, "n0", "b")
    plan = json.loads(dray(cluster, "plan", "defrag", "--free", "n0", "-o", "json"))
    assert plan["movedPods"] == 2
    for command in plan["commands"]:
        dray(cluster, *shlex.split(command)[1:])
    moved = {pod["pod"][0]: pod["to"] for move in plan["moves"] for pod in move["pods"]}
    for app, expected in moved.items():
        assert place_of(cluster, app) == promised(expected)
        assert expected["node"] != "n0"
    again = json.loads(dray(cluster, "plan", "defrag", "--free", "n0", "-o", "json"))
    assert (again["moves"], again["isPossible"]) == ([], True)
