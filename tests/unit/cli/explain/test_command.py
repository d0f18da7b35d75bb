"""`dray explain` against a cluster: the whole way of a pod, and what few rights leave of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.api.types.meta import JsonObject
from dray.apiserver import standalone
from dray.client import kubeconfig
from tests.unit.cli.conftest import DRAY, Cluster, as_list, fleet_documents, start, stop

GROUP = "rbac.authorization.k8s.io"
TEAM = "explained"


def claim(name: str, **exactly: Any) -> JsonObject:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", **exactly}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {"devices": {"requests": [request]}},
    }


def pod(name: str, claim_name: str, **spec: Any) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {
            "containers": [{"name": "c", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim_name}],
            **spec,
        },
    }


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    data: Path = tmp_path_factory.mktemp("explained")
    process = start(data, "--store", "memory")
    try:
        yield fill(Cluster(data / "kubeconfig"))
    finally:
        assert stop(process) == 0


def fill(cluster: Cluster) -> Cluster:
    documents = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}},
        *fleet_documents("quickstart"),
        claim("fits"),
        claim("large", count=9),
        pod("small", "fits"),
        pod("large", "large"),
        pod("gated", "fits", schedulingGates=[{"name": "example.com/wait"}]),
        pod("lonely", "nowhere"),
    ]
    applied = cluster.dray("apply", "-f", "-", input=as_list(documents))
    assert applied.exit_code == 0, applied.output
    return cluster


def restricted(cluster: Cluster, directory: Path, *rules: JsonObject) -> Cluster:
    """The same cluster for a user who may read this much of one namespace."""
    user = directory.name.replace("_", "-")
    role = {"kind": "Role", "metadata": {"name": user, "namespace": TEAM}, "rules": list(rules)}
    binding = {
        "kind": "RoleBinding",
        "metadata": {"name": user, "namespace": TEAM},
        "subjects": [{"kind": "User", "name": user, "apiGroup": GROUP}],
        "roleRef": {"kind": "Role", "name": user, "apiGroup": GROUP},
    }
    documents = [{"apiVersion": f"{GROUP}/v1", **each} for each in (role, binding)]
    assert cluster.dray("apply", "-f", "-", input=as_list(documents)).exit_code == 0
    server = kubeconfig.load(cluster.kubeconfig).server
    connection = standalone.connection(cluster.kubeconfig.parent, server, user)
    kubeconfig.write(directory / "kubeconfig", connection)
    return Cluster(directory / "kubeconfig")


@pytest.mark.parametrize(
    ("name", "headline", "stage"),
    [
        pytest.param("large", "there are no devices for its claims", "devices", id="devices"),
        pytest.param("gated", "the scheduling gate example.com/wait is set", "gates", id="gate"),
        pytest.param("lonely", "there is no ResourceClaim nowhere", "objects", id="claim"),
        pytest.param("small", "no scheduler has considered it", "node", id="scheduler"),
    ],
)
def test_a_pod_is_told_what_it_waits_for(
    filled: Cluster, name: str, headline: str, stage: str
) -> None:
    told = filled.dray("explain", f"pod/{name}", "-n", TEAM)
    assert told.exit_code == 1
    assert told.stdout.startswith(f"pod {TEAM}/{name} waits: {headline}")
    assert f"✗ {stage}" in told.stdout
    document = json.loads(filled.dray("explain", f"pod/{name}", "-n", TEAM, "-o", "json").stdout)
    blocked = [step["stage"] for step in document["way"]["steps"] if step["state"] == "blocked"]
    assert blocked == [stage]


def test_wide_output_draws_the_funnel(filled: Cluster) -> None:
    told = filled.dray("explain", "pod/large", "-n", TEAM, "-o", "wide").stdout
    (line,) = [line for line in told.splitlines() if line.endswith("published")]
    assert "█" in line


def test_those_who_see_one_namespace_are_told_how_that_limits_the_answer(
    filled: Cluster, tmp_path: Path
) -> None:
    everything: JsonObject = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}
    told = restricted(filled, tmp_path, everything).dray("explain", "pod/large", "-n", TEAM)
    assert "ResourceClaim of other namespaces could not be read" in told.stderr
    assert "ResourceSlice could not be read, so which devices there are" in told.stderr
    assert "? devices" in told.stdout
    assert "does not fit" not in told.stdout


def test_a_pod_that_may_not_be_read_is_not_called_missing(filled: Cluster, tmp_path: Path) -> None:
    few: JsonObject = {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]}
    told = restricted(filled, tmp_path, few).dray("explain", "pod/large", "-n", TEAM)
    assert told.exit_code == 1
    assert "not allowed: pods is forbidden" in told.stderr


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["kubectl-why", "pod/gated"], id="why"),
        pytest.param(["kubectl-dra", "explain", "pod/gated"], id="dra"),
        pytest.param(
            ["kubectl", "why", "pod/gated"],
            id="kubectl",
            marks=pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not on PATH"),
        ),
    ],
)
def test_it_is_a_plugin_of_kubectl(filled: Cluster, words: list[str]) -> None:
    path = f"{DRAY.parent}{os.pathsep}{os.environ['PATH']}"
    told = subprocess.run(
        [*words, "-n", TEAM],
        env={**os.environ, "PATH": path, "KUBECONFIG": str(filled.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 1, told.stderr
    assert told.stdout.startswith(f"pod {TEAM}/gated waits: the scheduling gate")


FIELDS = ("resourceclaim.spec.devices", "pods.spec.resourceClaims", "deviceclass")


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not on PATH")
@pytest.mark.parametrize("field", FIELDS)
def test_fields_are_explained_in_the_words_of_kubectl(filled: Cluster, field: str) -> None:
    environment = {**os.environ, "KUBECONFIG": str(filled.kubeconfig)}
    theirs = subprocess.run(
        ["kubectl", "explain", field], env=environment, capture_output=True, text=True, check=True
    )
    assert filled.dray("explain", field).stdout == theirs.stdout
