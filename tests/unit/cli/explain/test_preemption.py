"""`dray explain` of a pod for which others are evicted, on files and on a running cluster."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

from dray.api.conversion import defaults
from dray.api.types.meta import JsonObject
from dray.testing import Cluster
from tests.unit.cli.conftest import as_list, run
from tests.unit.scheduler.world import claim, exactly, pod
from tests.unit.scheduling.preemption.test_pod_preemption import budget, fleet, leaving, running

PREEMPTING = ("--feature-gates", "DrayPreemption=true")
SUMMARY = "preemption: the scheduler evicts pod default/batch (priority 5); it fits on one then"
GATE_OFF = "With the feature gate DrayPreemption the scheduler evicts them; without it, it does not"


def stored(body: JsonObject) -> JsonObject:
    """An object as a dump of a cluster has it."""
    name = body["metadata"]["name"]
    own = {"namespace": "default", "uid": f"{body['kind']} {name}".lower()}
    whole = copy.deepcopy({**body, "metadata": {**own, **body["metadata"]}})
    defaults.fill(whole, "2026-01-01T00:00:00Z")
    return whole


@pytest.fixture
def dump(tmp_path: Path) -> str:
    """A pod of priority 5 has the only device, and one of priority 10 waits for it."""
    bodies = [*fleet(one=1), *running("batch", "one", 5, "gpu-0"), budget("keep", 0, "batch")]
    bodies += [claim("x", exactly()), pod("urgent", "x", priority=10)]
    bodies += [claim("y", exactly()), pod("modest", "y", priority=5)]
    file = tmp_path / "dump.json"
    file.write_text(as_list([stored(body) for body in bodies]))
    return str(file)


def explained(dump: str, *arguments: str) -> Result:
    return run("explain", *arguments, "--against", dump, "-n", "default")


def test_the_explanation_says_who_is_evicted_where_the_gate_is_on(dump: str) -> None:
    told = explained(dump, "pod/urgent", *PREEMPTING)
    assert f"  {SUMMARY}\n" in told.stdout
    assert "  This is more than PodDisruptionBudget default/keep allows.\n" in told.stdout
    document = json.loads(explained(dump, "pod/urgent", *PREEMPTING, "-o", "json").stdout)
    assert document["preemption"]["outcome"] == "evicts"
    assert [victim["pod"] for victim in document["preemption"]["victims"]] == ["default/batch"]


def test_the_explanation_says_why_nobody_is_evicted(dump: str) -> None:
    told = explained(dump, "pod/modest", *PREEMPTING).stdout
    why = "on 1 node no pod of lower priority than its 5 has what is missing"
    assert f"  preemption does not help: {why}\n" in told


def test_nothing_is_said_about_preemption_where_the_gate_is_off(dump: str) -> None:
    assert "preemption" not in explained(dump, "pod/urgent").stdout
    assert "preemption" not in explained(dump, "pod/urgent", "-o", "json").stdout


def test_evictions_that_are_under_way_are_known_without_the_gate(tmp_path: Path) -> None:
    nominated = pod("urgent", "x", priority=10)
    nominated["status"] = {"nominatedNodeName": "one"}
    bodies = [*fleet(one=1), *leaving(running("batch", "one", 5, "gpu-0")), claim("x"), nominated]
    file = tmp_path / "dump.json"
    file.write_text(as_list([stored(body) for body in bodies]))
    told = explained(str(file), "pod/urgent").stdout
    assert "  preemption: it gets one when pod default/batch (priority 5) is gone\n" in told
    listed = explained(str(file), "--if-preempted", "pod/urgent")
    assert (listed.exit_code, "is leaving already" in listed.stdout) == (0, True)


def test_victims_are_listed_without_the_gate(dump: str) -> None:
    told = explained(dump, "--if-preempted", "pod/urgent")
    assert told.exit_code == 0
    assert told.stdout.splitlines()[:3] == [
        "pod default/urgent (priority 10) fits on one if 1 pod is evicted:",
        "  POD             PRIORITY   NODE   STATE",
        "  default/batch   5          one    would be evicted",
    ]
    assert "PodDisruptionBudget default/keep" in told.stdout
    assert GATE_OFF in told.stdout
    assert GATE_OFF not in explained(dump, "--if-preempted", "pod/urgent", *PREEMPTING).stdout


def test_a_pod_that_preemption_does_not_help_ends_with_1(dump: str) -> None:
    told = explained(dump, "--if-preempted", "pod/modest")
    assert told.exit_code == 1
    assert told.stdout.splitlines() == [
        "pod default/modest (priority 5): preemption does not help",
        "  on 1 node no pod of lower priority than its 5 has what is missing",
    ]


def test_a_pod_that_has_a_node_needs_no_victims(dump: str) -> None:
    told = explained(dump, "--if-preempted", "pod/batch")
    assert (told.exit_code, told.stdout) == (0, "pod default/batch has node one already\n")
    document = json.loads(explained(dump, "--if-preempted", "pod/batch", "-o", "json").stdout)
    assert document == {"about": "pod/batch", "summary": "pod default/batch has node one already"}


def test_several_pods_are_answered_one_by_one(dump: str) -> None:
    told = explained(dump, "--if-preempted", "pod/urgent", "pod/modest")
    assert told.exit_code == 1
    assert "\n\npod default/modest (priority 5)" in told.stdout
    documents = json.loads(
        explained(dump, "--if-preempted", "pod/urgent", "pod/modest", "-o", "json").stdout
    )
    assert [document["preemption"]["outcome"] for document in documents] == [
        "evicts",
        "not helpful",
    ]


def test_a_pod_of_a_file_is_answered_before_it_is_created(dump: str, tmp_path: Path) -> None:
    file = tmp_path / "pod.json"
    file.write_text(as_list([claim("z", exactly()), pod("new", "z", priority=7)]))
    told = run("explain", "--if-preempted", "-f", str(file), "--against", dump)
    assert told.stdout.startswith("pod default/new (priority 7) fits on one if 1 pod is evicted:")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(["pod/x", "--fix"], "--if-preempted and --fix exclude", id="fix"),
        pytest.param(["pod.spec"], "not for the documentation of fields", id="field"),
        pytest.param(
            ["pod.spec", "--recursive"], "--if-preempted and --recursive exclude", id="recursive"
        ),
        pytest.param(["-A"], "needs the names of pods or workloads", id="all"),
        pytest.param([], "needs the names of pods or workloads", id="nothing"),
        pytest.param(["claim/x"], "for pods and workloads, not resourceclaim/x", id="claim"),
        pytest.param(["ns/x", "pod/x"], "for pods and workloads, not namespace/x", id="namespace"),
    ],
)
def test_what_has_no_effect_is_refused(arguments: list[str], complaint: str) -> None:
    told = run("explain", "--if-preempted", *arguments)
    assert told.exit_code == 2
    assert complaint in told.stderr


def test_a_file_without_pods_is_refused(dump: str, tmp_path: Path) -> None:
    file = tmp_path / "claim.json"
    file.write_text(as_list([claim("z", exactly())]))
    told = run("explain", "--if-preempted", "-f", str(file), "--against", dump)
    assert told.exit_code == 2
    assert "--if-preempted is for pods, and there are none" in told.stderr


CLASSES = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 100
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: all}
spec:
  spec:
    devices:
      requests:
      - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com, allocationMode: All}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s}
spec:
  %s
  terminationGracePeriodSeconds: 0
  nodeSelector: {kubernetes.io/hostname: gpu-0}
  containers: [{name: main, image: busybox, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: all}]
"""
VICTIM = "evicts pod default/low (priority 0); it fits on gpu-0 then"


