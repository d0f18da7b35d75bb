"""What users of kubectl are used to: names, selectors, files, and what is refused."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.api import kinds
from dray.cli.session.connection import Session
from dray.cli.session.resource_types import ObjectArgument
from dray.cli.verbs import deletion_causes
from dray.cli.verbs.descriptions import command as describe
from dray.cli.verbs.descriptions import nodes, pods
from tests.unit.cli.conftest import DRAY, Cluster, as_list, fleet_documents, run, start, stop
from tests.unit.cli.verbs.conftest import POD, config_map, write

JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {
        "template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
        }
    },
}


def test_delete_goes_on_after_what_is_missing(
    cluster: Cluster, filled: str, tmp_path: Path
) -> None:
    unknown = {"apiVersion": "example.com/v1", "kind": "Nothing", "metadata": {"name": "n"}}
    file = write(tmp_path / "all.yaml", config_map("missing"), unknown, config_map("a"))
    result = cluster.dray("delete", "-f", file, "-n", filled)
    assert result.exit_code == 1
    assert result.stdout == f'configmap "a" deleted from {filled} namespace\n'
    assert 'configmaps "missing" not found' in result.stderr
    assert 'no matches for kind "Nothing"' in result.stderr
    names = cluster.dray("delete", "cm", "missing", "b", "-n", filled, "--ignore-not-found")
    assert names.exit_code == 0
    assert names.output == f'configmap "b" deleted from {filled} namespace\n'


def test_delete_cascades_in_the_background_unless_told_otherwise(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """The server keeps dependents of a job only if it is told to, as kubectl never does."""
    for option, finalizers in (((), None), (("--cascade=foreground",), ["foregroundDeletion"])):
        cluster.dray("create", "-n", namespace, "-f", write(tmp_path / "job.yaml", JOB))
        deleted = cluster.dray("delete", "job/j", "-n", namespace, *option, "--wait=false")
        assert deleted.stdout == f'job.batch "j" deleted from {namespace} namespace\n'
        kept = cluster.dray("get", "job/j", "-n", namespace, "-o", "json", "--ignore-not-found")
        found = json.loads(kept.stdout)["metadata"]["finalizers"] if kept.stdout else None
        assert found == finalizers


def test_delete_asks_first_if_told_to(cluster: Cluster, filled: str) -> None:
    kept = cluster.dray("delete", "cm", "a", "-n", filled, "-i", input="n\n")
    assert "configmap/a" in kept.stdout
    assert "deletion is cancelled" in kept.stdout
    gone = cluster.dray("delete", "cm", "a", "-n", filled, "-i", input="y\n")
    assert f'configmap "a" deleted from {filled} namespace' in gone.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("delete", "cm", "a", "--now", "--grace-period=3"), "--now and --grace-period"),
        (("delete", "cm", "a", "--force", "--grace-period=3"), "--force and a --grace-period"),
        (("delete", "cm", "a", "-o", "yaml"), "dray delete knows only -o name"),
        (("delete", "cm", "a", "-l", "app=a"), "either names or a selector"),
        (("delete", "devices", "gpu-0"), "devices are entries of ResourceSlices"),
        (("get", "cm", "a", "-l", "app=a"), "either names or a selector"),
        (("get", "cm", "-w", "--sort-by=.metadata.name"), "--sort-by cannot sort"),
        (("get", "cm", "--output-watch-events"), "--output-watch-events needs"),
        (("get", "cm", "-R"), "--recursive needs --filename"),
        (("get", "cm", "--subresource=status"), "--subresource needs the names"),
        (("get", "cm", "--raw=/version"), "--raw and a type"),
        (("get", "pods,devices"), "devices cannot be listed with other types"),
        (("get", "cm", "-o", "custom-columns=NAME"), "expected <header>:<json-path-expr>"),
        (("get", "cm/a/b"), "cm/a/b: expected TYPE/NAME"),
        (("events", "--types=Bad"), "bad is neither Normal nor Warning"),
        (("wait", "cm", "--for=delete"), "wait needs a name"),
        (("wait", "--for=delete"), "say what to wait for"),
        (("exec", "p", "ls", "-l"), "the command must follow --"),
        (("exec", "p", "ls"), "the command must follow --"),
    ],
)
def test_what_would_not_be_honoured_is_refused(
    cluster: Cluster, arguments: tuple[str, ...], complaint: str
) -> None:
    refused = run("--kubeconfig", str(cluster.kubeconfig), *arguments)
    assert refused.exit_code in (2, 4), refused.output
    assert complaint in refused.stderr


def test_force_deletes_a_pod_and_says_so(cluster: Cluster, filled: str) -> None:
    result = cluster.dray("delete", "pod", "p", "-n", filled, "--force")
    assert result.stdout == f'pod "p" force deleted from {filled} namespace\n'
    assert "Warning: --force does not wait" in result.stderr


def test_files_name_their_own_namespace(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    document = config_map("own")
    document["metadata"]["namespace"] = namespace
    file = write(tmp_path / "own.yaml", document)
    assert cluster.dray("apply", "-f", file).exit_code == 0
    assert cluster.dray("get", "-f", file, "-o", "name").output == "configmap/own\n"
    assert "Name:" in cluster.dray("describe", "-f", file).stdout
    waited = cluster.dray("wait", "-f", file, "--for=create")
    assert waited.output == "configmap/own condition met\n"
    assert cluster.dray("delete", "-f", file).exit_code == 0


def test_wait_says_at_once_that_an_object_is_missing(cluster: Cluster, namespace: str) -> None:
    missing = cluster.dray("wait", "cm/x", "-n", namespace, "--for=condition=Ready")
    assert missing.exit_code == 4
    assert 'configmaps "x" not found' in missing.stderr
    gone = cluster.dray("wait", "cm/x", "-n", namespace, "--for=delete")
    assert gone.output == "configmap/x condition met\n"


def test_wait_with_a_timeout_of_zero_looks_once(cluster: Cluster, filled: str) -> None:
    met = cluster.dray("wait", "cm/b", "-n", filled, "--for=create", "--timeout=0s")
    assert met.output == "configmap/b condition met\n"
    unmet = cluster.dray("wait", "cm/b", "-n", filled, "--for=condition=X", "--timeout=0")
    assert unmet.exit_code == 5


def test_wait_for_creation_of_what_a_selector_finds(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    command = [str(DRAY), "wait", "--kubeconfig", str(cluster.kubeconfig), "-n", namespace]
    goal = ["cm", "-l", "app=late", "--for=create", "--for=jsonpath={.data.a}=1"]
    waiting = subprocess.Popen([*command, *goal], stdout=subprocess.PIPE, text=True)
    file = write(tmp_path / "late.yaml", config_map("late", a="1"))
    assert cluster.dray("apply", "-n", namespace, "-f", file).exit_code == 0
    printed, _ = waiting.communicate(timeout=60)
    assert printed == "configmap/late condition met\n" * 2


def test_the_beginning_of_a_name_is_enough_to_describe(cluster: Cluster, filled: str) -> None:
    described = cluster.dray("describe", "claims", "on", "-n", filled)
    assert described.stdout.startswith("Name:         one\n")
    missing = cluster.dray("describe", "claim", "two", "-n", filled)
    assert missing.exit_code == 4
    assert f"See what there is: dray get resourceclaims -n {filled}" in missing.stderr


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server with the devices of a fleet."""
    data = tmp_path_factory.mktemp("fleet")
    process = start(data, "--store", "memory")
    try:
        served = Cluster(data / "kubeconfig")
        documents = fleet_documents("quickstart")
        created = served.dray("create", "-f", "-", input=as_list(documents))
        assert created.exit_code == 0, created.output
        yield served
    finally:
        assert stop(process) == 0


