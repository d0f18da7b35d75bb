"""The drivers that a node agent finds in its registry."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import grpc.aio
import pytest

from dray.node.devices import drivers
from dray.node.devices.drivers import DriverConnection, Drivers
from dray.protocol import services
from tests import waiting


def test_a_socket_that_got_the_inode_of_its_predecessor_is_registered_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    introduced = [0]

    async def introduce(_caller: object) -> DriverConnection:
        introduced[0] += 1
        return DriverConnection("gpu.example.com", str(tmp_path / "dra.sock"), services.DRA_V1)

    async def until(number: int) -> None:
        await waiting.until(lambda: introduced[0] >= number, f"introduction {number}")

    async def work() -> None:
        task = asyncio.create_task(Drivers(tmp_path).run())
        await until(1)
        os.utime(path, ns=(1, 1))
        await until(2)
        task.cancel()
        await asyncio.wait({task})

    monkeypatch.setattr(drivers, "_introduce", introduce)
    path = tmp_path / "gpu-reg.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        asyncio.run(work())


def test_a_driver_that_ended_and_left_its_sockets_is_not_usable_until_it_serves_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = tmp_path / "dra.sock"

    async def introduce(_caller: object) -> DriverConnection:
        return DriverConnection("gpu.example.com", str(endpoint), services.DRA_V1)

    async def serve() -> grpc.aio.Server:
        server = grpc.aio.server()
        server.add_insecure_port(services.address(endpoint))
        await server.start()
        return server

    async def work() -> None:
        found = Drivers(tmp_path / "registry")
        task = asyncio.create_task(found.run())
        await waiting.until(lambda: found.names == ["gpu.example.com"], "registration")
        assert found.usable_names == set()
        server = await serve()
        await waiting.until(lambda: bool(found.usable_names), "connection")
        await server.stop(None)
        await waiting.until(lambda: not found.usable_names, "loss of the connection")
        assert found.names == ["gpu.example.com"]
        server = await serve()
        await waiting.until(lambda: found.usable_names == {"gpu.example.com"}, "new connection")
        task.cancel()
        await asyncio.wait({task})
        await server.stop(None)

    monkeypatch.setattr(drivers, "_introduce", introduce)
    (tmp_path / "registry").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "registry" / "gpu-reg.sock"))
        asyncio.run(work())
