"""A cluster taken away in a file, and devices with those who hold them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.apiserver import standalone
from dray.cli.command_errors import CommandError
from dray.cli.inputs import cluster_objects
from dray.cli.insight import cel, snapshot
from dray.client import kubeconfig
from tests.unit.cli.conftest import Cluster, as_list, fleet_documents, run, start, stop

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "secretive",
        "namespace": "default",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "secret"},
    },
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "x",
                "env": [{"name": "A", "value": "secret"}],
                "args": ["secret"],
            }
        ],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "held"}],
    },
}
HELD = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "held", "namespace": "default"},
    "spec": {
        "devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}
    },
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server of its own: a snapshot shows everything, also what other tests leave behind."""
    data = tmp_path_factory.mktemp("snapshot")
    process = start(data, "--store", "memory")
    try:
        yield fill(Cluster(data / "kubeconfig"))
    finally:
        assert stop(process) == 0


def fill(cluster: Cluster) -> Cluster:
    """Create the quickstart fleet, with one claim that holds a device."""
    documents = [*fleet_documents("quickstart"), HELD, POD]
    created = cluster.dray("create", "-f", "-", input=as_list(documents))
    assert created.exit_code == 0, created.output
    results = [{"request": "g", "driver": "gpu.nvidia.com", "pool": "gpu-0", "device": "gpu-0"}]
    allocation = {
        "devices": {"results": results},
        "allocationTimestamp": "2026-01-01T00:00:00Z",
    }
    reserved = [{"resource": "pods", "name": "secretive", "uid": "u"}]
    status = {"status": {"allocation": allocation, "reservedFor": reserved}}
    patched = cluster.dray(
        *("patch", "resourceclaim", "held", "--type=merge", "--subresource=status"),
        *("-p", json.dumps(status)),
    )
    assert patched.exit_code == 0, patched.output
    return cluster


def test_get_devices_says_who_holds_what_since_when(filled: Cluster) -> None:
    document = json.loads(filled.dray("get", "devices", "-o", "json").stdout)
    held = [each for each in document["items"] if each.get("holders")]
    assert [(each["pool"], each["name"]) for each in held] == [("gpu-0", "gpu-0")]
    (holder,) = held[0]["holders"]
    assert holder["claim"] == "held"
    assert holder["usedBy"] == ["pods/secretive"]
    assert holder["since"] == "2026-01-01T00:00:00Z"
    assert held[0]["attributes"]["productName"]
    header, row = filled.dray("get", "devices", "gpu-0/gpu-0").stdout.splitlines()
    assert header.split()[:3] == ["DEVICE", "DRIVER", "NODE"]
    assert re.split(" {3,}", row)[:9] == [
        *("gpu-0/gpu-0", "gpu.nvidia.com", "gpu-0", "NVIDIA H100 80GB HBM3", "81559Mi/81559Mi"),
        *("in use", "-", "-", "default/held"),
    ]
    assert "pods/secretive" in row
    free = filled.dray("get", "devices", "gpu-0/gpu-1").stdout.splitlines()[1]
    assert re.split(" {3,}", free)[4:8] == ["0/81559Mi", "free", "-", "-"]


def test_get_devices_counts_taints_of_rules(filled: Cluster) -> None:
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "broken"},
        "spec": {
            "deviceSelector": {"pool": "gpu-1", "device": "gpu-0"},
            "taint": {"key": "example.com/broken", "effect": "NoSchedule"},
        },
    }
    created = filled.dray("create", "-f", "-", input=json.dumps(rule))
    assert created.exit_code == 0, created.output
    try:
        row = filled.dray("get", "devices", "gpu-1/gpu-0").stdout.splitlines()[1]
        cells = re.split(" {3,}", row)
        assert cells[5:8] == ["free", "example.com/broken:NoSchedule", "-"]
        other = filled.dray("get", "devices", "gpu-1/gpu-1").stdout.splitlines()[1]
        assert re.split(" {3,}", other)[5:8] == ["free", "-", "-"]
    finally:
        filled.dray("delete", "devicetaintrule", "broken")


def test_a_snapshot_has_no_secrets_and_serves_offline(filled: Cluster, tmp_path: Path) -> None:
    taken = filled.dray("snapshot")
    assert taken.exit_code == 0, taken.output
    assert "secret" not in taken.stdout.replace("secretive", "")
    file = tmp_path / "fleet.json"
    file.write_text(taken.stdout, "utf-8")
    online = filled.dray("explain", "claim/held")
    offline = run("explain", "claim/held", "--against", str(file))
    assert online.stdout == offline.stdout
    assert "allocated" in offline.stdout
    pod = run("explain", "pod/secretive", "--against", str(file))
    assert "✓ devices" in pod.output
    for command in (["top"], ["doctor"], ["cel", "device.driver != ''"]):
        assert run(*command, "--against", str(file)).exit_code in (0, 1)


SENSITIVE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "labels": {"team": "private"},
        "annotations": {"a": "private"},
        "managedFields": [{"manager": "private"}],
        "ownerReferences": [{"kind": "ReplicaSet", "name": "private-rs", "uid": "u"}],
    },
    "spec": {
        "serviceAccountName": "private",
        "hostname": "private",
        "imagePullSecrets": [{"name": "private"}],
        "volumes": [{"name": "v", "secret": {"secretName": "private"}}],
        "containers": [
            {
                "name": "c",
                "image": "private",
                "command": ["private"],
                "env": [{"name": "private", "value": "private"}],
                "envFrom": [{"secretRef": {"name": "private"}}],
                "livenessProbe": {"exec": {"command": ["private"]}},
                "resources": {"claims": [{"name": "gpu"}]},
                "fieldFromTheFuture": "private",
            }
        ],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "held"}],
    },
    "status": {
        "podIP": "10.0.0.1",
        "conditions": [{"type": "Ready", "status": "False", "message": "private-message"}],
        "containerStatuses": [
            {"name": "c", "image": "private", "state": {"terminated": {"message": "private"}}}
        ],
    },
}


