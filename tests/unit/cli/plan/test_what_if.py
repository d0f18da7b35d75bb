"""`dray plan` with changes: tables, JSON, exit codes, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.api import kinds
from dray.cli.inputs import cluster_objects
from dray.cli.plan import what_if
from dray.drivers.simulated import fleet
from tests import builders
from tests.unit.cli.conftest import run

CLASS = "gpu.nvidia.com"


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    """Return a file of a cluster in which two pods of a Deployment and a bare pod run."""
    documents = cluster_objects.documents_of(fleet.load("quickstart"))
    template = builders.template_manifest("one", builders.request_manifest(cls=CLASS))
    template["metadata"]["namespace"] = "default"
    pods = [*_running("web-5d9-a", "gpu-0", "gpu-0"), *_running("web-5d9-b", "gpu-1", "gpu-0")]
    bare = _running("notebook", "gpu-0", "gpu-1", has_owner=False)
    path = tmp_path / "cluster.json"
    items = [*documents, template, *pods, *bare]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def _running(name: str, node: str, device: str, *, has_owner: bool = True) -> list[dict[str, Any]]:
    pod = builders.pod_manifest(name, namespace="default", templates={"gpu": "one"}, nodeName=node)
    pod["metadata"] |= {"uid": name, "labels": {"pod-template-hash": "5d9"}}
    if has_owner:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d9", "uid": "web"}
        pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    claimed = {"name": "gpu", "resourceClaimName": f"{name}-gpu"}
    pod["status"] = {"phase": "Running", "resourceClaimStatuses": [claimed]}
    claim = builders.claim(builders.request(cls=CLASS), name=f"{name}-gpu")
    allocated = msgspec.to_builtins(builders.allocated(claim, device, pool=node, driver=CLASS))
    allocated["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
    ]
    allocated["status"]["reservedFor"] = [{"resource": "pods", "name": name, "uid": name}]
    return [pod, {**kinds.RESOURCE_CLAIM.type_meta, **allocated}]


def test_a_drained_node_is_shown_before_and_after(snapshot: str) -> None:
    result = run("plan", "--against", snapshot, "--drain", "gpu-0")
    assert result.exit_code == 1, result.output
    assert (
        result.stdout
        == """\
POD                 OWNER            CHANGE   BEFORE          AFTER
default/web-5d9-a   deployment/web   moves    gpu-0 (gpu-0)   gpu-1 (gpu-1)
default/notebook    pod/notebook     lost     gpu-0 (gpu-1)   -

CLASS            ROOM BEFORE   ROOM AFTER
gpu.nvidia.com   2             1
mig.nvidia.com   7             7

