"""`dray plan defrag`: texts, commands, JSON, exit codes, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import Result

from dray.api import kinds
from dray.planner import cluster_model
from dray.planner.cluster_model import ClusterModel
from tests import builders
from tests.unit.cli.conftest import run
from tests.unit.planner.defragmentation.running import (
    allocated,
    budget,
    cluster,
    incoming,
    pod,
    running,
)


def write(path: Path, *documents: dict[str, Any]) -> str:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
    return str(path)


def snapshot(path: Path, model: ClusterModel) -> str:
    """Write a cluster to a file."""
    documents = [
        {**kinds.served(*name).type_meta, **msgspec.to_builtins(value)}
        for name, type_ in cluster_model.TYPES.items()
        for value in model.of(type_)
    ]
    return write(path, *documents)


@pytest.fixture
def against(tmp_path: Path) -> str:
    """Two nodes with two GPUs, one of each in use."""
    model = cluster({"n1": 2, "n2": 2}, running("a", "n1:0"), running("b", "n2:1"))
    return snapshot(tmp_path / "cluster.json", model)


@pytest.fixture
def train(tmp_path: Path) -> str:
    claim = builders.claim_manifest("two", builders.request_manifest(count=2))
    return write(
        tmp_path / "train.json", claim, builders.pod_manifest("train", claims={"g": "two"})
    )


def defrag(*arguments: str) -> Result:
    return run("plan", "defrag", *arguments)


def test_the_moves_are_numbered_and_have_commands(against: str, train: str) -> None:
    result = defrag("--for", train, "--against", against)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "Move 1 pod to make room for all pods (no plan has fewer):",
        "  1. move default/a from n1 (gpu-0) to n2 (gpu-0)",
        "Then default/train runs on n1 (gpu-0, gpu-1).",
        "",
        "Commands, one after the other:",
        """  dray patch node n1 -p '{"spec": {"unschedulable": true}}'""",
        "  dray delete pod a -n default",
        "  dray wait pod -l app=a -n default --for=condition=Ready --timeout=10m",
        """  dray patch node n1 -p '{"spec": {"unschedulable": null}}'""",
        f"  dray apply -f {train}",
    ]


def test_the_given_namespace_is_that_of_the_objects(against: str, train: str) -> None:
    result = defrag("--for", train, "--against", against, "-n", "team")
    assert "Then team/train runs on n1 (gpu-0, gpu-1)." in result.stdout
    assert result.stdout.endswith(f"  dray apply -f {train} -n team\n")


def test_wide_names_the_drivers(against: str) -> None:
    output = defrag("--free", "n1", "--against", against, "-o", "wide").stdout
    assert "from n1 (gpu.example.com/n1/gpu-0) to n2 (gpu.example.com/n2/gpu-0)" in output


def test_an_emptied_node_stays_cordoned(against: str) -> None:
    result = defrag("--free", "n1", "--against", against, "-o", "yaml")
    document = yaml.safe_load(result.stdout)
    assert document["goal"] == {"emptyNode": "n1"}
    assert document["commands"] == [
        """dray patch node n1 -p '{"spec": {"unschedulable": true}}'""",
        "dray delete pod a -n default",
        "dray wait pod -l app=a -n default --for=condition=Ready --timeout=10m",
    ]
    (move,) = document["moves"]
    assert move["cordoned"] == ["n1"]
    assert move["pods"][0]["to"] == {"node": "n2", "devices": ["gpu.example.com/n2/gpu-0"]}


def test_nothing_has_to_move(tmp_path: Path, train: str) -> None:
    against = snapshot(tmp_path / "cluster.json", cluster({"n1": 2, "n2": 0}))
    result = defrag("--for", train, "--against", against)
    assert result.stdout == (
        "All pods fit already: no pod has to be moved.\n"
        "Then default/train runs on n1 (gpu-0, gpu-1).\n"
    )
    result = defrag("--free", "n2", "--against", against)
    assert result.stdout == "Node n2 is empty already: no pod has to be moved.\n"


def test_a_claim_alone_is_enough(tmp_path: Path, against: str) -> None:
    request = builders.request_manifest(count=2)
    for manifest in (builders.claim_manifest, builders.template_manifest):
        file = write(tmp_path / "claim.json", manifest("big", request))
        output = defrag("--for", file, "--against", against).stdout
        assert "Then default/pod-for-big runs on n1 (gpu-0, gpu-1)." in output


def test_a_pod_that_waits_already_is_meant_itself(tmp_path: Path, train: str) -> None:
    waits = incoming()
    model = cluster({"n1": 2, "n2": 2}, running("a", "n1:0"), running("b", "n2:1"))
    against = snapshot(tmp_path / "c.json", model.with_objects([waits.pod, *waits.claims]))
    result = defrag("--for", train, "--against", against)
    assert result.exit_code == 0, result.output
    assert "Then default/train runs on n1 (gpu-0, gpu-1)." in result.stdout


def test_why_a_node_cannot_be_emptied(tmp_path: Path) -> None:
    model = cluster(
        {"n1": 2, "n2": 2}, running("a", "n1:0", kind=""), running("b", "n1:1"), budget("b", 0)
    )
    against = snapshot(tmp_path / "cluster.json", model)
    result = defrag("--free", "n1", "--against", against)
    assert (result.exit_code, result.stdout.splitlines()) == (
        1,
        [
            "Node n1 cannot be emptied:",
            "  default/a has no controller that would make it again; --include-bare deletes it",
            "  default/b is covered by a PodDisruptionBudget that allows no disruption",
        ],
    )


def test_bare_pods_are_deleted_and_not_waited_for(tmp_path: Path) -> None:
    model = cluster({"n1": 2}, running("a", "n1:0", kind=""))
    against = snapshot(tmp_path / "cluster.json", model)
    result = defrag("--free", "n1", "--include-bare", "--against", against)
    assert "  1. delete default/a on n1 (gpu-0): nothing makes it again" in result.stdout
    assert "dray wait" not in result.stdout


def test_pods_that_share_a_claim_are_deleted_together(tmp_path: Path) -> None:
    users = [pod(name, "n1", claims={"gpu": "shared"}) for name in ("a", "b")]
    model = cluster({"n1": 1, "n2": 1}, users, allocated("shared", "n1", ["gpu-0"], users))
    result = defrag("--free", "n1", "--against", snapshot(tmp_path / "cluster.json", model))
    lines = result.stdout.splitlines()
    assert lines[:3] == [
        "Move 2 pods to empty node n1 (no plan has fewer):",
        "  1. move default/a from n1 (gpu-0) to n2 (gpu-0) together with the next",
        "  1. move default/b from n1 (gpu-0) to n2 (gpu-0)",
    ]
    assert lines[-4:-2] == [
        "  dray delete pod a -n default --no-wait",
        "  dray delete pod b -n default --no-wait",
    ]


def test_why_there_are_no_moves(tmp_path: Path, train: str) -> None:
    model = cluster({"n1": 1, "n2": 1}, running("a", "n1:0"), running("b", "n2:0", kind=""))
    against = snapshot(tmp_path / "cluster.json", model)
    result = defrag("--free", "n1", "--against", against)
    assert (result.exit_code, result.stdout.splitlines()) == (
        1,
        [
            "No moves empty node n1.",
            "  No other node has room for default/a",
            "  1 pod is left where it is: it has no controller that would make it again"
            "; --include-bare deletes it",
        ],
    )
    result = defrag("--for", train, "--against", against)
    assert (result.exit_code, result.stdout.splitlines()[0]) == (
        1,
        "No moves make room for all pods.",
    )


def test_what_is_refused(against: str, train: str) -> None:
    for arguments, message in (
        ([], "either --free NODE or --for FILE"),
        (["--free", "n1", "--for", train], "either --free NODE or --for FILE"),
        (["--free", "n11"], "there is no node n11; did you mean n1?"),
        (["--free", "n1", "-o", "name"], "use -o json, yaml or wide"),
    ):
        result = defrag(*arguments, "--against", against)
        assert (result.exit_code, message in result.stderr) == (2, True), result.output


def test_a_pod_that_the_server_would_refuse_needs_no_room(tmp_path: Path, train: str) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": "default"},
        "spec": {"hard": {"pods": "0"}},
        "status": {"hard": {"pods": "0"}, "used": {"pods": "0"}},
    }
    path = tmp_path / "cluster.json"
    snapshot(path, cluster({"n1": 2}))
    items = json.loads(path.read_text())["items"]
    result = defrag("--for", train, "--against", write(path, *items, quota))
    assert result.exit_code == 1
    assert "pod default/train: the API server refuses it" in result.stderr
