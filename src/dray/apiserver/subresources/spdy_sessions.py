"""exec and attach in SPDY, for older clients: their streams become the channels of an agent.

As pkg/kubelet's streaming server: the client opens a stream for each of error, stdin, stdout,
stderr and resize that it asked for, and gets the exit status on that for errors.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Iterable, Mapping
from typing import Final

from dray.api import remote_command
from dray.api.http_messages import MessageSocket, Upgrade
from dray.client import spdy, websockets
from dray.client.spdy import SpdyConnection, SpdyStream
from dray.client.websockets import MessagePipe

PROTOCOL: Final = f"{remote_command.SPDY}+{remote_command.V4}"
OPENING_SECONDS: Final = 30.0
MAX_SIZE_BYTES: Final = 1024
"""The longest message about the size of a terminal."""
CHANNELS: Final = {
    "error": remote_command.ERROR,
    "stdin": remote_command.STDIN,
    "stdout": remote_command.STDOUT,
    "stderr": remote_command.STDERR,
    "resize": remote_command.RESIZE,
}


def translated(agent: Upgrade, stream_types: Iterable[str]) -> Upgrade:
    """Return the upgrade for a client that opens streams of these types, and one for errors."""
    return Upgrade(PROTOCOL, functools.partial(_converse, agent, {"error", *stream_types}))


async def _converse(agent: Upgrade, stream_types: set[str], client: MessageSocket) -> None:
    """Translate until the agent has sent the last message, or the client has left."""
    near, far = websockets.pipe()
    session = _Session(client, stream_types)
    async with asyncio.TaskGroup() as group:
        # From the beginning: it ends the agent's side wherever the client leaves.
        conversing = group.create_task(_ended(agent, far))
        reading = group.create_task(session.read())
        working = group.create_task(session.work(near))
        await asyncio.wait({reading, working}, return_when=asyncio.FIRST_COMPLETED)
        for task in (conversing, reading, working):
            task.cancel()


class _Session:
    def __init__(self, client: MessageSocket, stream_types: set[str]) -> None:
        self._connection = SpdyConnection(client, self._opened)
        self._missing = stream_types
        self._streams: dict[str, SpdyStream] = {}
        self._is_complete = asyncio.Event()

    async def read(self) -> None:
        with contextlib.suppress(spdy.ProtocolError):
            await self._connection.run()

    async def _opened(self, stream: SpdyStream) -> None:
        type_ = stream.headers.get("streamtype", "")
        if type_ not in self._missing:
            return await self._connection.refuse(stream)
        self._missing.discard(type_)
        self._streams[type_] = stream
        if not self._missing:
            self._is_complete.set()
        return None

    async def work(self, near: MessagePipe) -> None:
        """Pass messages on, once the client has opened its streams."""
        try:
            async with asyncio.timeout(OPENING_SECONDS):
                await self._is_complete.wait()
        except TimeoutError:
            return
        async with asyncio.TaskGroup() as group:
            senders = {"stdin": _send_input, "resize": _send_sizes}
            tasks = [
                group.create_task(send(self._streams[name], near))
                for name, send in senders.items()
                if name in self._streams
            ]
            await _show(near, {CHANNELS[name]: stream for name, stream in self._streams.items()})
            for task in tasks:
                task.cancel()
        for stream in self._streams.values():
            await stream.close()


async def _ended(agent: Upgrade, far: MessagePipe) -> None:
    await agent.converse(far)
    await far.close()


async def _show(near: MessagePipe, streams: Mapping[int, SpdyStream]) -> None:
    """Pass on what the agent sends, up to its last message."""
    while (message := await near.receive()) is not None:
        stream = streams.get(message[0]) if len(message) > 1 else None
        if stream is not None and message[0] != remote_command.CLOSE:
            await stream.send(message[1:])


async def _send_input(stdin: SpdyStream, near: MessagePipe) -> None:
    while chunk := await stdin.receive():
        await near.send(remote_command.message(remote_command.STDIN, chunk))
    await near.send(remote_command.closing(remote_command.STDIN))


async def _send_sizes(resize: SpdyStream, near: MessagePipe) -> None:
    """Pass on sizes of the terminal: one JSON document per line, in any pieces."""
    unread = b""
    while chunk := await resize.receive():
        *lines, unread = (unread + chunk).split(b"\n")
        for line in lines:
            await near.send(remote_command.message(remote_command.RESIZE, line))
        unread = unread[:MAX_SIZE_BYTES]
