"""A client of port-forward that speaks SPDY over any channel of bytes."""

from __future__ import annotations

import asyncio
import socket
import struct
import zlib
from collections.abc import Awaitable, Callable

from dray.client.spdy import DICTIONARY

SYN_STREAM, SYN_REPLY, RST_STREAM, PING = 1, 2, 3, 6


def control(type_: int, body: bytes, version: int = 3) -> bytes:
    return struct.pack(">HHI", 0x8000 | version, type_, len(body)) + body


def data(number: int, content: bytes, *, is_last: bool = False) -> bytes:
    return struct.pack(">II", number, int(is_last) << 24 | len(content)) + content


async def connect(port: int) -> socket.socket:
    """Connect to a port of this computer in place of a pod."""
    made = socket.socket(socket.AF_INET)
    made.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
    except BaseException:
        made.close()
        raise
    return made


class SpdyClient:
    """Opens streams, and keeps what comes back by their numbers."""

    def __init__(
        self, send: Callable[[bytes], Awaitable[None]], receive: Callable[[], Awaitable[bytes]]
    ) -> None:
        self.send, self._receive = send, receive
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._buffer = b""
        self.received: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.replied: list[int] = []
        self.reset: list[int] = []
        self.pings: list[bytes] = []

    def opening(self, number: int, **headers: str) -> bytes:
        text = struct.pack(">I", len(headers))
        for pair in headers.items():
            for part in pair:
                text += struct.pack(">I", len(part)) + part.encode()
        packed = self._deflate.compress(text) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return control(SYN_STREAM, struct.pack(">IIH", number, 0, 0) + packed)

    async def open(self, request: str, port: int, first: int) -> None:
        """Open the two streams of a connection: `first` is for errors, `first + 2` for data."""
        for number, type_ in ((first, "error"), (first + 2, "data")):
            headers = {"streamtype": type_, "port": str(port), "requestid": request}
            await self.send(self.opening(number, **headers))

    async def read_until(self, is_enough: Callable[[], bool]) -> None:
        """Take frames until a condition holds, or the other side has left."""
        while not is_enough():
            chunk = await self._receive()
            if not chunk:
                return
            self._buffer += chunk
            self._take_frames()

    def _take_frames(self) -> None:
        while len(self._buffer) >= 8:
            word, rest = struct.unpack(">II", self._buffer[:8])
            length, flags = rest & 0xFFFFFF, rest >> 24
            if len(self._buffer) < 8 + length:
                return
            body, self._buffer = self._buffer[8 : 8 + length], self._buffer[8 + length :]
            if not word >> 31:
                self.received[word] = self.received.get(word, b"") + body
                if flags & 1:
                    self.ended.add(word)
            elif word & 0xFFFF == PING:
                self.pings.append(body)
            else:
                listed = self.replied if word & 0xFFFF == SYN_REPLY else self.reset
                listed.append(struct.unpack(">I", body[:4])[0])
