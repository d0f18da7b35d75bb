"""A real etcd on loopback for tests, with a directory and ports of its own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

START_SECONDS = 30.0


class Server:
    """One etcd member; its data survive `kill` and `start`."""

    def __init__(self, directory: Path, *options: str, scheme: str = "http") -> None:
        self.port = free_port()
        self._command = [
            *("etcd", "--name", "test", "--data-dir", str(directory / "data")),
            *("--listen-client-urls", f"{scheme}://127.0.0.1:{self.port}"),
            *("--advertise-client-urls", f"{scheme}://127.0.0.1:{self.port}"),
            *("--listen-peer-urls", f"http://127.0.0.1:{free_port()}"),
            *("--logger", "zap", "--log-level", "error"),
            *options,
        ]
        self._log = directory / "etcd.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not self._accepts():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"etcd did not start:\n{self._log.read_text('utf-8')}")
            time.sleep(0.02)

    def _accepts(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        """End it at once, as kill -9 does."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None


def require() -> None:
    """Skip the test where there is no etcd."""
    if shutil.which("etcd") is None:
        pytest.skip("no etcd on PATH")


@contextmanager
def running(directory: Path, *options: str, scheme: str = "http") -> Iterator[Server]:
    """A started server, or a skipped test where there is no etcd."""
    require()
    server = Server(directory, *options, scheme=scheme)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
