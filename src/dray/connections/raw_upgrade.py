"""A connection that leaves HTTP for another protocol than WebSockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

MAX_WAITING_BYTES: Final = 2**18


class RawSocket:
    """The server's end of such a connection, as a MessageSocket: each message is some bytes."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._waiting = 0
        self._writer: Any = None

    async def prepare(self, headers: Mapping[str, str]) -> web.StreamResponse:
        """Send the answer after which both sides speak the other protocol."""
        response = web.StreamResponse(status=101, headers=headers)
        protocol: Any = self._request.protocol
        # Before the answer: the client may send as soon as it has it.
        protocol.set_parser(self)
        protocol.keep_alive(False)
        self._writer = await response.prepare(self._request)
        return response

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Take what aiohttp has read."""
        self._chunks.put_nowait(bytes(data))
        self._waiting += len(data)
        if self._waiting > MAX_WAITING_BYTES and self._request.transport is not None:
            self._request.transport.pause_reading()
        return False, b""

    def feed_eof(self) -> None:
        self._chunks.put_nowait(None)

    def set_exception(self, *_: object) -> None:
        """Take the news that the connection was lost."""
        self.feed_eof()

    async def receive(self) -> bytes | None:
        chunk = await self._chunks.get()
        if chunk is not None:
            was_paused = self._waiting > MAX_WAITING_BYTES
            self._waiting -= len(chunk)
            if was_paused and self._waiting <= MAX_WAITING_BYTES and self._request.transport:
                self._request.transport.resume_reading()
        return chunk

    async def send(self, message: bytes) -> None:
        """Send bytes, unless the client has left."""
        transport = self._request.transport
        if transport is not None and not transport.is_closing():
            with contextlib.suppress(ConnectionError):
                transport.write(message)
                await self._writer.drain()
