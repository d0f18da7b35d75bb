"""dray on a real kube-apiserver that emulates older versions of Kubernetes."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.api.types.meta import JsonObject
from dray.apiserver.access import bootstrap_policy
from tests import audit, kube_apiserver, waiting
from tests.unit.cli.conftest import DRAY, Cluster, as_list
from tests.unit.scheduler.world import (
    claim,
    condition_of,
    device_class,
    devices_of,
    exactly,
    gpu_slice,
    node,
    pod,
)

SECONDS = 60.0
NEWER_KINDS = {
    "1.34": ("DeviceTaintRule", "ResourcePoolStatusRequest", "PodGroup"),
    "1.35": ("DeviceTaintRule", "ResourcePoolStatusRequest", "PodGroup"),
    "1.36": ("ResourcePoolStatusRequest", "PodGroup"),
}
"""The kinds that a version does not have, or has only behind a gate that is off."""
NODES = {"scheduler": "dray"}
TOOL, SCHEDULER = "tool", "scheduler"

Server = kube_apiserver.Server


def objects() -> list[JsonObject]:
    """Return nodes with GPUs, a claim that fits, one that never does, and a pod for each."""
    machines = [body for name in ("n0", "n1") for body in (node(name, NODES), gpu_slice(name, 2))]
    pods = [pod(name, name, schedulerName="dray") for name in ("fits", "never")]
    claims = [claim("fits"), claim("never", exactly(count=9))]
    return [device_class(), *machines, *claims, *pods]


def allowed(user: str) -> JsonObject:
    """Return what makes a user an administrator whom the audit log can tell from others."""
    group = bootstrap_policy.GROUP
    return {
        "apiVersion": bootstrap_policy.VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": user},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }


@pytest.fixture(scope="module", params=sorted(NEWER_KINDS))
def older(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Server, Path]]:
    """A version, a server that emulates it and has the objects, and its audit log."""
    version: str = request.param
    directory = tmp_path_factory.mktemp(f"older-{version}")
    policy, log = directory / "audit-policy.json", directory / "audit.log"
    rules = [{"level": "Metadata", "omitStages": ["RequestReceived"]}]
    document = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
    policy.write_text(json.dumps(document), "utf-8")
    options = (
        f"--emulated-version={version}",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={log}",
        # Nobody runs the controllers that they count with.
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
    )
    with kube_apiserver.running(directory, TOOL, SCHEDULER, options=options) as server:
        create(Cluster(server.kubeconfig(kube_apiserver.ADMIN)))
        yield version, server, log


def create(admin: Cluster) -> None:
    bodies = [*objects(), allowed(TOOL), allowed(SCHEDULER)]
    created = admin.dray("create", "-f", "-", input=as_list(bodies))
    assert created.exit_code == 0, created.output
    amounts = {"status": {"allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110"}}}
    for name in ("n0", "n1"):
        patch = ("--subresource", "status", "--type", "merge", "-p", json.dumps(amounts))
        patched = admin.dray("patch", "node", name, *patch)
        assert patched.exit_code == 0, patched.output


def check_that_nothing_missing_was_asked_for(log: Path, user: str) -> None:
    asked = [each for each in audit.read(log) if each.user == user]
    assert asked
    assert [each for each in asked if each.code == 404 and each.verb in ("list", "watch")] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (("explain", "claim/never"), 1),
        (("explain", "pod/never"), 1),
        (("get", "devices"), 0),
        (("doctor",), None),
        (("snapshot",), 0),
        (("top", "--once"), 0),
        (("cel", "true", "--cluster"), 0),
        (("lint", "-", "--against", "real"), None),
        (("plan", "-f", "-"), None),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_tool_neither_needs_nor_names_what_is_missing(
    older: tuple[str, Server, Path], arguments: tuple[str, ...], exit_code: int | None
) -> None:
    version, server, log = older
    given = as_list([claim("never", exactly(count=9))]) if "-" in arguments else None
    result = Cluster(server.kubeconfig(TOOL)).dray(*arguments, input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    if exit_code is not None:
        assert result.exit_code == exit_code, result.output
    if arguments[0] != "snapshot":
        said = [kind for kind in NEWER_KINDS[version] if re.search(rf"\b{kind}s?\b", result.output)]
        assert said == [], result.output
    check_that_nothing_missing_was_asked_for(log, TOOL)


@contextlib.contextmanager
def scheduler(kubeconfig: Path, log: Path) -> Iterator[None]:
    command = [str(DRAY), "scheduler", "--kubeconfig", str(kubeconfig), "--no-leader-elect"]
    command += ["--scheduler-name", "dray", "--node-selector", "scheduler=dray"]
    with log.open("wb") as output, subprocess.Popen(command, stderr=output) as process:
        try:
            yield
        finally:
            process.terminate()
    assert process.returncode == 0, log.read_text("utf-8")


@pytest.mark.slow
def test_the_scheduler_assigns_devices(older: tuple[str, Server, Path], tmp_path: Path) -> None:
    _, server, log = older
    admin = Cluster(server.kubeconfig(kube_apiserver.ADMIN))

    def read(kind: str, name: str) -> JsonObject:
        found: JsonObject = json.loads(admin.dray("get", kind, name, "-o", "json").stdout)
        return found

    def refusal() -> str:
        condition = condition_of(read("pod", "never"))
        return str(condition.get("message", ""))

    with scheduler(server.kubeconfig(SCHEDULER), tmp_path / "scheduler.log"):
        waiting.block_until(lambda: read("pod", "fits")["spec"].get("nodeName"), seconds=SECONDS)
        assert "cannot allocate all claims" in waiting.block_until(refusal, seconds=SECONDS)
    assert len(devices_of(read("resourceclaim", "fits"))) == 1
    check_that_nothing_missing_was_asked_for(log, SCHEDULER)
