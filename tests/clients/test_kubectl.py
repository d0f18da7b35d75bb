"""kubectl against a real socket, where a recent one is on PATH."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clients import manifests
from tests.clients.serving import Served

OLDEST_MINOR = 34
SECONDS = 60.0


def is_recent() -> bool:
    if shutil.which("kubectl") is None:
        return False
    command = ["kubectl", "version", "--client", "-o", "json"]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    try:
        minor = json.loads(output)["clientVersion"]["minor"]
    except (ValueError, KeyError):
        return False
    return int(minor.rstrip("+")) >= OLDEST_MINOR


pytestmark = pytest.mark.skipif(not is_recent(), reason="no recent kubectl on PATH")


class Kubectl:
    """Runs commands as a user would, in a namespace of the test's own."""

    def __init__(self, kubeconfig: Path, home: Path, namespace: str) -> None:
        self._namespace = namespace
        self._directory = home
        self.environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(home)}

    def __call__(self, *arguments: str, document: Any = None, code: int = 0) -> str:
        """What the command prints; it must end with `code`."""
        done = subprocess.run(
            self._command(arguments, document),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command(arguments, None),
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self, kind: str, name: str) -> Any:
        return json.loads(self("get", kind, name, "-o", "json"))

    def _command(self, arguments: tuple[str, ...], document: Any) -> list[str]:
        command = ["kubectl", "--namespace", self._namespace, *arguments]
        if document is None:
            return command
        path = self._directory / "manifest.yaml"
        path.write_text(yaml.safe_dump(document))
        return [*command, "-f", str(path)]


@pytest.fixture
def kubectl(served: Served, tmp_path: Path) -> Kubectl:
    namespace = f"test-{uuid.uuid4()}"
    ready = Kubectl(served.kubeconfig, tmp_path, namespace)
    ready("create", "namespace", namespace)
    return ready


def test_version_api_resources_and_explain(kubectl: Kubectl) -> None:
    assert "Server Version: v1.37.0" in kubectl("version")
    listed = kubectl("api-resources", "--api-group=resource.k8s.io", "-o", "wide")
    assert "resourceclaims" in listed
    assert "deletecollection" in listed
    assert "resource.k8s.io/v1beta1" in kubectl("api-versions")
    explained = kubectl("explain", "resourceclaim.spec.devices.requests")
    assert "FIELD: requests <[]DeviceRequest>" in explained
    assert "FIELDS:" in kubectl("explain", "pod.spec.containers", "--recursive")


def test_create_get_and_describe(kubectl: Kubectl) -> None:
    created = kubectl("create", document=manifests.claim("made"))
    assert created.strip() == "resourceclaim.resource.k8s.io/made created"
    refused = kubectl("create", document=manifests.claim("made"), code=1)
    assert 'resourceclaims.resource.k8s.io "made" already exists' in refused
    name, state, _age = kubectl("get", "resourceclaims", "--no-headers").split()
    assert (name, state) == ("made", "pending")
    assert kubectl("get", "resourceclaim/made", "-o", "name").strip().endswith("/made")
    described = kubectl("describe", "resourceclaim", "made")
    assert "Device Class Name:  gpu.example.com" in described
    assert "Events:" in described


def test_refusals_read_as_sentences(kubectl: Kubectl) -> None:
    broken = manifests.claim("bad")
    broken["spec"]["devices"]["requests"][0]["exactly"]["memory"] = "40Gi"
    said = kubectl("create", document=broken, code=1)
    assert 'unknown field "spec.devices.requests[0].exactly.memory"' in said
    assert '(NotFound): pods "missing" not found' in kubectl("get", "pod", "missing", code=1)


def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl) -> None:
    assert "created" in kubectl("apply", document=manifests.deployment("applied"))
    assert "unchanged" in kubectl("apply", document=manifests.deployment("applied"))
    changed = manifests.deployment("applied", replicas=5)
    assert "configured" in kubectl("apply", document=changed)
    assert kubectl.read("deployment", "applied")["spec"]["replicas"] == 5
    dry = kubectl("apply", "--dry-run=server", document=manifests.deployment("applied"))
    assert "configured (server dry run)" in dry
    assert kubectl.read("deployment", "applied")["spec"]["replicas"] == 5