pods: 1 moved, 1 lost, 1 not affected
"""
    )


def test_changes_can_be_combined_and_printed_as_json(snapshot: str) -> None:
    result = run(
        *("plan", "--against", snapshot, "-o", "json", "--without", "pod/notebook"),
        *("--remove", "gpu-0", "--fail", "gpu-1/gpu-1", "--taint", "mig-0=team=a:NoSchedule"),
    )
    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    assert document["isGood"] is False
    assert document["unaffectedPods"] == 1
    assert {pod["pod"]: pod["change"] for pod in document["pods"]} == {
        "web-5d9-a": "stops",
        "notebook": "removed",
    }
    stopped = document["pods"][0]
    assert stopped["before"] == {
        "node": "gpu-0",
        "devices": [{"driver": CLASS, "pool": "gpu-0", "device": "gpu-0"}],
    }
    assert stopped["after"] is None
    assert stopped["reason"]
    assert document["room"][CLASS] == {
        "before": {"pods": 2, "isComplete": True},
        "after": {"pods": 0, "isComplete": True},
    }


def test_added_machines_make_submitted_pods_fit(snapshot: str, tmp_path: Path) -> None:
    claim = builders.claim_manifest("big", builders.request_manifest(cls=CLASS, count=8))
    manifests = tmp_path / "big.json"
    pod = builders.pod_manifest("big", claims={"gpu": "big"})
    manifests.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [claim, pod]}))
    fits = ("plan", "--against", snapshot, "-f", str(manifests))
    assert run(*fits, "--add-like", "gpu-0:4").exit_code == 1
    result = run(*fits, "--add", "h100:1")
    assert result.exit_code == 0, result.output
    assert "default/big   pod/big   starts   -        h100-0 (gpu-0, gpu-1" in result.stdout


def test_added_machines_get_names_that_are_free() -> None:
    result = run("plan", "--against", "h100", "--add", "h100:2", "--drain", "h100-5", "-o", "json")
    document = json.loads(result.stdout)
    assert document["room"][CLASS]["before"]["pods"] == 32
    assert document["room"][CLASS]["after"]["pods"] == 40


def test_machines_of_a_file_are_added(tmp_path: Path) -> None:
    device = builders.gpu("gpu-0", attributes={"type": "gpu"})
    machine = builders.resource_slice(device, node="own", driver=CLASS)
    node = msgspec.to_builtins(builders.node("own"))
    node["status"] = {"allocatable": {"pods": "10"}}
    path = tmp_path / "own.json"
    slices = {**kinds.RESOURCE_SLICE.type_meta, **msgspec.to_builtins(machine)}
    items = [{**kinds.NODE.type_meta, **node}, slices]
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    result = run("plan", "--against", "quickstart", "--add", str(path), "-o", "json")
    assert json.loads(result.stdout)["room"][CLASS]["after"]["pods"] == 6
    again = run("plan", "--against", "quickstart", "--add", str(path), "--add", str(path))
    assert again.exit_code == 2
    assert "there is a node own already" in again.stderr


def test_a_class_that_fails_for_an_added_device_is_named(tmp_path: Path) -> None:
    machine = builders.resource_slice(builders.gpu("gpu-0"), node="own", driver=CLASS)
    node = {**kinds.NODE.type_meta, "metadata": {"name": "own"}}
    node["status"] = {"allocatable": {"pods": "10"}}
    slices = {**kinds.RESOURCE_SLICE.type_meta, **msgspec.to_builtins(machine)}
    path = tmp_path / "own.json"
    items = [node, slices]
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    result = run("plan", "--against", "quickstart", "--add", str(path))
    assert f"✗ room for {CLASS} after the changes: " in result.stdout
    assert "no such key: type" in result.stdout


def test_room_that_is_not_counted_in_time_is_marked(
    snapshot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(what_if, "_COUNT_SECONDS", -1.0)
    result = run("plan", "--against", snapshot, "--remove", "gpu-1")
    assert f"{CLASS}   0+            0+" in result.stdout
    assert "+ there may be more room" in result.stdout


def test_a_policy_and_feature_gates_are_changes(snapshot: str) -> None:
    result = run("plan", "--against", snapshot, "--policy", "pack", "--remove", "gpu-1")
    assert result.exit_code == 0, result.output
    assert "default/web-5d9-b   deployment/web   moves" in result.stdout
    gates = run("plan", "--against", snapshot, "--feature-gates", "DRAPartitionableDevices=false")
    assert gates.exit_code == 0, gates.output
    assert "mig.nvidia.com   7             0" in gates.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--drain", "gpu-7"], "--drain gpu-7: there is no node gpu-7; did you mean gpu-1?"),
        (["--remove", "gpux"], "--remove gpux: there is no node gpux; did you mean gpu-"),
        (["--add-like", "nig-0:2"], "there is no node nig-0; did you mean mig-0?"),
        (["--add", "h10"], "--add h10: there is no fleet and no file h10; did you mean h100?"),
        (["--add", "h100:0"], "--add h100:0: h100:0: add 1 to 5000 machines"),
        (["--add", "h100:100000000"], "add 1 to 5000 machines"),
        (["--add-like", f"gpu-0:{'9' * 5000}"], "add 1 to 5000 machines"),
        (["--fail", "gpu-0/gpu-9"], "there is no device gpu-9 on gpu-0; did you mean gpu-"),
        (["--fail", "gpu-0"], "--fail gpu-0: write it as NODE/DEVICE"),
        (["--taint", "gpu-0=team=a"], "write it as NODE=KEY=VALUE:EFFECT"),
        (["--taint", "gpu-0=a:Never"], "there is no effect 'Never'; use one of: NoSchedule,"),
        (["--without", "pod/web-5d9-x"], "no pod web-5d9-x in namespace default; did you mean web"),
        (["--without", "web"], "--without web: write it as pod/NAME"),
        (["--feature-gates", "DRAPartitionable=true"], "did you mean DRAPartitionableDevices"),
        (["--feature-gates", "DRADeviceTaints=true"], "has these feature gates already"),
        (["--drain", "gpu-0", "--drain", "gpu-0"], "node gpu-0 is drained already"),
        (["--policy", "pack"], "--policy pack: there is no pod to place"),
        (["--junit", "x.xml", "--drain", "gpu-0"], "--junit is for a plan without changes"),
    ],
)
def test_what_cannot_be_done_or_has_no_effect_is_refused(
    snapshot: str, options: list[str], message: str
) -> None:
    result = run("plan", "--against", snapshot, *options)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