def test_of_a_pod_only_what_matters_is_taken_along() -> None:
    kept = snapshot.without_private(SENSITIVE)
    text = json.dumps({**kept, "metadata": {}}).replace("private-message", "")
    assert "private" not in text
    assert "10.0.0.1" not in text
    assert kept["spec"]["resourceClaims"] == SENSITIVE["spec"]["resourceClaims"]  # type: ignore[index]
    assert kept["spec"]["containers"] == [{"name": "c", "resources": {"claims": [{"name": "gpu"}]}}]
    assert "managedFields" not in kept["metadata"]
    assert "annotations" not in kept["metadata"]
    (nameless,) = snapshot.anonymised([kept])
    assert "private" not in json.dumps(nameless)


def test_of_a_stateful_set_only_what_makes_its_next_pods_is_taken_along() -> None:
    template = {
        "metadata": {"labels": {"app": "web"}, "annotations": {"note": "secret"}},
        "spec": {**POD["spec"], "priorityClassName": "high"},
    }
    spec = {"replicas": 3, "serviceName": "secret", "template": template}
    document = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"},
                "spec": spec, "status": {"currentRevision": "secret"}}  # fmt: skip
    reduced = snapshot.without_private(document)
    assert "secret" not in json.dumps(reduced)
    kept = reduced["spec"]["template"]
    assert (reduced["spec"]["replicas"], kept["metadata"]) == (3, {"labels": {"app": "web"}})
    assert kept["spec"]["priorityClassName"] == "high"
    assert kept["spec"]["resourceClaims"] == POD["spec"]["resourceClaims"]
    assert snapshot.anonymised([document]) == []


def test_a_snapshot_brings_the_features_of_its_cluster(tmp_path: Path) -> None:
    file = tmp_path / "old.json"
    metadata = {"annotations": {cluster_objects.VERSION_ANNOTATION: "1.34"}}
    file.write_text(json.dumps({"kind": "List", "metadata": metadata, "items": []}))
    assert cluster_objects.from_files([str(file)]).features.version == "1.34"


def test_names_are_replaced_everywhere_alike(filled: Cluster, tmp_path: Path) -> None:
    text = filled.dray("snapshot", "--anonymise").stdout
    for name in ("secretive", "held", '"gpu-0.', '"mig-0"'):
        assert name not in text
    file = tmp_path / "fleet.json"
    file.write_text(text, "utf-8")
    items = json.loads(text)["items"]
    (claim,) = [each for each in items if each["kind"] == "ResourceClaim"]
    explained = run(
        "explain",
        f"claim/{claim['metadata']['name']}",
        "--against",
        str(file),
        "-n",
        claim["metadata"]["namespace"],
    )
    assert explained.exit_code == 0, explained.output


def test_unique_ids_are_replaced() -> None:
    uid = "9cd2a0c6-3b6e-4e7e-8f0a-1c2d3e4f5a6b"
    document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "uid": uid},
        "status": {"text": f"GPU-{uid}"},
    }
    (changed,) = snapshot.anonymised([document])
    assert changed["metadata"] == {"name": "node-1", "uid": "id-1"}
    assert changed["status"]["text"] == "GPU-id-1"


def test_with_too_few_rights_it_says_what_it_could_not_read(
    filled: Cluster, tmp_path: Path
) -> None:
    subject = {"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": "dra-reader", "apiGroup": "rbac.authorization.k8s.io"}
    rules = [
        {"apiGroups": ["resource.k8s.io"], "resources": ["*"], "verbs": ["get", "list"]},
    ]
    documents: list[dict[str, Any]] = [
        {"kind": "ClusterRole", "metadata": {"name": "dra-reader"}, "rules": rules},
        {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "dra-reader"},
            "subjects": [subject],
            "roleRef": role,
        },
    ]
    documents = [
        {"apiVersion": "rbac.authorization.k8s.io/v1", **document} for document in documents
    ]
    assert filled.dray("apply", "-f", "-", input=as_list(documents)).exit_code == 0
    admin = kubeconfig.load(filled.kubeconfig)
    alice = standalone.connection(filled.kubeconfig.parent, admin.server, "alice")
    kubeconfig.write(tmp_path / "alice", alice)
    restricted = Cluster(tmp_path / "alice")
    explained = restricted.dray("explain", "claim/held")
    assert explained.exit_code == 0, explained.output
    assert "You may not read Event, Node, Pod, ResourceQuota" in explained.stderr
    assert "is forbidden" in explained.stderr
    assert restricted.dray("get", "devices", "-o", "name").exit_code == 0
    refused = restricted.dray("get", "pods")
    assert refused.exit_code == 1
    assert "not allowed: " in refused.stderr


def test_without_the_right_to_read_devices_cel_does_not_say_that_there_are_none() -> None:
    objects = cluster_objects.ClusterObjects("here", unread={"ResourceSlice": "forbidden"})
    with pytest.raises(CommandError, match="not allowed: forbidden"):
        cel.report_on("true", objects)
