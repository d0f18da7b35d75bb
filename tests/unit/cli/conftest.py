"""A real `dray apiserver` for the commands to talk to, one for all tests of a worker."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result

from dray.cli.inputs import cluster_objects
from dray.cli.main import main
from dray.drivers.simulated import fleet

START_SECONDS = 60.0
DRAY = Path(sys.executable).parent / "dray"


class Cluster(NamedTuple):
    kubeconfig: Path

    def dray(self, *arguments: str, input: str | None = None) -> Result:
        """Run a command against the cluster, in this process."""
        return run(*arguments, "--kubeconfig", str(self.kubeconfig), input=input)


def run(*arguments: str, input: str | None = None) -> Result:
    return CliRunner().invoke(main, list(arguments), input=input)


def start(data: Path, *options: str) -> subprocess.Popen[str]:
    """A server that has said where it is."""
    process = subprocess.Popen(
        [DRAY, "apiserver", "--data", data, "--listen", "127.0.0.1:0", *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("Serving the Kubernetes API at https://127.0.0.1:"), line
    return process


def stop(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=START_SECONDS)
    return process.returncode


def fleet_documents(name: str) -> list[dict[str, Any]]:
    """The nodes, classes and slices of a simulated fleet."""
    return cluster_objects.documents_of(fleet.load(name))


def as_list(documents: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """Undo what a command changes that runs in the process of the tests."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    data = tmp_path_factory.mktemp("cluster")
    process = start(data, "--store", "memory")
    try:
        yield Cluster(data / "kubeconfig")
    finally:
        assert stop(process) == 0
