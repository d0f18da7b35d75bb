"""What lint suggests for rarer mistakes: it is printed, applied, and nothing is wrong then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import fleet_documents, run

POD = """apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers:
  - {name: main, image: x}
"""
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: other}}
    spec: {containers: [{name: main, image: x}]}
"""
AFFINITY = """  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions: [{key: zone, operator: In, values: [a]}]
"""
CLAIMS = """  resourceClaims:
  - {name: gpu, resourceClaimName: a, resourceClaimTemplateName: b}
"""
TEMPLATE = """---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: b}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
"""
CONFIG = """apiVersion: v1
kind: ConfigMap
metadata: {name: same}
data: {a: "1"}
"""
TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}

CASES = {
    "two-objects-of-one-name": (
        f"{CONFIG}---\n{CONFIG.replace('1', '2')}",
        "rename this one: metadata.name: same-2",
    ),
    "label-misspelt": (
        f"{POD}  nodeSelector: {{kubernetes.io/hostnam: h100-0}}\n",
        "Did you mean kubernetes.io/hostname: h100-0?",
    ),
    "label-that-no-node-has": (
        f"{POD}  nodeSelector: {{zone: a}}\n",
        "Would fit without it (no node has zone): remove nodeSelector zone",
    ),
    "labels-that-no-node-has": (
        f"{POD}  nodeSelector: {{zone: a, rack: b}}\n",
        "Would fit without nodeSelector: remove it",
    ),
    "affinity": (f"{POD}{AFFINITY}", "Would fit without the node affinity"),
    "text-for-a-list": (
        POD.replace("image: x}", "image: x, command: sleep}"),
        "Write a list: [sleep]",
    ),
    "labels-of-a-template": (DEPLOYMENT, "Give the template the labels"),
    "no-selector": (
        DEPLOYMENT.replace("  selector: {matchLabels: {app: web}}\n", ""),
        "Add spec.selector.matchLabels",
    ),
    "claim-and-template": (
        POD.replace("image: x}", "image: x, resources: {claims: [{name: gpu}]}}")
        + CLAIMS
        + TEMPLATE,
        "To keep the template: remove resourceClaimName.",
    ),
    "two-containers-of-one-name": (
        f"{POD}  - {{name: main, image: y}}\n",
        "Give it another name, such as main-2",
    ),
    "requests-unlike-limits": (
        POD.replace(
            "image: x}",
            "image: x, resources: {requests: {example.com/a: 1}, limits: {example.com/a: 2}}}",
        ),
        "Write the same in requests: {example.com/a: 2}",
    ),
    "tainted-nodes": (POD, "Would fit: tolerate the taint."),
}


def dump(path: Path, *, taint: bool) -> str:
    """Write a cluster; its nodes may have a taint."""
    documents: list[dict[str, Any]] = fleet_documents("h100")
    for document in documents:
        if document["kind"] == "Node":
            document["status"]["allocatable"]["example.com/a"] = "8"
            document["spec"] = {"taints": [TAINT]} if taint else {}
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}), "utf-8")
    return str(path)


@pytest.mark.parametrize("name", CASES)
def test_the_suggestion_is_a_correction(name: str, tmp_path: Path) -> None:
    manifest, words = CASES[name]
    file, cluster = tmp_path / "file.yaml", tmp_path / "cluster.json"
    file.write_text(manifest, "utf-8")
    options = [str(file), "--against", dump(cluster, taint=name == "tainted-nodes")]
    wrong = run("lint", *options)
    assert words in wrong.stdout
    assert ": 0 errors, 0 warnings" not in wrong.stderr
    run("lint", "--fix", "--unsafe-fixes", *options)
    right = run("lint", "--strict", "--ignore", "extended-resource", *options)
    assert right.exit_code == 0, right.output + file.read_text("utf-8")


def test_the_name_of_a_request_is_suggested_for_names_of_requests_only(tmp_path: Path) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    entry = {"opaque": {"driver": "gpu." + "x" * 60, "parameters": {}}}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "a"},
        "spec": {"devices": {"requests": [request], "config": [entry]}},
    }
    file = tmp_path / "claim.json"
    file.write_text(json.dumps(claim), "utf-8")
    found = run("lint", "--fix", str(file))
    assert "Too long: may not be more than 63 characters" in found.stdout
    assert "Did you mean" not in found.stdout
    assert json.loads(file.read_text("utf-8")) == claim
