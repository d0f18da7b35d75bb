"""`dray ui` beside a real kube-apiserver: it reads Kubernetes' own answers, and writes nothing."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from dray.api.types.meta import JsonObject
from tests import kube_apiserver
from tests.ui.browser import Browser, Stream, link_in
from tests.ui.processes import DRA, READ, pod, role
from tests.unit.cli.conftest import DRAY
from tests.unit.scheduler.world import claim, device_class, exactly, gpu_slice, node

pytestmark = pytest.mark.slow

USER = "reader"
DEVICE = "gpu.example.com/node-0/gpu-0"


@contextlib.contextmanager
def dashboard(kubeconfig: Path) -> Iterator[Browser]:
    """A browser that is logged in at a `dray ui` with a kubeconfig."""
    command = [str(DRAY), "ui", "--kubeconfig", str(kubeconfig), "--allow-actions"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url, key = link_in(process.stdout.readline())
            browser = Browser(url)
            assert browser.log_in(key=key).status == 200
            yield browser
        finally:
            process.terminate()
    assert process.returncode == 0


def dray(kubeconfig: Path, *arguments: str, body: JsonObject | None = None) -> str:
    done = subprocess.run(
        [str(DRAY), *arguments, "--kubeconfig", str(kubeconfig)],
        input=json.dumps(body) if body else None,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1) if arguments[0] == "explain" else done.returncode == 0, done
    return done.stdout


def status(kubeconfig: Path, name: str, changes: JsonObject) -> None:
    patch = ("--subresource", "status", "--type", "merge", "-p", json.dumps({"status": changes}))
    dray(kubeconfig, "patch", "resourceclaim", name, *patch)


def allocated(kubeconfig: Path, name: str, user: str) -> None:
    """Give a claim a device for a pod, as a scheduler does."""
    uid = json.loads(dray(kubeconfig, "get", "pod", user, "-o", "json"))["metadata"]["uid"]
    driver, pool, device = DEVICE.split("/")
    result = {"request": "gpu", "driver": driver, "pool": pool, "device": device}
    reserved = [{"resource": "pods", "name": user, "uid": uid}]
    status(
        kubeconfig,
        name,
        {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved},
    )


def rights(*rules: tuple[str, str, str]) -> list[JsonObject]:
    role_, binding = role(USER, "", *rules)
    group = "rbac.authorization.k8s.io"
    return [role_, {**binding, "subjects": [{"apiGroup": group, "kind": "User", "name": USER}]}]


@pytest.mark.parametrize("version", ["", "1.34"], ids=["newest", "1.34"])
def test_a_real_api_server_is_shown(tmp_path: Path, version: str) -> None:
    options = ["--disable-admission-plugins=ServiceAccount"]
    if version:
        options.append(f"--emulated-version={version}")
    with kube_apiserver.running(tmp_path, USER, options=tuple(options)) as server:
        admin, reader = server.kubeconfig(kube_apiserver.ADMIN), server.kubeconfig(USER)
        for body in (
            *rights((READ, DRA, "resourceslices deviceclasses"), (READ, "", "nodes")),
            *(device_class(), node("node-0"), gpu_slice("node-0", 2)),
            *(claim("held"), claim("many", exactly(count=99)), claim("alone")),
            *(pod("runs", "held"), pod("waits", "many")),
        ):
            dray(admin, "create", "-f", "-", body=body)
        with dashboard(admin) as browser, browser.stream() as stream:
            _look_at_everything(admin, browser, stream)
            _act(browser, stream, has_rules=not version)
        with dashboard(reader) as browser, browser.stream() as stream:
            _look_with_fewer_rights(browser, stream)


def _look_at_everything(admin: Path, browser: Browser, stream: Stream) -> None:
    waits = "pod/default/waits"
    state = stream.until(lambda now: now["waiting"].get(waits, {}).get("reason"), "a reason")
    assert [(cell["n"], cell["st"]) for cell in state["cells"].values()] == [("node-0", "free")] * 2
    assert state["unreadable"] == []
    assert state["waiting"][waits]["reason"] == dray(admin, "explain", "pod/waits").splitlines()[0]
    assert state["waiting"]["claim/default/alone"]
    allocated(admin, "held", "runs")
    state = stream.until(lambda now: now["cells"][DEVICE]["st"] == "in use", "a device in use")
    cell = state["cells"][DEVICE]
    assert (cell["h"], cell["u"]) == (["default/held"], ["default/runs"])
    steps = [step["step"] for step in browser.get("pod/default/runs").document["chain"]]
    assert steps[:3] == ["claim", "request", "device"]
    for path in ("health", "capacity", "claim/default/held", "node/node-0", f"explain/{waits}"):
        assert browser.get(path).status == 200, path
    expression = quote('device.driver == "gpu.example.com"', safe="")
    found = browser.get(f"filter?expression={expression}")
    assert len(found.document["cells"]) == 2


def _act(browser: Browser, stream: Stream, *, has_rules: bool) -> None:
    may = browser.session["rights"]
    assert may == {"deletePods": ["*"], "cordon": True, "taintDevices": has_rules}
    taint = browser.post("actions", {"action": "taint-device", "device": DEVICE})
    assert taint.status == (200 if has_rules else 404)
    if has_rules:
        stream.until(lambda now: now["cells"][DEVICE].get("m") == ["tainted"], "a tainted device")
    assert browser.post("actions", {"action": "cordon", "node": "node-0"}).status == 200
    stream.until(lambda now: now["nodes"]["node-0"]["cordoned"], "a cordoned node")


def _look_with_fewer_rights(browser: Browser, stream: Stream) -> None:
    state = stream.first()
    assert len(state["cells"]) == 2
    assert not state["waiting"]
    assert {"Pod", "ResourceClaim"} <= {line.partition(":")[0] for line in state["unreadable"]}
    assert browser.session["canAct"] is False
    for path in ("pod/default/runs", "claim/default/held"):
        assert browser.get(path).status == 403, path
    assert browser.post("actions", {"action": "uncordon", "node": "node-0"}).status == 403
