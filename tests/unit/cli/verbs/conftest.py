"""Objects for the commands to work on, in a namespace of each test's own."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from textwrap import dedent

import pytest

from tests.unit.cli.conftest import Cluster

CLAIM = dedent(
    """
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaim
    metadata: {name: NAME, labels: {app: web}}
    spec:
      devices:
        requests:
        - name: gpu
          exactly:
            deviceClassName: gpu.example.com
            selectors:
            - cel:
                expression: >-
                  device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0 &&
                  device.driver == "gpu.example.com"
    """
)
POD: dict = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "b", "c": "d"}},
    "spec": {
        # kubectl before 1.34 names the fields of its volume otherwise.
        "automountServiceAccountToken": False,
        "nodeSelector": {"disk": "fast"},
        "tolerations": [
            {"operator": "Exists"},
            {"key": "gpu", "value": "x", "effect": "NoExecute"},
        ],
        "initContainers": [{"name": "i", "image": "x", "args": ["a", "b\nc"]}],
        "containers": [
            {
                "name": "c",
                "image": "x",
                "command": ["sh", "-c"],
                "ports": [{"containerPort": 80}, {"containerPort": 81}],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                ],
                "resources": {
                    "limits": {"memory": "1Gi", "cpu": 1},
                    "claims": [{"name": "gpu"}],
                },
                "volumeMounts": [
                    {"name": "tmp", "mountPath": "/tmp", "subPath": "x"},
                    {"name": "all", "mountPath": "/all", "readOnly": True},
                ],
            }
        ],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "host", "hostPath": {"path": "/x", "type": "Directory"}},
            {"name": "secret", "secret": {"secretName": "s", "optional": True}},
            {"name": "config", "configMap": {"name": "a"}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "pvc"}},
            {
                "name": "all",
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"path": "t", "expirationSeconds": 3607}},
                    ]
                },
            },
        ],
    },
}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}
_numbers = itertools.count()


def write(path: Path, *documents: str | dict) -> str:
    texts = [
        document if isinstance(document, str) else json.dumps(document) for document in documents
    ]
    path.write_text("\n---\n".join(texts), "utf-8")
    return str(path)


@pytest.fixture
def namespace(cluster: Cluster, tmp_path: Path) -> str:
    """A namespace of the test's own."""
    name = f"test-{next(_numbers)}"
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    created = cluster.dray("create", "-f", write(tmp_path / "namespace.yaml", document))
    assert created.output == f"namespace/{name} created\n"
    return name


def config_map(name: str, **data: str) -> dict:
    return {**CONFIG, "metadata": {"name": name, "labels": {"app": name}}, "data": data}


@pytest.fixture
def filled(cluster: Cluster, namespace: str, tmp_path: Path) -> str:
    documents: list[str | dict] = [
        CLAIM.replace("NAME", "one"),
        POD,
        config_map(
            "b",
            text="two\nlines\n",
            number="1",
            float="1e3",
            yes="y",
            time="2026-01-01T00:00:00Z",
            no="no",
        ),
        config_map("a", empty="", long="word " * 40, colon="a: b", quote='it\'s "x"', star="*"),
    ]
    file = write(tmp_path / "objects.yaml", *documents)
    assert cluster.dray("apply", "-n", namespace, "-f", file).exit_code == 0
    return namespace
