"""HTTP/1.1 requests on kept connections.

Commands and components send their requests with it: importing a larger client takes longer than
most commands do.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import socket
import ssl
import zlib
from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

CONNECT_SECONDS = 30.0
BUFFER_BYTES = 2**20
ABORT_SECONDS = 1.0
KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""After how long a silent connection is probed, how often, and how many probes may be lost: a watch
whose server or network is gone would wait for ever."""
REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
"""Methods that may be sent again if a kept connection turns out to be closed: RFC 9110, 9.2.2."""
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_WITHOUT_RESPONSE_BODY = frozenset({204, 304})
_IN_PATHS = "/%:@!$&'()*+,;=~"
_LINE_BYTES = 2**16
_GZIP = 16 + zlib.MAX_WBITS

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Query = tuple[tuple[str, str], ...]


class HttpError(Exception):
    """A server cannot be reached, or its response cannot be read."""


class _NoResponse(HttpError):
    """The connection ended before the first byte of a response."""


class ServerAddress(NamedTuple):
    """The address of a server. `tls` is None for http; `server_name` is "" for the host."""

    url: str
    tls: ssl.SSLContext | None = None
    server_name: str = ""


class ConnectionPool:
    """Connections to one server.

    While one is busy, another one is opened after `patience` seconds, so that short requests
    share a connection and long ones overlap.
    """

    def __init__(self, address: ServerAddress, *, limit: int = 64, patience: float = 0.0) -> None:
        self._address = address
        self._limit = limit
        self._patience = patience
        self._open = 0
        self._all: set[_Connection] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._idle: list[_Connection] = []
        self._waiting: collections.deque[asyncio.Future[None]] = collections.deque()

    async def request(
        self,
        method: str,
        path: str,
        query: Query = (),
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> HttpResponse:
        """Send a request, and return its response before the body. Raises HttpError."""
        message = _message(self._address.url, method, path, query, headers or {}, body)
        while True:
            connection = await self._acquire()
            is_kept, connection.is_kept = connection.is_kept, True
            try:
                return await connection.exchange(message)
            except _NoResponse:
                # The server may close a kept connection while a request is on its way.
                if not is_kept or method not in REPEATABLE:
                    raise

    async def close(self) -> None:
        """Close every connection. Ends when all are closed: uvloop logs an error for others."""
        for connection in tuple(self._all):
            connection.close()
        if self._closing:
            await asyncio.wait(self._closing)

    async def _acquire(self) -> _Connection:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience
        while True:
            while self._idle:
                connection = self._idle.pop()
                if connection.is_usable:
                    return connection
                connection.close()
            left = deadline - loop.time()
            if self._open == 0 or (self._open < self._limit and left <= 0):
                return await self._connect()
            await self._change(left if self._open < self._limit else None)

    async def _change(self, seconds: float | None) -> None:
        """Wait until a connection is given back or closed, or until the time is over."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await asyncio.wait([waiter], timeout=seconds)
        except asyncio.CancelledError:
            if waiter.done():
                self._wake()
            raise
        finally:
            with contextlib.suppress(ValueError):
                self._waiting.remove(waiter)

    def _wake(self) -> None:
        if self._waiting:
            self._waiting.popleft().set_result(None)

    async def _connect(self) -> _Connection:
        self._open += 1
        opening = asyncio.ensure_future(_streams(self._address))
        try:
            # Not cancelled: uvloop logs an error for a TLS handshake that is.
            connection = _Connection(self, *await asyncio.shield(opening))
        except BaseException:
            self._open -= 1
            self._wake()
            self._finish(_abandoned(opening))
            raise
        self._all.add(connection)
        return connection

    def give_back(self, connection: _Connection) -> None:
        self._idle.append(connection)
        self._wake()

    def forget(self, connection: _Connection) -> None:
        if connection in self._all:
            self._all.remove(connection)
            self._open -= 1
            self._wake()
            self._finish(connection.closed())

    def _finish(self, closing: Coroutine[Any, Any, None]) -> None:
        ending = asyncio.ensure_future(closing)
        self._closing.add(ending)
        ending.add_done_callback(self._closing.discard)


async def _abandoned(opening: asyncio.Future[Streams]) -> None:
    """Close a connection that nobody waits for any more."""
    with contextlib.suppress(HttpError):
        await close_writer((await opening)[1])


async def close_writer(writer: asyncio.StreamWriter) -> None:
    """Close a connection; a server may never answer the end of TLS."""
    writer.close()
    limit = asyncio.timeout(ABORT_SECONDS)
    with contextlib.suppress(OSError):
        async with limit:
            await writer.wait_closed()
    if limit.expired():
        # Not after another error: asyncio has taken the transport of a lost connection apart.
        writer.transport.abort()


async def _streams(address: ServerAddress) -> Streams:
    parts = urlsplit(address.url)
    host = parts.hostname or ""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(
                host,
                parts.port or (443 if address.tls else 80),
                limit=BUFFER_BYTES,
                ssl=address.tls,
                server_hostname=(address.server_name or host) if address.tls else None,
            )
    except TimeoutError as error:
        raise HttpError(f"no connection within {CONNECT_SECONDS:.0f} s") from error
    except OSError as error:
        raise HttpError(_reason(error)) from error
    _keep_alive(writer.get_extra_info("socket"))
    return reader, writer


def _keep_alive(connection: socket.socket) -> None:
    """Let the kernel end a connection whose other end is gone."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE.items():
            # macOS does not have all of them.
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) or error.errno is None or error.errno < 0:
        return error.strerror or str(error)
    # asyncio's own text would be "Connect call failed", without the cause.
    return os.strerror(error.errno)


