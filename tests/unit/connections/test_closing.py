"""A server that ends leaves no client waiting, however far its connection has come."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from dray.apiserver.access.certificates import Authority
from dray.connections import listener
from dray.connections.http_protocol import HttpServer
from dray.connections.limits import ConnectionLimits
from dray.connections.listener import ClientConnections

SECONDS = 20.0
FOR_EVER = 3600.0
TURNS = range(8)
"""Turns of the loop between a step of a connection and the end of the server."""


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the contexts of the server and of its clients."""
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority.load_or_create(folder)
    pair = authority.server_pair(["127.0.0.1"])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(_written(folder, pair.certificate + pair.key))
    return server, ssl.create_default_context(cadata=authority.certificate.decode())


def _written(folder: Path, pem: bytes) -> Path:
    (folder / "server.pem").write_bytes(pem)
    return folder / "server.pem"


@contextlib.asynccontextmanager
async def serving(context: ssl.SSLContext) -> AsyncIterator[tuple[int, ClientConnections]]:
    """Serve until the block is left; then a request may take for ever. Yield the port."""
    limits = ConnectionLimits()
    connections = ClientConnections(limits, limits.connections)
    server = HttpServer(_answer, connections, handler_cancellation=True)
    runner = web.ServerRunner(server, shutdown_timeout=FOR_EVER)
    await runner.setup()
    accepting = listener.listening("127.0.0.1", 0, context, server.protocol, connections, limits)
    async with accepting as (_, port):
        yield port, connections
    await runner.cleanup()
    connections.abort_all()


async def _answer(_request: web.BaseRequest) -> web.StreamResponse:
    return web.Response()


async def _until_accepted(connections: ClientConnections, turns: int) -> None:
    while not len(connections):
        await asyncio.sleep(0)
    for _ in range(turns):
        await asyncio.sleep(0)


@pytest.mark.parametrize("turns", TURNS)
def test_a_connection_without_handshake_is_closed(
    tls: tuple[ssl.SSLContext, ssl.SSLContext], turns: int
) -> None:
    async def run() -> bytes:
        with socket.socket() as client:
            async with serving(tls[0]) as (port, connections):
                # The kernel connects it: the loop has not turned before the server accepts.
                client.connect(("127.0.0.1", port))
                client.setblocking(False)
                await _until_accepted(connections, turns)
            with contextlib.suppress(ConnectionResetError):
                return await asyncio.get_running_loop().sock_recv(client, 1)
            return b""

    # A collection would close a socket that was only forgotten.
    gc.disable()
    try:
        assert asyncio.run(asyncio.wait_for(run(), SECONDS)) == b""
    finally:
        gc.enable()


@pytest.mark.parametrize("turns", TURNS)
def test_a_connection_without_request_does_not_hold_up_the_end(
    tls: tuple[ssl.SSLContext, ssl.SSLContext], turns: int
) -> None:
    async def run() -> None:
        async with serving(tls[0]) as (port, connections):
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls[1])
            for _ in range(turns):
                await asyncio.sleep(0)
        writer.close()
        assert len(connections) == 0

    asyncio.run(asyncio.wait_for(run(), SECONDS))
