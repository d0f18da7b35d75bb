"""What shells complete: names that a cluster has, and those that dray ships."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.conftest import DRAY, Cluster, as_list, fleet_documents, start, stop

OBJECTS = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab-completion"}},
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "completed-pod", "namespace": "lab-completion"},
        "spec": {"containers": [{"name": "main", "image": "x"}, {"name": "side", "image": "x"}]},
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "completed-claim", "namespace": "lab-completion"},
        "spec": {"devices": {}},
    },
]


def completed(line: str, *, kubeconfig: Path | str) -> list[str]:
    """What a shell offers for the last word of a line, which may be empty."""
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "_DRAY_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - (not line.endswith(" "))),
    }
    found = subprocess.run([DRAY], env=environment, capture_output=True, text=True, check=False)
    assert found.stderr == ""
    return [item.partition(",")[2] for item in found.stdout.split()]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    data = tmp_path_factory.mktemp("completions")
    process = start(data, "--store", "memory")
    try:
        cluster = Cluster(data / "kubeconfig")
        documents = [*fleet_documents("quickstart"), *OBJECTS]
        created = cluster.dray("apply", "-f", "-", input=as_list(documents))
        assert created.exit_code == 0, created.output
        yield cluster.kubeconfig
    finally:
        assert stop(process) == 0


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("dray get pods -n lab-completion ", ["completed-pod"]),
        ("dray -n lab-completion get claims ", ["completed-claim"]),
        ("dray describe -n lab-completion pod/comp", ["pod/completed-pod"]),
        ("dray delete -n lab-completion resourceclaims comp", ["completed-claim"]),
        ("dray wait -n lab-completion pods comp", ["completed-pod"]),
        ("dray logs -n lab-completion comp", ["completed-pod"]),
        ("dray logs -n lab-completion completed-pod ", ["main", "side"]),
        ("dray exec -n lab-completion comp", ["completed-pod"]),
        ("dray describe node mi", ["mig-0"]),
        ("dray describe device gpu-1/", ["gpu-1/gpu-0", "gpu-1/gpu-1"]),
        ("dray get pods -n lab-comp", ["lab-completion"]),
        ("dray --context d", ["dray"]),
        ("dray get pods --context d", ["dray"]),
        ("dray up --fleet quick", ["quickstart"]),
        ("dray fleet show quick", ["quickstart"]),
        ("dray fleet heal mi", ["mig-0"]),
        ("dray get resourceclaimt", ["resourceclaimtemplates"]),
    ],
)
def test_names_of_objects(filled: Path, line: str, expected: list[str]) -> None:
    assert completed(line, kubeconfig=filled) == expected


def test_without_a_cluster_there_are_no_names_and_no_errors(tmp_path: Path) -> None:
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
    }
    file = tmp_path / "config"
    file.write_text(json.dumps(config), "utf-8")
    assert completed("dray get pods ", kubeconfig=file) == []
    assert completed("dray get pods ", kubeconfig=tmp_path / "missing") == []