@pytest.mark.parametrize(
    "words", [("device", "gpu-0/gpu-0"), ("device/gpu-0/gpu-0",), ("devices", "gpu-0/gpu-0")]
)
def test_a_device_is_described(fleet: Cluster, words: tuple[str, ...]) -> None:
    lines = fleet.dray("describe", *words).stdout.splitlines()
    assert lines[0].split() == ["Name:", "gpu-0"]
    assert "Held By:                     <none>" in lines
    assert any(line.split() == ["productName:", "NVIDIA", "H100", "80GB", "HBM3"] for line in lines)


def test_a_device_that_is_not_there(fleet: Cluster) -> None:
    missing = fleet.dray("describe", "device", "gpu-0/gpu-9")
    assert missing.exit_code == 4
    command = f"dray get devices --kubeconfig {fleet.kubeconfig}"
    assert missing.stderr == f"Error: there is no device gpu-0/gpu-9\nSee: {command}\n"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("devcies", "devices"), ("resourceclaim2", "resourceclaim"), ("podds", "pods")],
)
def test_a_mistyped_type_gets_the_nearest(cluster: Cluster, typed: str, meant: str) -> None:
    result = cluster.dray("get", typed)
    assert result.exit_code == 4
    assert f"Did you mean {meant}?" in result.stderr


def allocated(name: str) -> dict[str, Any]:
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "gpu-0", "device": "gpu-1"}
    return {
        "metadata": {"name": name},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }


