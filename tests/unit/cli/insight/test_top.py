"""`dray top`: devices by class and state, and what waits and why."""

from __future__ import annotations

import json
from pathlib import Path

from dray.api.types.meta import JsonObject
from tests.unit.cli.conftest import as_list, fleet_documents, run

REQUESTS = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]


def claim(name: str, device: str = "") -> JsonObject:
    result = {"driver": "gpu.nvidia.com", "pool": "gpu-0", "device": device, "request": "gpu"}
    status = {"allocation": {"devices": {"results": [result]}}} if device else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"devices": {"requests": REQUESTS}},
        "status": status,
    }


def pod(name: str, claim_name: str, message: str) -> JsonObject:
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {
            "containers": [{"name": "c", "image": "x"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim_name}],
        },
        "status": {"phase": "Pending", "conditions": [condition]},
    }


def world(tmp_path: Path) -> str:
    documents = fleet_documents("quickstart")
    broken = next(document for document in documents if document["kind"] == "ResourceSlice")
    for device in broken["spec"]["devices"][:2]:
        device["taints"] = [{"key": "bad", "effect": "NoSchedule"}]
    documents += [claim("had", "gpu-0"), claim("wanted"), claim("unused")]
    documents.append(pod("waiting", "wanted", "0/3 nodes are available"))
    path = tmp_path / "world.json"
    path.write_text(as_list(documents))
    return str(path)


def test_devices_are_counted_by_class_and_state(tmp_path: Path) -> None:
    seen = json.loads(run("top", "--against", world(tmp_path), "-o", "json").stdout)
    (gpus,) = [
        device_class for device_class in seen["classes"] if device_class["name"] == "gpu.nvidia.com"
    ]
    assert gpus["devices"] == 5
    assert gpus["states"] == {"allocated": 1, "tainted": 1, "free": 3}
    (partitions,) = [
        device_class for device_class in seen["classes"] if device_class["name"] == "mig.nvidia.com"
    ]
    assert partitions["states"] == {"free": 25}
    assert seen["claims"] == {"allocated": 1, "pending": 2}


def test_what_waits_is_shown_with_its_reason(tmp_path: Path) -> None:
    shown = run("top", "--once", "--against", world(tmp_path))
    assert shown.exit_code == 0, shown.output
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert "CLASS DEVICES FREE ALLOCATED SHARED TAINTED" in lines
    assert "ns/wanted <unknown> 0/3 nodes are available" in lines
    assert "ns/unused <unknown> no pod uses it" in lines
    assert "ns/waiting <unknown> 0/3 nodes are available" in lines
