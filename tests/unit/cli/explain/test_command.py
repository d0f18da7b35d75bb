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
BROKEN_NODE = "mig-0"
"""A node that is not ready."""


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


def template(name: str) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {"spec": claim("unnamed")["spec"]},
    }


def deployment(name: str) -> JsonObject:
    """A workload whose pods no controller makes, and that no node would accept."""
    spec = pod("unnamed", "fits", nodeSelector={"disk": "ssd"})["spec"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
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
        template("one"),
        *(pod(name, "one") for name in ("confused", "mended")),
        *map(deployment, ("web", "repaired")),
    ]
    applied = cluster.dray("apply", "-f", "-", input=as_list(documents))
    assert applied.exit_code == 0, applied.output
    nodes = [item["metadata"]["name"] for item in documents if item["kind"] == "Node"]
    # No controller finds these nodes ready.
    for name in nodes:
        if name == BROKEN_NODE:
            continue
        patched = cluster.dray("patch", "node", name, "-p", '{"spec": {"taints": null}}')
        assert patched.exit_code == 0, patched.output
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


def test_nobody_is_told_to_tolerate_a_node_that_is_not_ready(filled: Cluster) -> None:
    documents = [
        claim("there"),
        pod("there", "there", nodeSelector={"kubernetes.io/hostname": BROKEN_NODE}),
    ]
    assert filled.dray("apply", "-f", "-", input=as_list(documents)).exit_code == 0
    told = filled.dray("explain", "pod/there", "-n", TEAM).stdout
    assert "has the taint node.kubernetes.io/not-ready:NoSchedule" in told
    assert f"dray describe node {BROKEN_NODE}" in told
    assert "fix: " not in told
    assert filled.dray("delete", "pod/there", "resourceclaim/there", "-n", TEAM).exit_code == 0


def test_type_and_name_may_be_two_words(filled: Cluster) -> None:
    apart = filled.dray("explain", "pod", "large", "gated", "-n", TEAM)
    joined = filled.dray("explain", "pod/large", "pod/gated", "-n", TEAM)
    assert apart.stdout == joined.stdout
    mixed = filled.dray("explain", "pod", "large", "claim/fits", "-n", TEAM)
    assert mixed.exit_code == 2
    assert "write TYPE/NAME, or TYPE NAME" in mixed.stderr


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["-n", TEAM], id="namespace-option"),
        pytest.param(["namespace", TEAM], id="namespace"),
        pytest.param(["-A"], id="all"),
    ],
)
def test_a_whole_namespace_is_explained(filled: Cluster, words: list[str]) -> None:
    told = filled.dray("explain", *words)
    assert told.exit_code == 1
    assert "pods, " in told.stdout.splitlines()[0]
    for name in ("small", "large", "gated", "lonely"):
        assert told.stdout.count(f"pod {TEAM}/{name} waits: ") == 1
    refused = filled.dray("explain", "-A", "pod/large")
    assert refused.exit_code == 2


def test_a_workload_without_pods_is_explained_by_its_template(filled: Cluster) -> None:
    told = filled.dray("explain", "deployment/web", "-n", TEAM)
    assert told.exit_code == 1
    assert "no node matches the pod's nodeSelector disk=ssd" in told.stdout
    missing = filled.dray("explain", "deploy/nosuch", "-n", TEAM)
    assert missing.exit_code == 4
    unexplained = filled.dray("explain", "configmap/x", "-n", TEAM)
    assert unexplained.exit_code == 2
    assert "only these types can be explained" in unexplained.stderr


def test_a_pod_that_is_gone_leads_to_its_events(filled: Cluster) -> None:
    told = filled.dray("explain", "pod/larger", "-n", TEAM)
    assert told.exit_code == 4
    assert "Did you mean large?" in told.stderr
    assert f"dray events --for pod/larger -n {TEAM}" in told.stderr
    other = filled.dray("explain", "pod/large", "-n", "default")
    assert f"There is one in namespace {TEAM}: use -n {TEAM}" in other.stderr


@pytest.mark.parametrize("name", ["pod/mended", "deployment/repaired"])
def test_the_fix_can_be_applied(filled: Cluster, name: str, tmp_path: Path) -> None:
    file = tmp_path / "fix.yaml"
    file.write_text(filled.dray("explain", name, "-n", TEAM, "--fix").stdout)
    if name.startswith("pod"):
        assert filled.dray("delete", "-f", str(file)).exit_code == 0
    applied = filled.dray("apply", "-f", str(file))
    assert applied.exit_code == 0, applied.output
    told = filled.dray("explain", name, "-n", TEAM).stdout
    # Without a controller and a scheduler, nothing goes on from here.
    assert "was not created yet" in told or " can be scheduled" in told


def test_wide_output_draws_the_funnel(filled: Cluster) -> None:
    told = filled.dray("explain", "pod/large", "-n", TEAM, "-o", "wide").stdout
    (line,) = [line for line in told.splitlines() if line.endswith("published")]
    assert "█" in line


def test_those_who_see_one_namespace_are_told_how_that_limits_the_answer(
    filled: Cluster, tmp_path: Path
) -> None:
    everything: JsonObject = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}
    told = restricted(filled, tmp_path, everything).dray("explain", "pod/large", "-n", TEAM)
    assert "ResourceClaim of other namespaces" in told.stderr
    assert told.stderr.count("forbidden") == 1
    assert "ResourceSlice could not be read, so which devices there are" in told.stdout
    assert "? devices" in told.stdout
    assert "does not fit" not in told.stdout


def test_those_who_see_one_namespace_are_not_told_whom_preemption_evicts(
    filled: Cluster, tmp_path: Path
) -> None:
    everything: JsonObject = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}
    few = restricted(filled, tmp_path, everything)
    listed = few.dray("explain", "pod/large", "-n", TEAM, "--if-preempted")
    assert listed.exit_code == 1
    assert "DeviceClass objects cannot be read" in listed.stderr
    gates = ("--feature-gates", "DrayPreemption=true")
    assert "preemption" in filled.dray("explain", "pod/large", "-n", TEAM, *gates).stdout
    assert "preemption" not in few.dray("explain", "pod/large", "-n", TEAM, *gates).stdout


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