def _message(
    url: str, method: str, path: str, query: Query, headers: Mapping[str, str], body: bytes
) -> bytes:
    parts = urlsplit(url)
    target = parts.path.rstrip("/") + quote(path, safe=_IN_PATHS)
    if query:
        target += f"?{urlencode(query)}"
    lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc.rpartition('@')[2]}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body or method in _WITH_BODY:
        lines.append(f"Content-Length: {len(body)}")
    if any("\r" in line or "\n" in line for line in lines):
        raise HttpError("a header has a line break")
    try:
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body
    except UnicodeEncodeError as error:
        raise HttpError("a header has a character that HTTP does not allow") from error


class _Connection:
    """A connection, which carries one request at a time."""

    def __init__(
        self, pool: ConnectionPool, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._pool = pool
        self._writer = writer
        self.reader = reader
        self.is_kept = False
        """Whether it has carried a request before."""

    @property
    def is_usable(self) -> bool:
        return not (self.reader.at_eof() or self._writer.transport.is_closing())

    async def exchange(self, message: bytes) -> HttpResponse:
        with self.closed_on_errors():
            self._writer.write(message)
            status = 100
            while 100 <= status < 200:
                try:
                    head = await self.reader.readuntil(b"\r\n\r\n")
                except asyncio.IncompleteReadError as error:
                    if error.partial:
                        raise
                    raise _NoResponse("the server closed the connection") from error
                except ConnectionError as error:
                    raise _NoResponse(_reason(error)) from error
                status, headers, is_last = _parsed(head)
        return HttpResponse(self, status, headers, is_last)

    @contextlib.contextmanager
    def closed_on_errors(self) -> Iterator[None]:
        """Close the connection on any error, and raise those of the network as HttpError."""
        try:
            yield
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            self.close()
            raise HttpError(
                "the response ended too early or has a head that is too long"
            ) from error
        except (OSError, ValueError, zlib.error) as error:
            self.close()
            reason = _reason(error) if isinstance(error, OSError) else str(error)
            raise HttpError(reason) from error
        except BaseException:
            self.close()
            raise

    def release(self) -> None:
        self._pool.give_back(self)

    def close(self) -> None:
        self._writer.close()
        self._pool.forget(self)

    async def closed(self) -> None:
        await close_writer(self._writer)


def _parsed(head: bytes) -> tuple[int, list[tuple[str, str]], bool]:
    """Return the status, the headers, and whether the connection ends with the response."""
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
        raise ValueError(f"the server does not speak HTTP/1.1: {first[:80]!r}")
    fields = (line.partition(":") for line in lines)
    headers = [(name.strip().lower(), value.strip()) for name, _, value in fields]
    connection = next((value for name, value in headers if name == "connection"), "").lower()
    keeps = "close" not in connection and (version != "HTTP/1.0" or "keep-alive" in connection)
    return int(rest[:3]), headers, not keeps


class HttpResponse:
    """A response whose body is still to be read, all of it or chunk by chunk."""

    def __init__(
        self, connection: _Connection, status: int, headers: list[tuple[str, str]], is_last: bool
    ) -> None:
        self._connection = connection
        self._is_last = is_last
        self.status = status
        self.headers = dict(headers)
        """By name in lower case; of several with one name, the last."""
        self.warnings = [value for name, value in headers if name == "warning"]

    async def read(self) -> bytes:
        """Return the whole body. Raises HttpError."""
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives. Raises HttpError.

        If the caller ends the iteration early, the connection is closed.
        """
        is_packed = self.headers.get("content-encoding", "").lower() in ("gzip", "x-gzip")
        unpacker = zlib.decompressobj(_GZIP) if is_packed else None
        with self._connection.closed_on_errors():
            async with contextlib.aclosing(self._raw_chunks()) as chunks:
                async for chunk in chunks:
                    yield unpacker.decompress(chunk) if unpacker else chunk
        if self._is_last:
            self._connection.close()
        else:
            self._connection.release()

    async def _raw_chunks(self) -> AsyncGenerator[bytes, None]:
        reader = self._connection.reader
        length = self.headers.get("content-length")
        if self.status in _WITHOUT_RESPONSE_BODY:
            return
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            decoder = ChunkDecoder()
            while not decoder.is_complete:
                data = await reader.read(BUFFER_BYTES)
                if not data:
                    raise asyncio.IncompleteReadError(b"", None)
                if payload := decoder.feed(data):
                    yield payload
        elif length is not None:
            yield await reader.readexactly(int(length))
        else:
            self._is_last = True
            while data := await reader.read(BUFFER_BYTES):
                yield data


class ChunkDecoder:
    """Decodes the chunked transfer coding from pieces of any size: RFC 9112, section 7.1."""

    def __init__(self) -> None:
        self._rest = b""
        """The beginning of a line whose end has not arrived."""
        self._left = 0
        """Bytes of the current chunk that have not arrived."""
        self._is_after_chunk = False
        self._is_in_trailer = False
        self.is_complete = False

    def feed(self, data: bytes) -> bytes:
        """Return the content in what has arrived. Raises ValueError if it is malformed."""
        data, payload, position = self._rest + data, [], 0
        while not self.is_complete:
            if self._left:
                part = data[position : position + self._left]
                if not part:
                    break
                payload.append(part)
                position += len(part)
                self._left -= len(part)
                continue
            end = data.find(b"\r\n", position)
            if end < 0:
                break
            self._line(data[position:end])
            position = end + 2
        self._rest = data[position:]
        if len(self._rest) > (0 if self.is_complete else _LINE_BYTES):
            raise ValueError("the chunks of the response are malformed")
        return b"".join(payload)

    def _line(self, line: bytes) -> None:
        if self._is_after_chunk:
            self._is_after_chunk = False
            if line:
                raise ValueError("a chunk of the response is longer than its size")
        elif self._is_in_trailer:
            self.is_complete = not line
        else:
            size = line.partition(b";")[0].strip()
            if not size.isalnum():  # int() would also accept signs and underscores.
                raise ValueError(f"a chunk of the response has no size: {line[:80]!r}")
            self._left = int(size, 16)
            self._is_after_chunk = bool(self._left)
            self._is_in_trailer = not self._left