def test_server_side_apply_takes_over_and_meets_conflicts(kubectl: Kubectl) -> None:
    """What kubectl applied before is its own; defaults in a list of one owner have changed it."""
    kubectl("apply", document=manifests.deployment("mine"))
    assert "serverside-applied" in kubectl(
        "apply", "--server-side", document=manifests.deployment("mine")
    )
    kubectl("apply", document=manifests.claim("ssa"))
    refused = kubectl("apply", "--server-side", document=manifests.claim("ssa"), code=1)
    assert (
        "Apply failed with 1 conflict: "
        'conflict with "kubectl-client-side-apply" using resource.k8s.io/v1: .spec.devices.requests'
    ) in refused
    kubectl("apply", "--server-side", "--force-conflicts", document=manifests.claim("ssa"))
    shown = json.loads(
        kubectl("get", "resourceclaim", "ssa", "-o", "json", "--show-managed-fields")
    )
    owners = {entry["manager"]: entry["fieldsV1"] for entry in shown["metadata"]["managedFields"]}
    assert owners["kubectl"]["f:metadata"]["f:labels"]["f:app"] == {}


def test_diff_shows_what_would_change(kubectl: Kubectl) -> None:
    kubectl("apply", document=manifests.claim("diffed"))
    assert kubectl("diff", document=manifests.claim("diffed")) == ""
    changed = manifests.claim("diffed", {"app": "other"})
    for flags in ((), ("--server-side", "--force-conflicts")):
        shown = kubectl("diff", *flags, document=changed, code=1)
        assert "-    app: test" in shown
        assert "+    app: other" in shown


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("strategic", {"metadata": {"labels": {"patched": "yes"}}}),
        ("merge", {"metadata": {"labels": {"patched": "yes"}}}),
        ("json", [{"op": "add", "path": "/metadata/labels/patched", "value": "yes"}]),
    ],
)
def test_patch(kubectl: Kubectl, kind: str, patch: Any) -> None:
    kubectl("create", document=manifests.claim("patched"))
    kubectl("patch", "resourceclaim", "patched", f"--type={kind}", "-p", json.dumps(patch))
    labels = kubectl.read("resourceclaim", "patched")["metadata"]["labels"]
    assert labels == {"app": "test", "patched": "yes"}


def test_edit_with_a_script(kubectl: Kubectl, tmp_path: Path) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i "s/app: test/app: edited/" "$1"\n')
    editor.chmod(0o755)
    kubectl.environment["EDITOR"] = str(editor)
    kubectl("create", document=manifests.claim("edited"))
    assert "edited" in kubectl("edit", "resourceclaim", "edited")
    assert kubectl.read("resourceclaim", "edited")["metadata"]["labels"] == {"app": "edited"}


def test_replace_label_and_annotate(kubectl: Kubectl) -> None:
    kubectl("create", document=manifests.claim("replaced"))
    kubectl("replace", document=manifests.claim("replaced", {"app": "second"}))
    kubectl("label", "resourceclaim", "replaced", "more=1")
    kubectl("label", "resourceclaim", "replaced", "app=third", "--overwrite")
    kubectl("annotate", "resourceclaim", "replaced", "note=hello")
    metadata = kubectl.read("resourceclaim", "replaced")["metadata"]
    assert metadata["labels"] == {"app": "third", "more": "1"}
    assert metadata["annotations"] == {"note": "hello"}
    kubectl("replace", "--force", document=manifests.pod("forced"))
    kubectl("replace", "--force", "--grace-period=0", document=manifests.pod("forced"))


def test_scale_and_rollout_status(kubectl: Kubectl) -> None:
    kubectl("create", document=manifests.deployment("web"))
    assert "scaled" in kubectl("scale", "deployment", "web", "--replicas=3")
    kubectl("scale", "deployment", "web", "--current-replicas=3", "--replicas=1")
    found = kubectl.read("deployment", "web")
    assert found["spec"]["replicas"] == 1
    status = {
        "observedGeneration": found["metadata"]["generation"],
        "replicas": 1,
        "updatedReplicas": 1,
        "availableReplicas": 1,
        "readyReplicas": 1,
    }
    watching = kubectl.start("rollout", "status", "deployment/web", "--timeout=30s")
    kubectl(
        "patch", "deployment", "web", "--subresource=status", "--type=merge",
        "-p", json.dumps({"status": status}),
    )  # fmt: skip
    output, _ = watching.communicate(timeout=SECONDS)
    assert watching.returncode == 0, output
    assert 'deployment "web" successfully rolled out' in output
    assert "deployment.apps/web restarted" in kubectl("rollout", "restart", "deployment/web")
    assert "image updated" in kubectl("set", "image", "deployment/web", "main=example.com/new:2")


