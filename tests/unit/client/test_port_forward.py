"""The client's side of port-forward, against the agent's."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

from dray.api.http_messages import MessageSocket, Upgrade
from dray.client.port_forward import PodPorts
from dray.node.forwarding import port_forward
from tests.unit.node.forwarding import client as spoken

SECONDS = 30.0
MEGABYTE = 2**20

Served = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _serve(there: MessageSocket) -> None:
    await port_forward.serve(there, spoken.connect, "web")


@contextlib.asynccontextmanager
async def listening(served: Served) -> AsyncIterator[int]:
    server = await asyncio.start_server(served, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@contextlib.asynccontextmanager
async def forwarded(remote: int, failures: list[str]) -> AsyncIterator[int]:
    """Yield a local port that leads to another one through an agent."""
    ports = PodPorts(Upgrade("", _serve))
    running = asyncio.create_task(ports.run())

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        failures.append(await ports.exchange(remote, reader, writer))
        writer.close()

    try:
        async with listening(accept) as port:
            yield port
    finally:
        running.cancel()
        await asyncio.wait({running})


async def _shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write((await reader.read()).upper())
    writer.close()


async def _hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def _asked(port: int, sent: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(ConnectionError):
        writer.write(sent)
        writer.write_eof()
        received = await reader.read()
        writer.close()
        return received
    return b""


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), SECONDS))


def test_bytes_go_both_ways_on_several_connections() -> None:
    async def test() -> None:
        failures: list[str] = []
        async with listening(_shout) as remote, forwarded(remote, failures) as port:
            sent = b"abcdefgh" * (MEGABYTE // 4)
            answers = await asyncio.gather(*(_asked(port, sent) for _ in range(3)))
            assert answers == [sent.upper()] * 3
        assert failures == ["", "", ""]

    run(test)


def test_a_port_where_nobody_listens_is_told() -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            free = taken.getsockname()[1]
        failures: list[str] = []
        async with forwarded(free, failures) as port:
            assert await _asked(port, b"x") == b""
        assert failures[0].startswith(f"error forwarding port {free} to pod web")

    run(test)


def test_a_program_that_hangs_up_does_not_hold_up_other_connections() -> None:
    async def test() -> None:
        failures: list[str] = []
        async with listening(_hang_up) as remote, forwarded(remote, failures) as port:
            for _ in range(3):
                await _asked(port, bytes(8 * MEGABYTE))
        assert len(failures) == 3

    run(test)


def test_a_client_that_hangs_up_does_not_hold_up_other_connections() -> None:
    async def flood(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            for _ in range(64):
                writer.write(bytes(MEGABYTE // 4))
                await writer.drain()
        writer.close()

    async def test() -> None:
        failures: list[str] = []
        async with listening(flood) as remote, forwarded(remote, failures) as port:
            for _ in range(3):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                assert await reader.read(1)
                writer.transport.abort()
            assert len(await _asked(port, b"")) == 16 * MEGABYTE

    run(test)