def test_a_pod_is_described_with_its_devices() -> None:
    pod = {**POD, "status": {}}
    lines = describe.text(pod, None, pods.devices([allocated("one")])).splitlines()
    start = lines.index("Devices:")
    assert lines[start + 1] == "  gpu-0/gpu-1  gpu.nvidia.com  claim one, request gpu"


def test_certificates_are_not_printed() -> None:
    pem = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"
    annotations = {"dray.dev/agent-certificate": pem}
    shown = describe.text({"metadata": {"name": "n", "annotations": annotations}, "ca": pem}, None)
    assert "BEGIN" not in shown
    assert shown.count("<PEM certificate, ") == 2


def test_a_node_is_described_with_its_devices_and_pods() -> None:
    condition = {"type": "Ready", "status": "True", "reason": "AgentReady"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "gpu-0", "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {"taints": [{"key": "gpu", "value": "x", "effect": "NoSchedule"}]},
        "status": {"conditions": [condition], "allocatable": {"cpu": "64"}},
    }
    slices = [{"spec": {"driver": "d", "pool": {"name": "gpu-0"}, "devices": [{}, {}]}}]
    pod = {**POD, "metadata": {"name": "p", "namespace": "lab"}}
    lines = describe.text(node, [], nodes.related(slices, [pod])).splitlines()
    assert lines[0].split() == ["Name:", "gpu-0"]
    assert [line.split() for line in lines if "gpu=x" in line or "AgentReady" in line] == [
        ["Taints:", "gpu=x:NoSchedule"],
        ["Ready", "True", "<none>", "AgentReady"],
    ]
    start = lines.index("Devices:")
    assert [line.split() for line in lines[start + 1 :]] == [
        ["gpu-0", "d", "2", "devices"],
        ["Non-terminated", "Pods:", "(1", "in", "total)"],
        ["lab", "p", "claims", "one"],
        ["Events:", "<none>"],
    ]


def test_claims_are_listed_with_their_devices(
    cluster: Cluster, filled: str, tmp_path: Path
) -> None:
    status = allocated("one")["status"]
    cluster.dray(
        "patch",
        "claim",
        "one",
        "-n",
        filled,
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": status}),
    )
    shown = cluster.dray("get", "claims", "-n", filled, "-o", "wide").stdout.splitlines()
    assert shown[0].split()[-1] == "DEVICES"
    assert shown[1].split()[-1] == "gpu-0/gpu-1"
    assert "gpu-0/gpu-1" not in cluster.dray("get", "claims", "-n", filled).stdout


class FakeClient:
    """Serves a node."""

    def __init__(self, ready: str) -> None:
        self.ready = ready

    async def get(self, kind: Any, name: str, namespace: str = "") -> Any:
        return {"status": {"conditions": [{"type": "Ready", "status": self.ready}]}}


@pytest.mark.parametrize(
    ("ready", "failure", "expected"),
    [
        ("Unknown", "", "node n is not ready"),
        (
            "True",
            "driver d.example.com is not registered on this node",
            "driver d.example.com on node n does not answer",
        ),
        (
            "True",
            "driver d.example.com: NodeUnprepareResources of claim a/b: UNAVAILABLE: refused",
            "driver d.example.com on node n does not answer",
        ),
        (
            "True",
            "driver d.example.com: the GPU is busy; next try in 3.2 s",
            "fails to unprepare the devices: driver d.example.com: the GPU is busy",
        ),
        ("True", "", "its containers have up to"),
    ],
)
def test_why_a_pod_is_not_deleted(
    monkeypatch: pytest.MonkeyPatch, ready: str, failure: str, expected: str
) -> None:
    async def failed(_session: Session, _pod: Any) -> str:
        return failure

    monkeypatch.setattr(deletion_causes, "_last_unprepare_failure", failed)
    metadata = {"uid": "u", "namespace": "ns", "deletionTimestamp": "2999-01-01T00:00:00Z"}
    pod = {"metadata": metadata, "spec": {"nodeName": "n"}}
    session: Any = type("FakeSession", (), {"client": FakeClient(ready)})()
    reference = ObjectArgument(kinds.POD, "p", "ns")
    cause = asyncio.run(deletion_causes.find(session, reference, pod))
    assert expected in cause.message
    assert "next try" not in cause.message


def test_why_a_claim_is_not_deleted() -> None:
    claim = {
        "metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]},
        "status": {"reservedFor": [{"resource": "pods", "name": "train", "uid": "u"}]},
    }
    reference = ObjectArgument(kinds.RESOURCE_CLAIM, "c", "ns")
    session: Any = None
    cause = asyncio.run(deletion_causes.find(session, reference, claim))
    assert cause.message == "it is in use by train"
    assert cause.advice.endswith("dray delete pod train -n ns")
