"""Every component ends on SIGTERM and SIGINT with exit code 0 and without a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import waiting
from tests.unit.cli.components.test_up import up
from tests.unit.cli.conftest import DRAY, START_SECONDS, Cluster

SIGNALS = [signal.SIGTERM, signal.SIGINT]
DRIVER = """
from dray import driverkit

class Npus(driverkit.Driver):
    name = "npu.example.com"

    def devices(self):
        return [driverkit.device("npu-0")]

driverkit.main(Npus())
"""


def ended(
    arguments: Sequence[str | Path], log: Path, started: str, number: int, **environment: str
) -> str:
    """Start a process, send it a signal when its log has certain words; its whole log."""
    with log.open("w") as output:
        process = subprocess.Popen(
            arguments, stdout=output, stderr=output, env={**os.environ, **environment}
        )
    try:
        waiting.block_until(
            lambda: started in log.read_text() or process.poll() is not None, log.name
        )
        process.send_signal(number)
        code = process.wait(START_SECONDS)
    finally:
        process.kill()
    text = log.read_text()
    assert code == 0, text
    assert "Traceback" not in text
    return text


@pytest.mark.parametrize("number", SIGNALS)
def test_whole_clusters_and_servers_end_quietly(tmp_path: Path, number: int) -> None:
    listen: list[str | Path] = ["--listen", "127.0.0.1:0", "--data", tmp_path]
    whole: list[str | Path] = [DRAY, "up", "--runtime", "none", *listen]
    ended(whole, tmp_path / "up", "Ctrl-C", number)
    ended([DRAY, "apiserver", *listen], tmp_path / "apiserver", "Serving", number)


@pytest.mark.parametrize("number", SIGNALS)
def test_components_of_a_cluster_end_quietly(tmp_path: Path, number: int) -> None:
    data = tmp_path / "data"
    with up(data, "--fleet", "l4", "--nodes", "1"):
        known = {"KUBECONFIG": str(data / "kubeconfig")}
        for name in ("scheduler", "controllers"):
            command: list[str | Path] = [DRAY, name, "--metrics-listen", "127.0.0.1:0"]
            ended(command, tmp_path / name, "127.0.0.1", number, **known)
        waiting.block_until(
            lambda: Cluster(data / "kubeconfig").dray("get", "nodes", "-o", "name").stdout
        )
        # The path of a socket is limited.
        with tempfile.TemporaryDirectory() as folder:
            run = [sys.executable, "-c", DRIVER, "--folder", folder, "--node"]
            absent = ended([*run, "nosuch"], tmp_path / "absent", "no Node", number, **known)
            assert "there is no Node nosuch" in absent
            there = ended([*run, "l4-0"], tmp_path / "there", "1 devices", number, **known)
            assert "there is no Node" not in there
