"""An API server on SQLite as a process that can be killed and started again at the same address."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from dray.client import kubeconfig
from dray.client.kubeconfig import ClusterConnection
from tests.etcd import free_port

START_SECONDS = 60


class ServerProcess:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_port()
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start and wait until it answers."""
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "dray.apiserver.standalone"),
                *(str(self._directory), str(self._port)),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("https://"), f"the server ended with {self._process.wait()}"

    def kill(self) -> None:
        """kill -9: nothing is flushed, nothing is said."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        os.kill(self._process.pid, number)
        with self._process as process:
            return process.wait(START_SECONDS)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def resident_bytes(self) -> int:
        pages = Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def connection(self) -> ClusterConnection:
        return kubeconfig.load(self._directory / "kubeconfig")
