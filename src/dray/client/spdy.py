"""SPDY/3.1 as Kubernetes uses it: streams with headers, which clients open on one connection.

There is no flow control, as in Kubernetes: what one stream does not take holds up the others of its
connection.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final

from dray.api.http_messages import MessageSocket

MAX_CONTROL_BYTES: Final = 2**16
MAX_STREAMS: Final = 256
CHUNK_BYTES: Final = 2**15
_WAITING_CHUNKS: Final = 8
_VERSION: Final = 3
_FIN: Final = 1
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GO_AWAY = 1, 2, 3, 6, 7
_REFUSED_STREAM: Final = 3
_LAST_ID: Final = 2**31 - 1

# What both sides compress headers against: names with their lengths, then frequent values.
_NAMES: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language "
    "accept-ranges age allow authorization cache-control connection content-base content-encoding "
    "content-language content-length content-location content-md5 content-range content-type date "
    "etag expect expires from host if-match if-modified-since if-none-match if-range "
    "if-unmodified-since last-modified location max-forwards pragma proxy-authenticate "
    "proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url "
    "public set-cookie keep-alive origin"
)
_VALUES: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, "
    "Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,"
    "sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _field(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


DICTIONARY: Final = (
    b"".join(_field(name.replace("_", " ").encode()) for name in _NAMES.split()) + _VALUES.encode()
)


class ProtocolError(Exception):
    """The other side sent what is no SPDY/3.1, or too much of it."""


class SpdyStream:
    """One stream that a client opened."""

    def __init__(self, connection: SpdyConnection, number: int, headers: Mapping[str, str]) -> None:
        self.number, self.headers = number, headers
        self._connection = connection
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue(_WAITING_CHUNKS)
        self._is_closed = False
        self._is_dropped = False

    async def receive(self) -> bytes:
        """Return the next bytes of the other side; none after the last."""
        return await self._chunks.get()

    async def send(self, data: bytes) -> None:
        for start in range(0, len(data), CHUNK_BYTES):
            await self._connection.send_data(self.number, data[start : start + CHUNK_BYTES])

    async def close(self) -> None:
        """Send the end, once."""
        if not self._is_closed:
            self._is_closed = True
            await self._connection.send_data(self.number, b"", is_last=True)

    async def put(self, chunk: bytes) -> None:
        if not self._is_dropped:
            await self._chunks.put(chunk)

    def drop(self) -> None:
        """Take nothing any more: nobody receives, and the connection must not wait for that."""
        self._is_dropped = True
        while not self._chunks.empty():
            self._chunks.get_nowait()


class SpdyConnection:
    """Reads frames from a socket until the end.

    The server's side calls `opened` with every new stream; the client's side has no `opened`.
    """

    def __init__(
        self,
        socket: MessageSocket,
        opened: Callable[[SpdyStream], Awaitable[None]] | None = None,
    ) -> None:
        self._socket, self._opened = socket, opened
        self._buffer = b""
        self._has_left = False
        self._streams: dict[int, SpdyStream] = {}
        self._last = 0
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    async def run(self) -> None:
        """Read until the other side has left. Raises ProtocolError."""
        while head := await self._read(8):
            word, rest = struct.unpack(">II", head)
            flags, length = rest >> 24, rest & 0xFFFFFF
            if not word >> 31:
                await self._data(word, flags, length)
            elif (word >> 16) & 0x7FFF != _VERSION:
                raise ProtocolError("only SPDY/3.1 is spoken here")
            elif length > MAX_CONTROL_BYTES:
                raise ProtocolError(f"a control frame of {length} bytes is too long")
            elif not await self._control(word & 0xFFFF, flags, await self._read(length)):
                return

    async def open(self, **headers: str) -> SpdyStream:
        """Open a stream to the server, which may refuse it: then it ends at once."""
        self._last += 1 if not self._last else 2
        stream = SpdyStream(self, self._last, headers)
        self._streams[stream.number] = stream
        parts = [struct.pack(">I", len(headers))]
        parts += [_field(part.encode()) for pair in headers.items() for part in pair]
        text = self._deflate.compress(b"".join(parts)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        await self._send_control(_SYN_STREAM, struct.pack(">IIH", stream.number, 0, 0) + text)
        return stream

    def forget(self, *streams: SpdyStream) -> None:
        """Drop streams that are over, and what the other side still sends to them."""
        for stream in streams:
            self._streams.pop(stream.number, None)
            stream.drop()

    async def refuse(self, stream: SpdyStream) -> None:
        """Tell the client that a stream will not be served."""
        self.forget(stream)
        await self._send_control(_RST_STREAM, struct.pack(">II", stream.number, _REFUSED_STREAM))

    async def send_data(self, number: int, data: bytes, *, is_last: bool = False) -> None:
        flags = _FIN if is_last else 0
        await self._socket.send(struct.pack(">II", number, flags << 24 | len(data)) + data)

    async def _data(self, number: int, flags: int, length: int) -> None:
        stream = self._streams.get(number)
        while length:
            chunk = await self._read_some(length)
            if not chunk:
                return
            length -= len(chunk)
            if stream is not None:
                await stream.put(chunk)
        if flags & _FIN and stream is not None:
            await stream.put(b"")

    async def _control(self, type_: int, flags: int, body: bytes) -> bool:
        """Handle a control frame; whether the connection goes on."""
        is_server = self._opened is not None
        if type_ == _SYN_STREAM:
            await self._open_by_client(flags, body)
        elif type_ == _PING and len(body) == 4 and body[3] & 1 == is_server:
            await self._send_control(_PING, body)
        elif type_ == _RST_STREAM and len(body) == 8:
            stream = self._streams.pop(struct.unpack(">I", body[:4])[0], None)
            if stream is not None:
                await stream.put(b"")
        return type_ != _GO_AWAY

    async def _open_by_client(self, flags: int, body: bytes) -> None:
        if self._opened is None:
            raise ProtocolError("a server opens no streams")
        if len(body) < 10:
            raise ProtocolError("a stream without a number")
        number = struct.unpack(">I", body[:4])[0] & _LAST_ID
        # Also of a stream that is refused: all headers are one compressed text.
        headers = dict(self._headers(body[10:]))
        stream = SpdyStream(self, number, headers)
        if number <= self._last or not number & 1:
            raise ProtocolError(f"{number} cannot be the number of a new stream")
        self._last = number
        if len(self._streams) >= MAX_STREAMS:
            return await self.refuse(stream)
        self._streams[number] = stream
        if flags & _FIN:
            await stream.put(b"")
        nothing = self._deflate.compress(struct.pack(">I", 0))
        nothing += self._deflate.flush(zlib.Z_SYNC_FLUSH)
        await self._send_control(_SYN_REPLY, struct.pack(">I", number) + nothing)
        await self._opened(stream)
        return None

    def _headers(self, compressed: bytes) -> Iterator[tuple[str, str]]:
        try:
            text = self._inflate.decompress(compressed, MAX_CONTROL_BYTES)
            if self._inflate.unconsumed_tail:
                raise ProtocolError("the headers of a stream are too long")
            (count,) = struct.unpack_from(">I", text)
            at = 4
            for _ in range(count):
                parts = []
                for _ in range(2):
                    (length,) = struct.unpack_from(">I", text, at)
                    parts.append(text[at + 4 : at + 4 + length].decode())
                    at += 4 + length
                yield parts[0], parts[1]
        except (zlib.error, struct.error, UnicodeDecodeError) as error:
            raise ProtocolError(f"the headers of a stream cannot be read: {error}") from error

    async def _send_control(self, type_: int, body: bytes) -> None:
        head = struct.pack(">HHI", 0x8000 | _VERSION, type_, len(body))
        await self._socket.send(head + body)

    async def _read(self, length: int) -> bytes:
        """Return the next `length` bytes; none where the client has left."""
        parts = []
        while length:
            part = await self._read_some(length)
            if not part:
                return b""
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    async def _read_some(self, most: int) -> bytes:
        while not self._buffer and not self._has_left:
            message = await self._socket.receive()
            self._has_left = message is None
            self._buffer = message or b""
        found, self._buffer = self._buffer[:most], self._buffer[most:]
        return found
