"""Slow clients and many sessions at the HTTPS endpoint of a node agent."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import aiohttp
import pytest

from dray.api import remote_command
from dray.apiserver.access.certificates import Authority
from dray.apiserver.access.renewal import RenewedPair
from dray.client import rest
from dray.client.kubeconfig import ClusterConnection
from dray.connections.limits import ConnectionLimits
from dray.node import endpoint
from dray.node.endpoint import Endpoint, Identity

SECONDS = 60.0
LOG = "/containerLogs/default/pod/main"


class Agent(NamedTuple):
    """An endpoint with one pod, and its authority."""

    port: int
    authority: Authority

    def tls(self, name: str = remote_command.API_SERVER_NAME) -> ssl.SSLContext:
        pair = self.authority.client_pair(name)
        address = f"https://127.0.0.1:{self.port}"
        trusted = ClusterConnection(address, certificate_authority=self.authority.certificate)
        return rest.tls_context(trusted, pair.certificate, pair.key)

    async def open(self, name: str = remote_command.API_SERVER_NAME) -> Any:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls(name))

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[aiohttp.ClientSession]:
        connector = aiohttp.TCPConnector(ssl=self.tls(), limit=0)
        address = f"https://127.0.0.1:{self.port}"
        async with aiohttp.ClientSession(address, connector=connector) as session:
            yield session


def serve(
    directory: Path,
    test: Callable[[Agent], Awaitable[None]],
    limits: ConnectionLimits = endpoint.LIMITS,
    **options: Any,
) -> None:
    log = directory / "log"
    log.write_text("")
    attempt = SimpleNamespace(log=log, exit=lambda: None)
    pod: Any = SimpleNamespace(
        has_container=lambda _name: True, logged=lambda _name, previous: attempt
    )

    async def run() -> None:
        authority = Authority.load_or_create(directory)
        pair = RenewedPair(lambda: authority.server_pair(["127.0.0.1"]))
        identity = Identity(pair, authority.certificate)
        served = Endpoint(lambda _namespace, _pod: pod, identity, limits, **options)
        async with asyncio.timeout(SECONDS), served.listening("127.0.0.1") as port:
            await test(Agent(port, authority))

    asyncio.run(run())


async def closed(reader: asyncio.StreamReader) -> bytes:
    """Read until the endpoint closes the connection."""
    try:
        return await reader.read()
    except (ConnectionError, ssl.SSLError):
        return b""


@pytest.mark.parametrize("sent", [b"", b"GET ", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_a_head_that_does_not_come_is_not_waited_for(tmp_path: Path, sent: bytes) -> None:
    async def dawdle(agent: Agent) -> None:
        reader, writer = await agent.open()
        writer.write(sent)
        assert not await closed(reader)
        writer.transport.abort()

    serve(tmp_path, dawdle, ConnectionLimits(head_seconds=0.3))


def test_who_may_not_ask_does_not_keep_a_connection(tmp_path: Path) -> None:
    async def dawdle(agent: Agent) -> None:
        reader, writer = await agent.open("mallory")
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 403 " in await closed(reader)
        writer.transport.abort()

    serve(tmp_path, dawdle, ConnectionLimits(head_seconds=0.3))


def test_many_connections_keep_no_api_server_out(tmp_path: Path) -> None:
    async def flood(agent: Agent) -> None:
        silent = [await agent.open("mallory") for _ in range(8)]
        async with agent.session() as session, session.get(LOG) as answer:
            assert answer.status == 200
        assert not await closed(silent[0][0])
        for _, writer in silent:
            writer.transport.abort()

    serve(tmp_path, flood, ConnectionLimits(new_connections=4))


def test_too_many_headers_are_refused(tmp_path: Path) -> None:
    async def ask(agent: Agent) -> None:
        headers = {f"x-{number}": "a" for number in range(2 * endpoint.MAX_HEADERS)}
        async with agent.session() as session, session.get(LOG, headers=headers) as answer:
            assert answer.status == 400

    serve(tmp_path, ask)


def test_sessions_are_limited(tmp_path: Path) -> None:
    async def flood(agent: Agent) -> None:
        async with agent.session() as session:
            first = await session.get(f"{LOG}?follow=true")
            refused = await session.get(f"{LOG}?follow=true")
            assert [first.status, refused.status] == [200, 429]
            assert refused.headers["Retry-After"] == "1"
            refused.close()
            first.close()

    serve(tmp_path, flood, max_sessions=1)
