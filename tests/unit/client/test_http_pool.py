"""HTTP/1.1 on kept connections, against servers that send given bytes."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from dray.client import http_pool
from dray.client.http_pool import (
    ChunkDecoder,
    ConnectionPool,
    HttpError,
    HttpResponse,
    ServerAddress,
)

SECONDS = 30.0
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Script:
    """A server: each connection answers its requests with the next texts, then it is closed."""

    def __init__(self, *connections: Sequence[bytes]) -> None:
        self._connections = list(connections)
        self.opened = 0
        self.received: list[bytes] = []
        self.hold = asyncio.Event()
        self.hold.set()
        self.waiting = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        responses = self._connections[min(self.opened, len(self._connections)) - 1]
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            for response in responses:
                self.received.append(await _request(reader))
                self.waiting.set()
                await self.hold.wait()
                writer.write(response)
        writer.close()


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    _, _, length = head.lower().partition(b"content-length:")
    body = await reader.readexactly(int(length.split(b"\r\n")[0])) if length else b""
    return head + body


@contextlib.asynccontextmanager
async def pool_of(script: Script, **options: float) -> AsyncIterator[ConnectionPool]:
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    pool = ConnectionPool(ServerAddress(f"http://{host}:{port}"), **options)  # type: ignore[arg-type]
    try:
        yield pool
    finally:
        await pool.close()
        server.close()


def run(body: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(body(), SECONDS))


async def get(pool: ConnectionPool, path: str = "/") -> bytes:
    return await (await pool.request("GET", path)).read()


def _response(head: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    "response",
    [
        _response(b"Content-Length: 5", b"hello"),
        _response(
            b"Transfer-Encoding: chunked", b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nTrailer: x\r\n\r\n"
        ),
        _response(b"Connection: close", b"hello"),
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\n" + _response(b"Content-Length: 5", b"hello"),
        _response(
            b"Content-Encoding: gzip\r\nContent-Length: %d" % len(gzip.compress(b"hello", mtime=0)),
            gzip.compress(b"hello", mtime=0),
        ),
    ],
)
def test_a_body_is_read_however_its_end_is_marked(response: bytes) -> None:
    async def body() -> None:
        async with pool_of(Script([response])) as pool:
            assert await get(pool) == b"hello"

    run(body)


def test_a_response_without_content_has_no_body() -> None:
    async def body() -> None:
        async with pool_of(Script([b"HTTP/1.1 204 No Content\r\n\r\n", OK])) as pool:
            assert await get(pool) == b""
            assert await get(pool) == b"ok"

    run(body)


def test_chunks_may_arrive_in_pieces_of_any_size() -> None:
    whole = b"b\r\nhello world\r\n1\r\n!\r\n0\r\n\r\n"
    for size in range(1, len(whole) + 1):
        decoder = ChunkDecoder()
        pieces = [whole[start : start + size] for start in range(0, len(whole), size)]
        assert b"".join(map(decoder.feed, pieces)) == b"hello world!"
        assert decoder.is_complete


@pytest.mark.parametrize("wrong", [b"-1\r\n", b"0_1\r\nx", b"\r\n", b"2\r\nabc\r\n", b"0\r\n\r\nx"])
def test_malformed_chunks_are_an_error(wrong: bytes) -> None:
    with pytest.raises(ValueError, match="chunk"):
        ChunkDecoder().feed(wrong)


@pytest.mark.parametrize(
    "response",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        _response(b"Content-Length: 5", b"hel"),
        _response(b"Content-Length: five", b"hello"),
        _response(b"Transfer-Encoding: chunked", b"5\r\nhel"),
        _response(b"Content-Encoding: gzip\r\nContent-Length: 5", b"hello"),
        b"",
    ],
)
def test_a_response_that_cannot_be_read_is_an_error(response: bytes) -> None:
    async def body() -> None:
        async with pool_of(Script([response])) as pool:
            with pytest.raises(HttpError):
                await get(pool)

    run(body)


def test_requests_share_one_connection() -> None:
    async def body() -> None:
        script = Script([OK] * 5)
        async with pool_of(script, patience=SECONDS) as pool:
            for _ in range(2):
                assert await get(pool) == b"ok"
            await asyncio.gather(*(get(pool) for _ in range(3)))
        assert script.opened == 1

    run(body)


def test_without_patience_requests_run_side_by_side_up_to_the_limit() -> None:
    async def body() -> None:
        script = Script([OK] * 5)
        script.hold.clear()
        async with pool_of(script, limit=2) as pool:
            requests = [asyncio.ensure_future(get(pool)) for _ in range(5)]
            await script.waiting.wait()
            script.hold.set()
            assert await asyncio.gather(*requests) == [b"ok"] * 5
        assert script.opened == 2

    run(body)


def test_a_second_connection_is_opened_when_the_first_stays_busy() -> None:
    async def body() -> None:
        script = Script([_response(b"Transfer-Encoding: chunked", b"1\r\na\r\n"), b""], [OK])
        async with pool_of(script, patience=0.01) as pool:
            watch = await pool.request("GET", "/watch")
            assert await get(pool) == b"ok"
            await watch.chunks().aclose()
        assert script.opened == 2

    run(body)


def test_a_kept_connection_that_the_server_closes_is_replaced() -> None:
    async def body() -> None:
        script = Script([OK, b""], [OK])
        async with pool_of(script) as pool:
            await get(pool)
            # The first connection takes the request, and closes without a response.
            assert await get(pool) == b"ok"
        assert script.opened == 2

    run(body)


def test_a_write_that_may_have_been_done_is_not_repeated() -> None:
    async def body() -> None:
        script = Script([OK, b""], [OK])
        async with pool_of(script) as pool:
            await get(pool)
            with pytest.raises(HttpError, match="closed the connection"):
                await pool.request("POST", "/", body=b"{}")
        assert script.opened == 1

    run(body)


def test_a_cancelled_request_leaves_no_connection_in_use() -> None:
    async def body() -> None:
        script = Script([OK], [OK])
        script.hold.clear()
        async with pool_of(script, limit=1) as pool:
            request = asyncio.ensure_future(get(pool))
            await script.waiting.wait()
            request.cancel()
            with pytest.raises(asyncio.CancelledError):
                await request
            script.hold.set()
            assert await get(pool) == b"ok"
        assert script.opened == 2

    run(body)


def test_a_stream_that_is_left_early_closes_its_connection() -> None:
    async def read_one(response: HttpResponse) -> bytes:
        async with contextlib.aclosing(response.chunks()) as chunks:
            return await anext(chunks)

    async def body() -> None:
        endless = _response(b"Transfer-Encoding: chunked", b"1\r\na\r\n")
        script = Script([endless, b""], [OK])
        async with pool_of(script, limit=1) as pool:
            assert await read_one(await pool.request("GET", "/watch")) == b"a"
            assert await get(pool) == b"ok"

    run(body)


def test_paths_queries_and_bodies_are_encoded() -> None:
    async def body() -> None:
        script = Script([OK, OK])
        async with pool_of(script) as pool:
            await (await pool.request("GET", "/a b/%2F", (("l", "a in (b,c)"), ("l", "d")))).read()
            headers = {"Content-Type": "application/json"}
            await (await pool.request("POST", "/", (), headers, b"{}")).read()
        first, second = script.received
        assert first.startswith(
            b"GET /a%20b/%2F?l=a+in+%28b%2Cc%29&l=d HTTP/1.1\r\nHost: 127.0.0.1:"
        )
        assert b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}" in second

    run(body)


def test_a_line_break_in_a_header_is_refused() -> None:
    async def body() -> None:
        async with pool_of(Script([OK])) as pool:
            with pytest.raises(HttpError, match="line break"):
                await pool.request("GET", "/", headers={"Authorization": "Bearer a\r\nX: y"})

    run(body)


def test_a_server_that_does_not_listen_is_an_error_with_its_cause() -> None:
    async def body() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        with pytest.raises(HttpError, match="Connection refused"):
            await ConnectionPool(ServerAddress(f"http://127.0.0.1:{port}")).request("GET", "/")

    run(body)


class LostConnection:
    """A connection that ended with an error; asyncio fails at aborting one with TLS."""

    def close(self) -> None:
        pass

    async def wait_closed(self) -> None:
        raise ConnectionResetError

    @property
    def transport(self) -> asyncio.WriteTransport:
        raise AttributeError


def test_a_connection_that_is_lost_is_closed_already() -> None:
    asyncio.run(http_pool.close_writer(cast("asyncio.StreamWriter", LostConnection())))


def test_connections_whose_other_end_is_gone_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch on a network that has gone says nothing: the kernel has to find out."""
    open_connection, opened = asyncio.open_connection, list[Any]()

    async def recorded(*args: Any, **options: Any) -> Any:
        reader, writer = await open_connection(*args, **options)
        opened.append(writer.get_extra_info("socket"))
        return reader, writer

    monkeypatch.setattr(asyncio, "open_connection", recorded)

    async def story() -> None:
        async with pool_of(Script([OK])) as pool:
            response = await pool.request("GET", "/")
            found = opened.pop()
            assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            for name, value in http_pool.KEEPALIVE.items():
                option = getattr(socket, name, None)
                assert option is None or found.getsockopt(socket.IPPROTO_TCP, option) == value
            await response.read()

    run(story)
