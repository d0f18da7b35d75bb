"""Forwards the connections of a client to ports of a pod.

As kubelets do: for each connection the client opens two streams with the same request id, one for
the data and one on which it is told of an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from dray.api.http_messages import MessageSocket
from dray.client import spdy
from dray.client.spdy import SpdyConnection, SpdyStream

_DATA, _ERROR = "data", "error"
MAX_PORT: Final = 65535
MAX_CONNECTIONS: Final = 128

Connect = Callable[[int], Awaitable[socket.socket]]
"""Connects to a port of a pod. Raises OSError."""


async def serve(client: MessageSocket, connect: Connect, pod: str) -> None:
    """Forward until the client has left; its open connections end then."""
    async with asyncio.TaskGroup() as group:
        forwarder = _Forwarder(client, connect, pod, group)
        with contextlib.suppress(spdy.ProtocolError):
            await forwarder.connection.run()
        forwarder.end()


class _Forwarder:
    def __init__(
        self, client: MessageSocket, connect: Connect, pod: str, group: asyncio.TaskGroup
    ) -> None:
        self.connection = SpdyConnection(client, self._opened)
        self._connect, self._pod, self._group = connect, pod, group
        self._waiting: dict[str, dict[str, SpdyStream]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _opened(self, stream: SpdyStream) -> None:
        type_ = stream.headers.get("streamtype", "")
        port = stream.headers.get("port", "")
        if type_ not in (_DATA, _ERROR) or not port.isdecimal() or not 0 < int(port) <= MAX_PORT:
            return await self.connection.refuse(stream)
        request = stream.headers.get("requestid") or _request_by_number(stream, type_)
        # Counted here too: a client may take streams back as fast as it opens them.
        is_full = max(len(self._waiting), len(self._tasks)) >= MAX_CONNECTIONS
        pair = self._waiting.get(request, {})
        if type_ in pair or (is_full and not pair):
            return await self.connection.refuse(stream)
        self._waiting[request] = pair
        pair[type_] = stream
        if len(pair) == 2:
            del self._waiting[request]
            work = self._forward(pair[_DATA], pair[_ERROR], int(port))
            task = self._group.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return None

    async def _forward(self, data: SpdyStream, error: SpdyStream, port: int) -> None:
        try:
            with await self._connect(port) as found:
                await _exchange(found, data)
        except OSError as failure:
            text = f"error forwarding port {port} to pod {self._pod}: {failure}"
            await error.send(text.encode())
        finally:
            self.connection.forget(data, error)
        await error.close()
        await data.close()


def _request_by_number(stream: SpdyStream, type_: str) -> str:
    """Return the request of an older client: it opens the stream of errors just before."""
    return f"#{stream.number if type_ == _ERROR else stream.number - 2}"


async def _exchange(found: socket.socket, data: SpdyStream) -> None:
    """Copy both ways until the pod has sent its last byte."""
    loop = asyncio.get_running_loop()

    async def away() -> None:
        with contextlib.suppress(OSError):
            while chunk := await data.receive():
                await loop.sock_sendall(found, chunk)
            found.shutdown(socket.SHUT_WR)

    sending = asyncio.create_task(away())
    try:
        receive = functools.partial(loop.sock_recv, found, spdy.CHUNK_BYTES)
        while chunk := await receive():
            await data.send(chunk)
    finally:
        sending.cancel()
        await asyncio.wait({sending})
