"""HTTP on one connection, which notes when a client sends or reads too slowly."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from aiohttp import web

from dray.connections.listener import ClientConnections, Connection


class HttpServer(web.Server):
    """Makes the protocol of each connection, with the same options."""

    def __init__(self, handler: Any, connections: ClientConnections, **options: Any) -> None:
        self._own = {name: options.pop(name) for name in tuple(options) if name not in _OF_SERVER}
        super().__init__(handler, **options)
        self._open = connections

    def protocol(self, connection: Connection) -> HttpProtocol:
        loop = asyncio.get_running_loop()
        return HttpProtocol(self, connection, self._open, loop=loop, **self._own)


_OF_SERVER = frozenset({"request_factory", "handler_cancellation"})


class HttpProtocol(web.RequestHandler):
    __slots__ = ("_open", "connection")

    def __init__(
        self,
        server: HttpServer,
        connection: Connection,
        connections: ClientConnections,
        **options: Any,
    ) -> None:
        super().__init__(server, **options)
        self.connection = connection
        self._open = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.connection.transport = cast(asyncio.Transport, transport)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._open.remove(self.connection)
        super().connection_lost(exc)

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        # A connection that was established just before close() waits for a request nevertheless.
        self.close()
        await super().shutdown(timeout)

    def data_received(self, data: bytes) -> None:
        before = self._request_count
        super().data_received(data)
        if self._request_count != before:
            self.connection.head_since = None
        elif self._waiter is not None and self.connection.head_since is None:
            # Nothing is asked yet, so these are the first bytes of a head.
            self.connection.head_since = self._loop.time()

    def handle_error(self, *arguments: Any, **options: Any) -> web.StreamResponse:
        """Refuse what is no valid HTTP, without the versions of what reads it."""
        answer = super().handle_error(*arguments, **options)
        # A part of the request is in the answer: no browser may take that for a page.
        answer.headers.update({"server": "dray", "x-content-type-options": "nosniff"})
        return answer

    def pause_writing(self) -> None:
        self.connection.stuck_since = self._loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.connection.stuck_since = None
        super().resume_writing()
