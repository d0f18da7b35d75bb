"""The stand-in for the suite's image: two connections become one."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.e2e import hostpathplugin

from tests.waiting import block_until


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        found = int(free.getsockname()[1])
    command = [sys.executable, hostpathplugin.__file__, "--v=5"]
    command += [f"--endpoint={tmp_path / 'p'}", f"--proxy-endpoint=tcp://:{found}"]
    # What an earlier one has left is in the way of nobody.
    (tmp_path / "p").touch()
    with subprocess.Popen(command) as process:
        yield found
        process.kill()


def _near(folder: Path) -> socket.socket:
    def connect() -> socket.socket | None:
        made = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):
            made.connect(str(folder / "p"))
            return made
        made.close()
        return None

    found = block_until(connect, "the socket")
    assert found is not None
    return found


def test_connections_are_joined_in_pairs(tmp_path: Path, port: int) -> None:
    for _ in range(2):
        near = _near(tmp_path)
        with near, socket.create_connection(("127.0.0.1", port)) as far:
            near.sendall(b"question")
            assert far.recv(100) == b"question"
            far.sendall(b"answer")
            assert near.recv(100) == b"answer"
            far.shutdown(socket.SHUT_WR)
            assert near.recv(100) == b""