def test_get_watch_prints_changes_as_they_come(kubectl: Kubectl) -> None:
    kubectl("create", document=manifests.claim("first"))
    with kubectl.start("get", "resourceclaims", "--watch", "--no-headers") as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().split()[0] == "first"
        kubectl("create", document=manifests.claim("second"))
        assert watching.stdout.readline().split()[:2] == ["second", "pending"]
        watching.terminate()


def test_wait(kubectl: Kubectl) -> None:
    kubectl("create", document=manifests.pod("waited"))
    with kubectl.start("wait", "--for=condition=Ready", "pod/waited", "--timeout=30s") as waiting:
        condition = {"type": "Ready", "status": "True"}
        status = json.dumps({"status": {"conditions": [condition]}})
        kubectl("patch", "pod", "waited", "--subresource=status", "-p", status)
        output, _ = waiting.communicate(timeout=SECONDS)
    assert waiting.returncode == 0, output
    kubectl("wait", "--for=jsonpath={.status.phase}=Pending", "pod/waited", "--timeout=10s")
    kubectl("wait", "--for=create", "pod/waited", "--timeout=10s")


def test_delete_waits_until_the_object_is_gone(kubectl: Kubectl) -> None:
    for name in ("one", "two", "three"):
        kubectl("create", document=manifests.claim(name))
    assert "deleted" in kubectl("delete", "resourceclaim", "one")
    assert "deleted" in kubectl("delete", "resourceclaims", "-l", "app=test", "--wait=false")
    kubectl("create", document=manifests.pod("pod"))
    kubectl("delete", "pod", "pod", "--grace-period=0", "--force")
    assert "not found" in kubectl("delete", "pod", "pod", code=1)
    assert kubectl("delete", "pod", "pod", "--ignore-not-found") == ""


def test_deletion_cascades_as_asked(kubectl: Kubectl) -> None:
    kubectl("create", document=manifests.deployment("owner"))
    assert "deleted" in kubectl("delete", "deployment", "owner", "--cascade=background")
    kubectl("create", document=manifests.deployment("orphaned"))
    kubectl("delete", "deployment", "orphaned", "--cascade=orphan", "--wait=false")


def test_typed_commands_send_protobuf(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "d", "--image=x", "--replicas=2")
    kubectl("create", "job", "j", "--image=x", "--", "echo", "hello")
    kubectl("create", "configmap", "m", "--from-literal=a=b")
    kubectl("create", "quota", "q", "--hard=pods=3,requests.cpu=2")
    kubectl("create", "serviceaccount", "s")
    kubectl("create", "role", "r", "--verb=get,list", "--resource=pods")
    kubectl("create", "rolebinding", "b", "--role=r", "--serviceaccount=default:s")
    assert kubectl("create", "token", "s", "--duration=10m").strip().count(".") == 2
    assert kubectl.read("deployment", "d")["spec"]["replicas"] == 2
    assert kubectl.read("configmap", "m")["data"] == {"a": "b"}
    assert kubectl.read("resourcequota", "q")["spec"]["hard"] == {"pods": "3", "requests.cpu": "2"}
    container = kubectl.read("job", "j")["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["echo", "hello"]


def test_auth(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "resourceclaims").strip() == "yes"
    as_nobody = ("--as=nobody", "--as-group=system:authenticated")
    assert "no" in kubectl("auth", "can-i", "create", "pods", *as_nobody, code=1)
    assert "*.*" in kubectl("auth", "can-i", "--list")
    assert "system:masters" in kubectl("auth", "whoami")


def test_a_pod_that_runs_nowhere_has_an_empty_log_and_no_shell(kubectl: Kubectl) -> None:
    kubectl("create", document=manifests.pod("nowhere"))
    assert kubectl("logs", "nowhere") == ""
    refused = kubectl("exec", "nowhere", "--", "true", code=1)
    assert "pod nowhere does not have a host assigned" in refused


def test_nodes_are_cordoned_and_tainted(kubectl: Kubectl) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "kubectl-node"}}
    kubectl("create", document=node)
    kubectl("cordon", "kubectl-node")
    kubectl("taint", "node", "kubectl-node", "a=b:NoSchedule")
    kubectl("uncordon", "kubectl-node")
    spec = kubectl.read("node", "kubectl-node")["spec"]
    assert {"key": "a", "value": "b", "effect": "NoSchedule"} in spec["taints"]
    assert "unschedulable" not in spec
    assert "Taints:" in kubectl("describe", "node", "kubectl-node")
