"""`--metrics-listen`: components in processes of their own say how they are over HTTP."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dray.node.runtimes import sandbox
from tests import waiting
from tests.unit.cli.conftest import DRAY, START_SECONDS, Cluster, start, stop

ANNOUNCED = "Metrics and health are at "
ANY_PORT = "127.0.0.1:0"


class Shown:
    """What a running component shows."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        said = iter(process.stdout.readline, "")
        self._url = next(line for line in said if line.startswith(ANNOUNCED))[len(ANNOUNCED) :]

    def ask(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"{self._url.strip()}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode()

    def until_ready(self) -> None:
        self._until(lambda: self.ask("/readyz") == (200, "ok"), "being ready")

    def until_metric(self, line: str) -> None:
        self._until(lambda: line in self.ask("/metrics")[1].splitlines(), line)

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        waiting.block_until(condition, what, seconds=START_SECONDS)


@contextlib.contextmanager
def running(kubeconfig: Path, *arguments: str) -> Iterator[Shown]:
    command = [str(DRAY), *arguments, "--metrics-listen", ANY_PORT]
    process = subprocess.Popen(
        [*command, "--kubeconfig", str(kubeconfig)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield Shown(process)
    finally:
        assert stop(process) == 0


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server of our own, as others count on leases that nobody has held before."""
    data = tmp_path_factory.mktemp("own")
    process = start(data, "--store", "memory")
    try:
        yield Cluster(data / "kubeconfig")
    finally:
        assert stop(process) == 0


@pytest.mark.parametrize(
    ("component", "metric"),
    [
        ("scheduler", 'dray_scheduler_queue_pods{state="ready"} 0'),
        ("controllers", 'workqueue_depth{name="claims"} 0'),
    ],
)
def test_a_leader_and_who_stands_by_are_ready(own: Cluster, component: str, metric: str) -> None:
    status = f'leader_election_master_status{{name="dray-{component}"}}'
    with running(own.kubeconfig, component) as leader:
        leader.until_ready()
        leader.until_metric(f"{status} 1")
        leader.until_metric(metric)
        assert leader.ask("/livez") == (200, "ok")
        assert "process_cpu_seconds_total" in leader.ask("/metrics")[1]
        with running(own.kubeconfig, component) as other:
            other.until_ready()
            other.until_metric(f"{status} 0")
            assert metric not in other.ask("/metrics")[1]


@pytest.mark.skipif(not sandbox.is_usable(), reason="containers cannot be run here")
def test_a_node_is_ready_when_it_is_registered(own: Cluster, tmp_path: Path) -> None:
    folders = [
        argument
        for name in ("data", "registry", "cdi")
        for argument in (f"--{name}", str(tmp_path / name))
    ]
    with running(own.kubeconfig, "node", "--name", "here", "--port", "0", *folders) as node:
        node.until_ready()
        assert own.dray("get", "node", "here").exit_code == 0
        node.until_metric("kubelet_running_pods 0")
        node.until_metric('dra_resource_claims_in_use{driver_name="<any>"} 0')


def test_wrong_addresses_are_named(own: Cluster) -> None:
    refused = own.dray("scheduler", "--metrics-listen", "nowhere")
    assert refused.exit_code == 2
    assert "--metrics-listen nowhere: write HOST:PORT" in refused.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = own.dray("controllers", "--metrics-listen", address)
    assert refused.exit_code == 1
    assert f"cannot listen on {address}" in refused.stderr
