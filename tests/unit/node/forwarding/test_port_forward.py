"""Connections of a client to the ports of a pod, in SPDY."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from dray.client import spdy
from dray.node.forwarding import port_forward
from tests import waiting
from tests.unit.node.forwarding import client
from tests.unit.node.forwarding.client import SpdyClient

MEGABYTE = 2**20


class Pipe:
    """The server's end of a conversation."""

    def __init__(self) -> None:
        self.away: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.back: asyncio.Queue[bytes] = asyncio.Queue()

    async def receive(self) -> bytes | None:
        return await self.away.get()

    async def send(self, message: bytes) -> None:
        await self.back.put(message)


@contextlib.asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """A program of the pod that sends back in capitals what it gets, up to the end."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def forwarding(test: Callable[[SpdyClient, Pipe], Awaitable[None]]) -> None:
    async def run() -> None:
        pipe = Pipe()
        serving = asyncio.create_task(port_forward.serve(pipe, client.connect, "web"))
        spoken = SpdyClient(pipe.away.put, pipe.back.get)
        async with asyncio.timeout(30):
            await test(spoken, pipe)
            await pipe.away.put(None)
            await serving
            await waiting.until(lambda: len(asyncio.all_tasks()) == 1, "the end of all work")

    asyncio.run(run())


def test_bytes_go_both_ways_on_several_connections_at_once() -> None:
    async def test(spoken: SpdyClient, _pipe: Pipe) -> None:
        async with echo() as port:
            for number in (1, 5):
                await spoken.open(f"request-{number}", port, number)
            content = b"abcdefgh" * (MEGABYTE // 8)
            for part in (content[: MEGABYTE // 2], content[MEGABYTE // 2 :]):
                for number in (3, 7):
                    await spoken.send(client.data(number, part))
            for number in (3, 7):
                await spoken.send(client.data(number, b"", is_last=True))
            await spoken.read_until(lambda: spoken.ended >= {1, 3, 5, 7})
            assert spoken.replied == [1, 3, 5, 7]
            assert spoken.received[3] == spoken.received[7] == content.upper()
            assert spoken.received[1] == spoken.received[5] == b""

    forwarding(test)


def test_frames_may_come_in_any_pieces() -> None:
    async def test(spoken: SpdyClient, _pipe: Pipe) -> None:
        async with echo() as port:
            headers = {"port": str(port), "requestid": "0"}
            sent = spoken.opening(1, streamtype="error", **headers)
            sent += spoken.opening(3, streamtype="data", **headers)
            sent += client.data(3, b"hello", is_last=True)
            for byte in sent:
                await spoken.send(bytes((byte,)))
            await spoken.read_until(lambda: 3 in spoken.ended)
            assert spoken.received[3] == b"HELLO"

    forwarding(test)


def test_a_port_where_nobody_listens_is_an_error_of_its_connection_alone() -> None:
    async def test(spoken: SpdyClient, _pipe: Pipe) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            free = taken.getsockname()[1]
        await spoken.open("a", free, 1)
        await spoken.read_until(lambda: spoken.ended >= {1, 3})
        assert f"error forwarding port {free} to pod web".encode() in spoken.received[1]
        async with echo() as port:
            await spoken.open("b", port, 5)
            await spoken.send(client.data(7, b"x", is_last=True))
            await spoken.read_until(lambda: 7 in spoken.ended)
            assert spoken.received[7] == b"X"

    forwarding(test)


def test_an_older_client_pairs_streams_by_their_numbers() -> None:
    async def test(spoken: SpdyClient, _pipe: Pipe) -> None:
        async with echo() as port:
            await spoken.send(spoken.opening(1, streamtype="error", port=str(port)))
            await spoken.send(spoken.opening(3, streamtype="data", port=str(port)))
            await spoken.send(client.data(3, b"x", is_last=True))
            await spoken.read_until(lambda: 3 in spoken.ended)
            assert spoken.received[3] == b"X"

    forwarding(test)


def test_a_ping_of_the_client_is_answered_and_a_connection_ends_with_its_client() -> None:
    async def test(spoken: SpdyClient, _pipe: Pipe) -> None:
        async with echo() as port:
            await spoken.open("a", port, 1)
            await spoken.send(client.control(client.PING, struct.pack(">I", 1)))
            await spoken.read_until(lambda: bool(spoken.pings))
            assert spoken.pings == [struct.pack(">I", 1)]

    forwarding(test)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"streamtype": "data", "port": "0"}, id="port 0"),
        pytest.param({"streamtype": "data", "port": "65536"}, id="port too large"),
        pytest.param({"streamtype": "data", "port": "-1"}, id="negative port"),
        pytest.param({"streamtype": "stdin", "port": "80"}, id="another type"),
    ],
)
def test_a_stream_that_means_nothing_is_refused(headers: dict[str, str]) -> None:
    async def test(spoken: SpdyClient, _pipe: Pipe) -> None:
        await spoken.send(spoken.opening(1, **headers))
        await spoken.read_until(lambda: spoken.reset == [1])

    forwarding(test)


def test_streams_that_are_taken_back_are_not_remembered_without_end() -> None:
    async def test(spoken: SpdyClient, _pipe: Pipe) -> None:
        for index in range(2 * port_forward.MAX_CONNECTIONS):
            number = 2 * index + 1
            headers = {"streamtype": "error", "port": "80", "requestid": str(index)}
            await spoken.send(spoken.opening(number, **headers))
            await spoken.send(client.control(client.RST_STREAM, struct.pack(">II", number, 5)))
        await spoken.read_until(lambda: len(spoken.reset) == port_forward.MAX_CONNECTIONS)

    forwarding(test)


def _bomb() -> bytes:
    packed = zlib.compressobj(zdict=spdy.DICTIONARY)
    text = packed.compress(bytes(64 * MEGABYTE)) + packed.flush(zlib.Z_SYNC_FLUSH)
    return client.control(client.SYN_STREAM, struct.pack(">IIH", 1, 0, 0) + text[:60000])


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n" * 1000, id="http"),
        pytest.param(client.control(client.PING, b"1234", version=2), id="version"),
        pytest.param(client.control(client.SYN_STREAM, b""), id="no number"),
        pytest.param(client.control(client.SYN_STREAM, bytes(10)), id="no headers"),
        pytest.param(client.control(client.SYN_STREAM, bytes(70000)), id="too long"),
        pytest.param(_bomb(), id="headers that grow"),
        pytest.param(client.data(9, bytes(100)), id="data of no stream"),
    ],
)
def test_what_is_no_spdy_ends_or_is_dropped(sent: bytes) -> None:
    async def test(spoken: SpdyClient, _pipe: Pipe) -> None:
        await spoken.send(sent)

    forwarding(test)
