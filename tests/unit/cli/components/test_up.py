"""`dray up`, `down` and `status` as real processes: state survives, and there is one at a time."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.cli.session import up_instance
from dray.cli.session.up_instance import UpInstance
from dray.node.containers.container_attempts import Command, ContainerAttempt, Starter
from tests import waiting
from tests.unit.cli.components.test_components import POD, TEMPLATE
from tests.unit.cli.conftest import DRAY, START_SECONDS, Cluster, as_list, run

SECOND = "dray is already up on"


def start(data: Path, *options: str, **environment: str) -> subprocess.Popen[str]:
    """A `dray up` that has said that it is up."""
    process = subprocess.Popen(
        [DRAY, "up", "--data", data, "--listen", "127.0.0.1:0", "--runtime", "none", *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    assert process.stdout is not None
    while line := process.stdout.readline():
        if line.startswith("Ctrl-C ends it"):
            return process
    raise AssertionError(f"dray up ended with {process.wait()}")


@contextmanager
def up(data: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    process = start(data, *options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=START_SECONDS)


def test_a_policy_places_the_pods(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "kubeconfig")
    requests = [{"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 8}}]
    waiting_claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "whole-node"},
        "spec": {"devices": {"requests": requests}},
    }
    with up(tmp_path, "--fleet", "h100", "--nodes", "2", "--policy", "fgd"):
        cluster.dray("create", "-f", "-", input=as_list([TEMPLATE, waiting_claim]))
        nodes = set()
        for name in ("a", "b"):
            body = {**POD, "metadata": {"name": name}}
            cluster.dray("create", "-f", "-", input=as_list([body]))
            cluster.dray("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=60s")
            found = cluster.dray("get", "pod", name, "-o", "json")
            nodes.add(json.loads(found.stdout)["spec"]["nodeName"])
    # Kubernetes would take the other node for the second pod, and no claim could have all of one.
    assert len(nodes) == 1


def test_state_survives_down_and_a_second_up_is_refused(tmp_path: Path) -> None:
    cluster, data = Cluster(tmp_path / "kubeconfig"), ("--data", str(tmp_path))
    with up(tmp_path) as process:
        second = run("up", *data, "--listen", "127.0.0.1:0")
        assert second.exit_code == 1
        assert f"{SECOND} {tmp_path} (process {process.pid}, https://" in second.stderr
        assert "dray down --data" in second.stderr
        cluster.dray("create", "-f", "-", input=as_list([TEMPLATE, POD]))
        ready = cluster.dray("wait", "pod/user", "--for=condition=Ready", "--timeout=60s")
        assert ready.exit_code == 0, ready.output
        found = json.loads(run("status", *data, "-o", "json").stdout)
        assert found["pods"] == {"running": 1}
        assert found["claims"] == {"allocated": 1}
        assert sum(found["devices"].values()) + sum(found["partitions"].values()) == 30
        assert found["devices"]["in use"] == 1
        assert found["morePodsFit"] == {"gpu.nvidia.com": 4, "mig.nvidia.com": 7}
        assert found["components"] == [
            *("apiserver", "controllers", "scheduler", "exporter", "fleet", "recorder")
        ]
        ended = run("down", *data)
        assert (ended.exit_code, ended.stdout) == (0, f"dray is down on {tmp_path}.\n")
        assert process.wait(START_SECONDS) == 0
    with up(tmp_path):
        found = json.loads(run("status", *data, "-o", "json").stdout)
        assert (found["pods"], found["claims"]) == ({"running": 1}, {"allocated": 1})


def test_up_prints_real_counts_and_says_when_it_ends(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [DRAY, "up", "--data", tmp_path, "--listen", "127.0.0.1:0", "--nodes", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("Ctrl-C ends it"):
            process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 0, errors
    assert "Simulated: 2 nodes, 3 GPUs (2 h100-80gb-hbm3, 1 a100-sxm4-80gb).\n" in lines
    assert "two machines" not in "".join(lines)
    assert lines[-2:] == [
        "Stopping …\n",
        f"dray is down. Its state stays; continue with: dray up --data {tmp_path}\n",
    ]


@pytest.mark.parametrize("number", ["0", "-1"])
def test_a_fleet_has_at_least_one_node(number: str, tmp_path: Path) -> None:
    refused = run("up", "--data", str(tmp_path), "--nodes", number)
    assert refused.exit_code == 2
    assert f"{number} is not in the range x>=1" in refused.stderr


def test_a_file_is_no_data_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path, reason in ((file, "is not a directory"), (file / "x", "Not a directory")):
        refused = run("up", "--data", str(path))
        assert refused.exit_code == 1
        assert reason in refused.stderr
        assert "--data" in refused.stderr


def test_a_backup_that_cannot_be_written_names_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()
    for file, reason in (
        (tmp_path / "nowhere" / "x", "nowhere is not a directory"),
        (tmp_path, "exists"),
    ):
        refused = run("backup", str(file), "--data", str(tmp_path))
        assert refused.exit_code in (1, 2)
        assert reason in refused.stderr
        assert "store.db" not in refused.stderr
    folder = run("backup", str(tmp_path), "--data", str(tmp_path), "--overwrite")
    assert "is a directory" in folder.stderr


def test_another_fleet_on_the_same_data_replaces_the_former_one(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "kubeconfig")

    def shared() -> set[str]:
        names = cluster.dray("get", "nodes,resourceslices", "-o", "name").stdout.split()
        return set(names) if any("resourceslice" in name for name in names) else set()

    with up(tmp_path, "--fleet", "network-attached") as process:
        former = waiting.block_until(shared, "slices")
        process.terminate()
        process.wait(START_SECONDS)
    with up(tmp_path, "--fleet", "l4", "--nodes", "1"):
        # The former ones are gone before anything can be placed.
        found = cluster.dray("get", "nodes,resourceslices", "-o", "name").stdout.split()
        assert former.isdisjoint(found)


def test_one_that_was_killed_is_not_in_the_way(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path))
    with up(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(START_SECONDS)
        result = run("status", *data)
        assert (result.exit_code, result.stdout) == (
            3,
            f"dray is not up on {tmp_path}. Start it with: dray up --data {tmp_path}\n",
        )
        assert run("down", *data).stdout == f"dray is not up on {tmp_path}.\n"
    with up(tmp_path):
        shown = run("status", *data)
        assert shown.exit_code == 0, shown.output
        assert "fleet:       quickstart" in shown.stdout


def test_status_says_when_the_disk_refuses_writes_until_one_succeeds(tmp_path: Path) -> None:
    cluster, data = Cluster(tmp_path / "kubeconfig"), ("--data", str(tmp_path))
    with up(tmp_path) as process:
        unlimited = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, unlimited[1]))
        create = ("create", "-f", "-")
        assert "the last write failed" in cluster.dray(*create, input=as_list([TEMPLATE])).stderr
        shown = run("status", *data)
        assert shown.exit_code == 1
        assert "dray is up" in shown.stdout
        assert "the API server is not ready: store: the last write failed: disk" in shown.stderr
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, unlimited)
        assert cluster.dray(*create, input=as_list([TEMPLATE])).exit_code == 0
        assert run("status", *data).exit_code == 0


def test_nothing_is_merged_into_the_users_kubeconfig_unless_asked(tmp_path: Path) -> None:
    own = tmp_path / "config"
    before = {
        "clusters": [{"name": "work", "cluster": {"server": "https://work"}}],
        "contexts": [{"name": "work", "context": {"cluster": "work", "user": "me"}}],
        "users": [{"name": "me", "user": {"token": "t"}}],
        "current-context": "work",
    }
    own.write_text(yaml.safe_dump(before))
    for options in ((), ("--merge-kubeconfig",)):
        process = start(tmp_path / "data", *options, KUBECONFIG=str(own))
        assert run("down", "--data", str(tmp_path / "data")).exit_code == 0
        process.communicate(timeout=START_SECONDS)
        after = yaml.safe_load(own.read_text())
        if not options:
            assert after == before
    assert after["current-context"] == "dray"
    for section in ("clusters", "contexts", "users"):
        assert after[section][0] == before[section][0]
        assert [each["name"] for each in after[section][1:]] == ["dray"]


def test_down_gives_up_on_one_that_does_not_end(tmp_path: Path) -> None:
    stubborn = subprocess.Popen(
        ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 60; done"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert stubborn.stdout is not None
    assert stubborn.stdout.readline() == "ready\n"
    try:
        with up_instance.locked(tmp_path):
            up_instance.write(tmp_path, UpInstance(stubborn.pid))
            result = run("down", "--data", str(tmp_path), "--timeout", "100ms")
        assert result.exit_code == 5
        assert f"kill -9 {stubborn.pid}" in result.stderr
    finally:
        os.killpg(stubborn.pid, signal.SIGKILL)
        stubborn.communicate()


def test_down_stops_the_containers_that_an_agent_has_left(tmp_path: Path) -> None:
    folder = tmp_path / "nodes" / "n1" / "pods" / "uid" / "containers" / "c"

    async def start() -> ContainerAttempt:
        async with Starter() as starter:
            return await starter.start(folder, 0, Command(["sleep", "600"], dict(os.environ)))

    attempt = asyncio.run(start())
    kept = run("down", "--data", str(tmp_path), "--keep-pods")
    assert kept.stdout == f"dray is not up on {tmp_path}.\n"
    assert attempt.exit() is None
    ended = run("down", "--data", str(tmp_path))
    assert ended.stdout == f"dray is not up on {tmp_path}; 1 container stopped.\n"
    assert attempt.exit() is not None


@pytest.mark.parametrize(
    "gates", ["DrayPreemption=false", "DrayGangSearch=false,AllBeta=true", "GenericWorkload=false"]
)
def test_preemption_is_not_switched_on_and_off_at_once(gates: str, tmp_path: Path) -> None:
    result = run("up", "--data", str(tmp_path), "--preemption", "--feature-gates", gates)
    assert result.exit_code == 2
    assert f"on, and --feature-gates {gates} switches it off" in result.stderr


def test_preemption_evicts_for_more_important_pods(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "kubeconfig")
    important = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "important"},
        "value": 1000,
    }
    device = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 8}}
    node: dict[str, Any] = {**TEMPLATE, "metadata": {"name": "node"}}
    node["spec"] = {"spec": {"devices": {"requests": [device]}}}
    source = [{"name": "gpu", "resourceClaimTemplateName": "node"}]
    whole = {**POD, "spec": {**POD["spec"], "resourceClaims": source}}
    urgent = {**whole, "metadata": {"name": "urgent"}}
    urgent["spec"] = {**whole["spec"], "priorityClassName": "important"}
    with up(tmp_path, "--fleet", "h100", "--nodes", "1", "--preemption"):
        cluster.dray("create", "-f", "-", input=as_list([node, important, whole]))
        cluster.dray("wait", "pod/user", "--for=condition=Ready", "--timeout=60s")
        cluster.dray("create", "-f", "-", input=as_list([urgent]))
        ready = cluster.dray("wait", "pod/urgent", "--for=condition=Ready", "--timeout=60s")
        assert ready.exit_code == 0, ready.output
        assert cluster.dray("get", "pods", "-o", "name").stdout == "pod/urgent\n"
