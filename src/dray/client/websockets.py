"""WebSockets to API servers and node agents, message by message."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import aiohttp

from dray.api.http_messages import MessageSocket, Upgrade

if TYPE_CHECKING:
    from aiohttp import web

MAX_MESSAGE_BYTES = 4 * 2**20
PIPED_MESSAGES = 8


class UpgradeRefused(Exception):
    """The server did not open a WebSocket: its status and its body."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"the server responded with status {status}")
        self.status = status
        self.body = body


def session(
    connector: aiohttp.TCPConnector, *, connect_seconds: float, read_bufsize: int = 2**18
) -> aiohttp.ClientSession:
    """Return a session whose requests have no time limit once they are connected.

    It raises UpgradeRefused with the body, which aiohttp itself drops.
    """
    tracing = aiohttp.TraceConfig()
    tracing.on_request_end.append(_raise_refusal)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds)
    return aiohttp.ClientSession(
        connector=connector, timeout=timeout, read_bufsize=read_bufsize, trace_configs=[tracing]
    )


async def _raise_refusal(
    _session: aiohttp.ClientSession, _context: Any, ended: aiohttp.TraceRequestEndParams
) -> None:
    if "Sec-WebSocket-Key" in ended.headers and ended.response.status >= 400:
        raise UpgradeRefused(ended.response.status, await ended.response.read())


async def upgraded(connecting: Awaitable[aiohttp.ClientWebSocketResponse]) -> Upgrade:
    """Return the upgrade of an open WebSocket, which relays messages."""
    there = await connecting

    async def converse(here: MessageSocket) -> None:
        try:
            await relay(here, there)
        finally:
            await there.close()

    return Upgrade(there.protocol or "", converse)


async def relay(here: MessageSocket, there: aiohttp.ClientWebSocketResponse) -> None:
    """Relay messages both ways until one side has left."""

    async def away() -> None:
        while (message := await here.receive()) is not None:
            with contextlib.suppress(ConnectionError):
                await there.send_bytes(message)

    async def back() -> None:
        while (message := await received(there.receive)) is not None:
            await here.send(message)

    async with asyncio.TaskGroup() as group:
        tasks = {group.create_task(away()), group.create_task(back())}
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()


class MessageWebSocket:
    """The server's end of a WebSocket as a MessageSocket."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def receive(self) -> bytes | None:
        return await received(self._socket.receive)

    async def send(self, message: bytes) -> None:
        """Send a message, unless the client has left."""
        if not self._socket.closed:
            with contextlib.suppress(ConnectionError):
                await self._socket.send_bytes(message)


async def received(receive: Callable[[], Awaitable[aiohttp.WSMessage]]) -> bytes | None:
    """Return the next message of a WebSocket, or None after the last one."""
    message = await receive()
    if message.type is aiohttp.WSMsgType.BINARY:
        return bytes(message.data)
    if message.type is aiohttp.WSMsgType.TEXT:
        return str(message.data).encode()
    return None


class MessagePipe:
    """One end of a conversation inside this process; `send` waits while the other end is slow."""

    def __init__(
        self, incoming: asyncio.Queue[bytes | None], outgoing: asyncio.Queue[bytes | None]
    ) -> None:
        self._incoming, self._outgoing = incoming, outgoing

    async def receive(self) -> bytes | None:
        return await self._incoming.get()

    async def send(self, message: bytes) -> None:
        await self._outgoing.put(message)

    async def close(self) -> None:
        """Let the other end know that this one has left."""
        await self._outgoing.put(None)


def pipe() -> tuple[MessagePipe, MessagePipe]:
    """Return two ends of a conversation."""
    first: asyncio.Queue[bytes | None] = asyncio.Queue(PIPED_MESSAGES)
    second: asyncio.Queue[bytes | None] = asyncio.Queue(PIPED_MESSAGES)
    return MessagePipe(first, second), MessagePipe(second, first)
