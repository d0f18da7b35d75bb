"""Accepts connections to the agent, and closes those of strangers: few, and after a short time.

A stranger is who has not yet proven to be one of the clients. Without a limit, whoever reaches the
port could take all descriptors of the process, which may be that of the API server too.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Collection
from typing import Final

MAX_STRANGERS: Final = 128
"""One more takes the place of the oldest."""
STRANGER_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 0.5
_BACKLOG: Final = 128


def client_name(transport: asyncio.BaseTransport | None) -> str:
    """Return the common name in the certificate of a connection's client; empty without one."""
    certificate = transport.get_extra_info("peercert") if transport else None
    subject = itertools.chain.from_iterable((certificate or {}).get("subject", ()))
    return str(dict(subject).get("commonName", ""))


class Strangers:
    """Connections whose clients are not known yet, or known to be none of the agent's."""

    def __init__(
        self,
        make: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext,
        clients: Collection[str],
    ) -> None:
        self._make = make
        self._context = context
        self._clients = clients
        self._waiting: dict[asyncio.Task[None], None] = {}

    @contextlib.asynccontextmanager
    async def listening(self, address: str, port: int) -> AsyncIterator[int]:
        """Accept until the block is left; yields the port. Raises OSError."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.create_server((address, port), family=family, backlog=_BACKLOG) as listener:
            listener.setblocking(False)
            accepting = asyncio.create_task(self._accept(listener))
            try:
                yield int(listener.getsockname()[1])
            finally:
                ending = (accepting, *self._waiting)
                for task in ending:
                    task.cancel()
                await asyncio.wait(ending)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError:
                # There is no descriptor free, or the client has left already.
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if len(self._waiting) >= MAX_STRANGERS:
                oldest = next(iter(self._waiting))
                del self._waiting[oldest]
                oldest.cancel()
            task = asyncio.create_task(self._greet(connection))
            self._waiting[task] = None
            task.add_done_callback(lambda done: self._waiting.pop(done, None))

    async def _greet(self, connection: socket.socket) -> None:
        """Make the connection of a client one of the server's; end that of a stranger."""
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.connect_accepted_socket(
                self._make,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=STRANGER_SECONDS,
            )
        except OSError:
            connection.close()
            return
        except asyncio.CancelledError:
            connection.close()
            raise
        if client_name(transport) in self._clients:
            return
        try:
            # Long enough to be told why.
            await asyncio.sleep(STRANGER_SECONDS)
        finally:
            transport.abort()