@pytest.fixture(scope="module")
def live() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.apply(CLASSES + "---" + POD % ("low", "default", ""))
        cluster.wait_for_pod("low")
        cluster.apply(POD % ("high", "default", "priorityClassName: high"))
        cluster.wait_until_unschedulable("high")
        yield cluster


def test_a_running_cluster_is_read_and_not_changed(live: Cluster) -> None:
    options = ["explain", "pod/high", "--kubeconfig", str(live.kubeconfig)]
    listed = run(*options, "--if-preempted")
    assert listed.exit_code == 0, listed.output
    assert "default/low   0          gpu-0   would be evicted" in listed.stdout
    assert VICTIM in run(*options, *PREEMPTING).stdout
    assert "deletionTimestamp" not in live.get("pods", "low")["metadata"]
    assert "nominatedNodeName" not in live.get("pods", "high")["status"]


def test_what_python_is_told_is_what_the_command_prints() -> None:
    with Cluster(feature_gates="DrayPreemption=true") as cluster:
        cluster.apply(CLASSES + "---" + POD % ("low", "default", "priorityClassName: high"))
        cluster.wait_for_pod("low")
        cluster.apply(POD % ("high", "default", "priorityClassName: high"))
        cluster.wait_until_unschedulable("high")
        told = cluster.explain("high")
        options = ["explain", "pod/high", "--kubeconfig", str(cluster.kubeconfig), *PREEMPTING]
        assert run(*options).stdout == told.text
        assert "no pod of lower priority than its 100 has what is missing" in told.text
        document = json.loads(run(*options, "-o", "json").stdout)
        assert document["preemption"] == told.data["preemption"]
