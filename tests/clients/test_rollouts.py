"""`kubectl rollout` on StatefulSets and DaemonSets of a whole cluster, where kubectl is on PATH."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.api.types.meta import JsonObject
from tests.clients import manifests, test_containers, test_kubectl
from tests.clients.test_kubectl import Kubectl

pytestmark = pytest.mark.skipif(not test_kubectl.is_recent(), reason="no recent kubectl on PATH")

SECONDS = 60.0
STATUS = ("rollout", "status", "--timeout=50s")
OLD, NEW = "registry.example.com/train:1", "registry.example.com/train:2"
CAUSE = "kubernetes.io/change-cause"


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder = tmp_path_factory.mktemp("cluster")
    dray = str(Path(sys.executable).with_name("dray"))
    where = ("--data", str(folder), "--listen", "127.0.0.1:0", "--store", "memory")
    options = ("--fleet", "h100", "--nodes", "2", "--runtime", "none")
    up = subprocess.Popen([dray, "up", *where, *options], stdout=subprocess.DEVNULL)
    try:
        test_containers.wait_for(folder / "kubeconfig")
        yield Kubectl(folder / "kubeconfig", folder, "default")
    finally:
        up.terminate()
        up.wait(SECONDS)


def workload(kind: str, name: str, **spec: object) -> JsonObject:
    body = manifests.deployment(name)
    template = body["spec"]["template"]
    template["spec"]["terminationGracePeriodSeconds"] = 0
    template["spec"]["containers"][0]["command"] = ["sh", "-c", "one && two < three"]
    selector = body["spec"]["selector"]
    metadata = {**body["metadata"], "annotations": {CAUSE: "first"}}
    spec = {"selector": selector, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def until_running(kubectl: Kubectl, name: str, *images: str) -> None:
    """Wait until the pods of a workload, in the order of their names, have these images."""
    path = "jsonpath={.items[*].spec.containers[0].image}"
    seen, end = "", time.monotonic() + SECONDS
    while seen.split() != list(images):
        assert time.monotonic() < end, seen
        seen = kubectl("get", "pods", "-l", f"app={name}", "-o", path)


def history(kubectl: Kubectl, workload: str) -> list[list[str]]:
    """The revisions and their causes, less the heading."""
    return [line.split() for line in kubectl("rollout", "history", workload).splitlines()[2:-1]]


@pytest.mark.parametrize(
    ("kind", "done"),
    [("StatefulSet", "roll out complete"), ("DaemonSet", "successfully rolled out")],
)
def test_history_undo_and_status(kubectl: Kubectl, kind: str, done: str) -> None:
    name = f"undone-{kind.lower()}"
    target = f"{kind.lower()}/{name}"
    size = {"replicas": 2} if kind == "StatefulSet" else {}
    kubectl("create", document=workload(kind, name, **size))
    assert done in kubectl(*STATUS, target)
    kubectl("annotate", target, f"{CAUSE}=second", "--overwrite")
    kubectl("set", "image", target, f"main={NEW}")
    assert done in kubectl(*STATUS, target)
    until_running(kubectl, name, NEW, NEW)
    assert history(kubectl, target) == [["1", "first"], ["2", "second"]]
    shown = kubectl("rollout", "history", target, "--revision=1")
    assert OLD in shown
    assert "one && two < three" in shown
    assert "rolled back" in kubectl("rollout", "undo", target)
    assert done in kubectl(*STATUS, target)
    until_running(kubectl, name, OLD, OLD)
    assert history(kubectl, target) == [["2", "second"], ["3", "first"]]
    kubectl("rollout", "undo", target, "--to-revision=2")
    assert done in kubectl(*STATUS, target)
    until_running(kubectl, name, NEW, NEW)
    said = kubectl("rollout", "undo", target, "--to-revision=9", code=1)
    assert "unable to find specified revision 9 in history" in said


def test_a_canary_stays_one_until_the_partition_is_lifted(kubectl: Kubectl) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    kubectl(
        "create", document=workload("StatefulSet", "canary", replicas=2, updateStrategy=rolling)
    )
    kubectl(*STATUS, "sts/canary")
    kubectl("set", "image", "sts/canary", f"main={NEW}")
    said = kubectl(*STATUS, "sts/canary")
    assert "partitioned roll out complete: 1 new pods have been updated" in said
    until_running(kubectl, "canary", OLD, NEW)
    kubectl("delete", "pod", "canary-0")
    kubectl("wait", "--for=create", "pod/canary-0", "--timeout=50s")
    kubectl("wait", "--for=condition=Ready", "pod/canary-0", "--timeout=50s")
    until_running(kubectl, "canary", OLD, NEW)
    patch = '{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}'
    kubectl("patch", "sts", "canary", "-p", patch)
    kubectl(*STATUS, "sts/canary")
    until_running(kubectl, "canary", NEW, NEW)
