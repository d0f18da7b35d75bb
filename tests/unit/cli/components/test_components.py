"""Components as processes of their own: they start, say where they are, and end when told to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dray.api.http_messages import Request, Response
from dray.apiserver.access import bootstrap_policy
from dray.cli.command_errors import WrongUsage
from dray.cli.components import foreground, scheduler, store_option
from dray.client.api_client import Client
from tests import audit, etcd
from tests.unit.cli.conftest import (
    DRAY,
    Cluster,
    as_list,
    fleet_documents,
    run,
    start,
    stop,
)

CONFIG_MAP = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kept"},"data":{"a":"1"}}'


def test_state_survives_a_restart_a_second_server_is_refused_and_a_backup_can_be_put_back(
    tmp_path: Path,
) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup.db"
    cluster = Cluster(data / "kubeconfig")
    process = start(data)
    try:
        assert cluster.dray("create", "-f", "-", input=CONFIG_MAP).output == (
            "configmap/kept created\n"
        )
        second = run("apiserver", "--data", str(data), "--listen", "127.0.0.1:0")
        assert second.exit_code == 1
        assert "in use by another process" in second.stderr
        assert run("backup", str(backup), "--data", str(data)).exit_code == 0
        assert run("backup", str(backup), "--data", str(data)).exit_code == 2
        in_use = run("restore", str(backup), "--data", str(data), "--yes")
        assert in_use.exit_code == 1
        assert "Stop what uses it" in in_use.stderr
        assert cluster.dray("delete", "cm", "kept").exit_code == 0
    finally:
        assert stop(process) == 0
    restored = run("restore", str(backup), "--data", str(data), "--yes")
    assert "goes on at revision" in restored.output
    process = start(data)
    try:
        found = cluster.dray("get", "cm", "kept", "-o", "jsonpath={.data.a}")
        assert found.output == "1"
    finally:
        assert stop(process) == 0


def test_versions_can_be_switched_off(tmp_path: Path) -> None:
    process = start(
        tmp_path, "--store", "memory", "--runtime-config", "resource.k8s.io/v1beta1=false"
    )
    try:
        cluster = Cluster(tmp_path / "kubeconfig")
        found = json.loads(cluster.dray("get", "--raw", "/apis/resource.k8s.io").output)
        assert [version["version"] for version in found["versions"]] == [
            "v1",
            "v1beta2",
            "v1alpha3",
        ]
    finally:
        assert stop(process) == 0


def test_the_state_can_be_in_etcd(tmp_path: Path) -> None:
    with etcd.running(tmp_path) as member:
        store = f"etcd://{member.endpoint}/clusters/one"
        for expected in ("configmap/kept created\n", ""):
            process = start(tmp_path / "data", "--store", store)
            try:
                cluster = Cluster(tmp_path / "data" / "kubeconfig")
                created = cluster.dray("create", "-f", "-", input=CONFIG_MAP)
                assert created.stdout == expected, created.stderr
            finally:
                assert stop(process) == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        pytest.param(["--feature-gates", "NoSuch=true"], "NoSuch", id="gate"),
        pytest.param(["--runtime-config", "nosuch/v1=false"], "is not served", id="version"),
        pytest.param(["--runtime-config", "resource.k8s.io/v1=x"], "=true or", id="config-value"),
        pytest.param(["--listen", "nowhere"], "write HOST:PORT", id="listen"),
        pytest.param(["--store", "disk:x"], "sqlite:PATH", id="store"),
        pytest.param(["--store", "etcd://"], "sqlite:PATH", id="etcd"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: list[str], complaint: str) -> None:
    result = run("apiserver", "--data", str(tmp_path), *options)
    assert result.exit_code == 2, result.output
    assert complaint in result.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:6443", ("127.0.0.1", 6443)),
        (":6443", ("0.0.0.0", 6443)),
        ("[::1]:0", ("::1", 0)),
    ],
)
def test_listen_addresses(text: str, expected: tuple[str, int]) -> None:
    assert foreground.parse_listen(text, "--listen", "127.0.0.1:6443") == expected


def test_sqlite_files(tmp_path: Path) -> None:
    assert store_option.sqlite_path("", tmp_path) == tmp_path / "store.db"
    assert store_option.sqlite_path("sqlite:/x/y.db", tmp_path) == Path("/x/y.db")
    with pytest.raises(WrongUsage):
        store_option.sqlite_path("sqlite:", tmp_path)


def test_the_etcd_store_names_the_package_that_it_needs(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['aetcd'] = None; from dray.cli.main import main; "
        "main(['apiserver', '--data', sys.argv[1], '--store', 'etcd://127.0.0.1:1'])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert result.stderr == (
        "Error: --store etcd://… needs the package aetcd; install it with: "
        "pip install 'dray[etcd]'\n"
    )


def test_unknown_controllers_are_named(cluster: Cluster) -> None:
    result = cluster.dray("controllers", "--only", "claims,nosuch")
    assert result.exit_code == 2
    assert "nosuch" in result.stderr


OWN_LEASE = ("--leader-elect-resource-name=own", "--leader-elect-resource-namespace=default")


@pytest.mark.parametrize(
    ("command", "namespace", "lease"),
    [
        (["scheduler"], "kube-system", "dray-scheduler"),
        (["scheduler", *OWN_LEASE], "default", "own"),
        (["controllers"], "kube-system", "dray-controllers"),
    ],
)
def test_a_component_leads_and_lets_go_when_told_to_end(
    cluster: Cluster, command: list[str], namespace: str, lease: str
) -> None:
    process = subprocess.Popen(
        [DRAY, *command, "--kubeconfig", cluster.kubeconfig], stderr=subprocess.PIPE, text=True
    )
    held = cluster.dray(
        *("wait", f"lease/{lease}", "-n", namespace, "--timeout=60s"),
        *("--for=create", "--for=jsonpath={.spec.holderIdentity}"),
    )
    assert held.exit_code == 0, held.output
    assert stop(process) == 0
    after = cluster.dray(
        *("get", f"lease/{lease}", "-n", namespace, "-o", "jsonpath={.spec.holderIdentity}")
    )
    assert after.output == ""


@pytest.mark.parametrize("option", OWN_LEASE)
def test_a_lease_without_an_election_is_refused(option: str) -> None:
    refused = run("scheduler", "--no-leader-elect", option)
    assert refused.exit_code == 2
    assert "--no-leader-elect" in refused.stderr


TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one-gpu"},
    "spec": {
        "spec": {
            "devices": {
                "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]
            }
        }
    },
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "user"},
    "spec": {
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "c", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
    },
}


def test_separate_processes_give_a_pod_its_device(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "kubeconfig")
    with contextlib.ExitStack() as running:
        log = tmp_path / "audit"
        running.callback(stop, start(tmp_path, "--store", "memory", "--audit-log", str(log)))
        documents = [*fleet_documents("quickstart"), TEMPLATE, POD]
        created = cluster.dray("create", "-f", "-", input=as_list(documents))
        assert created.exit_code == 0, created.output
        for component in (["scheduler"], ["controllers", "--only", "claims"]):
            access = tmp_path / f"{component[0]}.kubeconfig"
            command = [str(DRAY), *component, "--kubeconfig", str(access)]
            running.callback(stop, subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        scheduled = cluster.dray(
            *("wait", "pod/user", "--for=condition=PodScheduled", "--timeout=60s")
        )
        assert scheduled.exit_code == 0, scheduled.output
        held = cluster.dray("get", "devices", "-o", "jsonpath={.items[*].holders[*].usedBy[0]}")
        assert held.output == "pods/user"
        explained = cluster.dray("explain", "pod/user")
        assert explained.exit_code == 0
        assert ": allocated: gpu=gpu.nvidia.com/" in explained.output
        asked = audit.read(log)
        assert audit.refused(asked) == set()
        assert {each.user for each in asked} >= {
            bootstrap_policy.SCHEDULER,
            bootstrap_policy.CONTROLLERS,
        }


class Elsewhere:
    """A cluster that is not dray's."""

    async def send(self, request: Request) -> Response:
        assert request.path == "/version"
        version = {"major": "1", "minor": "34+", "gitCommit": "abc", "gitVersion": "v1.34.1-eks"}
        return Response(200, {}, json.dumps(version).encode())


def test_the_scheduler_keeps_to_its_own_nodes_in_a_cluster_that_has_one_already() -> None:
    client = Client(Elsewhere())
    with pytest.raises(WrongUsage, match="a scheduler of its own") as refusal:
        asyncio.run(scheduler.allowed_features(client, "", ""))
    assert "--node-selector" in refusal.value.advice
    features = asyncio.run(scheduler.allowed_features(client, "pool=dray", ""))
    assert features.version == "1.34"


@pytest.mark.parametrize(
    "command",
    [
        *(("exporter",), ("scheduler",), ("controllers",), ("node",), ("snapshot",)),
        *(("fleet", "crash", "n1"), ("fleet", "scale", "2"), ("revoke", "ann")),
    ],
    ids=" ".join,
)
def test_a_command_about_the_whole_cluster_has_no_namespace(command: tuple[str, ...]) -> None:
    refused = run(*command, "-n", "team")
    assert refused.exit_code == 2
    assert "-n has no effect here" in refused.stderr
