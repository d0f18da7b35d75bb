"""Other users of the machine: nothing that they put in the way of dray is used."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
from pathlib import Path

import pytest

from dray.cli.components import foreground
from dray.driverkit import cdi
from dray.driverkit.cdi import CdiError
from dray.node.devices.drivers import Drivers
from tests import waiting

OTHER = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")


@as_root
def test_a_socket_of_another_user_is_no_driver(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "gpu-reg.sock"

    async def run(listening: socket.socket) -> None:
        looking = asyncio.create_task(Drivers(tmp_path).run())
        await waiting.until(lambda: f"belongs to user {OTHER}" in caplog.text, "a warning")
        looking.cancel()
        await asyncio.wait({looking})
        with pytest.raises(BlockingIOError):
            listening.accept()

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        listening.setblocking(False)
        os.chown(path, OTHER, OTHER)
        asyncio.run(run(listening))


@as_root
def test_a_cdi_spec_of_another_user_is_not_read(tmp_path: Path) -> None:
    edits = {"mounts": [{"hostPath": "/", "containerPath": "/host", "options": ["rw"]}]}
    spec = {
        "cdiVersion": "0.6.0",
        "kind": "example.com/gpu",
        "devices": [{"name": "a", "containerEdits": edits}],
    }
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(spec))
    assert cdi.resolve(["example.com/gpu=a"], [tmp_path]).mounts
    os.chown(path, OTHER, OTHER)
    with pytest.raises(CdiError, match=f"belongs to user {OTHER}"):
        cdi.resolve(["example.com/gpu=a"], [tmp_path])


@pytest.mark.parametrize(("umask", "mode"), [(0o000, 0o755), (0o002, 0o755), (0o077, 0o700)])
def test_what_a_component_makes_is_not_for_others_to_write(
    tmp_path: Path, umask: int, mode: int
) -> None:
    async def work() -> None:
        (tmp_path / "a" / "b").mkdir(parents=True)

    before = os.umask(umask)
    try:
        foreground.run(work())
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == mode
