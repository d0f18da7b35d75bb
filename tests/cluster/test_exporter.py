"""`dray exporter` as a process, on dray's API server and on a real one, with least rights."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.api.types.meta import JsonObject
from dray.apiserver.access import bootstrap_policy
from tests import kube_apiserver, waiting
from tests.unit.cli.conftest import DRAY
from tests.unit.scheduler.world import claim, device_class, gpu_slice, node

USER = "reader"
SECONDS = 60.0


def objects() -> list[JsonObject]:
    """A node with two GPUs, and a claim that nobody uses."""
    return [device_class(), node("node-0"), gpu_slice("node-0", 2), claim("waits")]


def rights() -> list[JsonObject]:
    """The role of the exporter, as dray's own cluster has it, for a user."""
    rules = bootstrap_policy.CLUSTER_ROLES[bootstrap_policy.EXPORTER]
    group = bootstrap_policy.GROUP
    return [
        {
            "apiVersion": bootstrap_policy.VERSION,
            "kind": "ClusterRole",
            "metadata": {"name": USER},
            "rules": list(rules),
        },
        {
            "apiVersion": bootstrap_policy.VERSION,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": USER},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": USER},
            "subjects": [{"apiGroup": group, "kind": "User", "name": USER}],
        },
    ]


def dray(kubeconfig: Path, *arguments: str, body: JsonObject | None = None) -> str:
    done = subprocess.run(
        [str(DRAY), *arguments, "--kubeconfig", str(kubeconfig)],
        input=json.dumps(body) if body else None,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def exporter(kubeconfig: Path) -> Iterator[str]:
    """The URL of a running exporter's metrics."""
    command = [str(DRAY), "exporter", "--kubeconfig", str(kubeconfig), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()
    assert process.returncode == 0


def read(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--emulated-version=1.34",)], ids=["newest", "1.34"])
def test_a_real_api_server_is_followed_with_the_rights_to_list_and_watch(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    with kube_apiserver.running(tmp_path, USER, options=options) as server:
        admin = server.kubeconfig(kube_apiserver.ADMIN)
        bodies = [*rights(), *objects()]
        for body in bodies:
            dray(admin, "create", "-f", "-", body=body)
        amounts = {"status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110"}}}
        patch = ("--subresource", "status", "--type", "merge", "-p", json.dumps(amounts))
        dray(admin, "patch", "node", "node-0", *patch)
        with exporter(server.kubeconfig(USER)) as url:
            ready = url.replace("/metrics", "/readyz")
            waiting.block_until(lambda: read(ready) == "ok", seconds=SECONDS)
            text = read(url)
            assert 'dray_claims_pending{cause="no_pod"} 1' in text
            state = 'node="node-0",device_class="gpu.example.com",state="free"'
            # A node is tainted until a controller has seen it, so that its devices are stranded.
            assert f"dray_devices{{{state}}} 2" in text
            dray(admin, "delete", "resourceslice", "node-0-gpus")
            waiting.block_until(lambda: state not in read(url), seconds=SECONDS)
            assert re.search(r'dray_driver_pools_gone\{driver="gpu.example.com"\} 1', read(url))
