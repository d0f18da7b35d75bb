"""Accepts connections, and closes those that hold a place without using it.

A connection is new until a request with valid credentials, or without any, has come over it. New
ones are few and have little time; where there are too many, the address that has the most of them
loses its oldest. Later a connection counts for its user. Where all places are taken, the user who
has the most connections loses the oldest one.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable

from dray.connections import limits as connection_limits
from dray.connections.limits import ConnectionLimits

log = logging.getLogger(__name__)

BACKLOG = 1024
ACCEPTED_AT_ONCE = 4
BETWEEN_SECONDS = 0.01
"""Other work gets its turn between groups of new connections: a handshake is expensive."""
PAUSE_SECONDS = 0.5
LOG_SECONDS = 60.0
SWEEP_SECONDS = 1.0
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Connection:
    """One accepted connection. The times are None while nothing is waited for."""

    __slots__ = ("accepted", "address", "head_since", "opened", "stuck_since", "transport", "user")

    def __init__(self, accepted: socket.socket, address: str, now: float) -> None:
        self.accepted = accepted
        self.address = address
        self.opened = now
        self.user: str | None = None
        """The user that it counts for; None while it is new."""
        self.transport: asyncio.Transport | None = None
        self.head_since: float | None = None
        """Since when the head of a request is incomplete."""
        self.stuck_since: float | None = None
        """Since when the client does not read."""

    def abort(self) -> None:
        if self.transport is not None:
            # Python 3.11.2, which Debian 12 has, fails on a closed connection; later ones do not.
            with contextlib.suppress(AttributeError):
                self.transport.abort()
        else:
            # The handshake then fails, wherever it is; to cancel it may leave the socket open.
            with contextlib.suppress(OSError):
                self.accepted.shutdown(socket.SHUT_RDWR)


MakeProtocol = Callable[[Connection], asyncio.Protocol]


class ClientConnections:
    """All connections: new ones by address, the others by user."""

    def __init__(self, limits: ConnectionLimits, total: int) -> None:
        self._limits = limits
        self._total = total
        self._new: dict[str, dict[Connection, None]] = {}
        self._used: dict[str, dict[Connection, None]] = {}
        self.new_count = self.used_count = 0

    def __len__(self) -> int:
        return self.new_count + self.used_count

    def add(self, connection: Connection) -> None:
        """Add a new connection; another is aborted where there is no place for it."""
        if self.new_count >= self._limits.new_connections:
            self._drop_one(self._new)
        elif len(self) >= self._total:
            self._drop_one(self._used if self.used_count > self.new_count else self._new)
        self._new.setdefault(connection.address, {})[connection] = None
        self.new_count += 1

    def assign(self, connection: Connection, user: str, limit: int | None) -> bool:
        """Count a connection for a user; return False where the user has too many."""
        if connection.user == user:
            return True
        if limit is not None and len(self._used.get(user, ())) >= limit:
            return False
        self.remove(connection)
        connection.user = user
        self._used.setdefault(user, {})[connection] = None
        self.used_count += 1
        return True

    def remove(self, connection: Connection) -> None:
        if connection.user is None:
            if _discard(self._new, connection.address, connection):
                self.new_count -= 1
        elif _discard(self._used, connection.user, connection):
            self.used_count -= 1

    def of(self, user: str) -> int:
        return len(self._used.get(user, ()))

    def sweep(self, now: float) -> None:
        """Abort connections whose clients take too long to send a head, or to read."""
        limits = self._limits
        late = [
            connection
            for group in self._new.values()
            for connection in group
            if now - connection.opened > limits.head_seconds
        ]
        late += [
            connection
            for group in self._used.values()
            for connection in group
            if _is_over(connection.head_since, now, limits.head_seconds)
            or _is_over(connection.stuck_since, now, limits.slow_client_seconds)
        ]
        for connection in late:
            self.drop(connection)

    def drop(self, connection: Connection) -> None:
        self.remove(connection)
        connection.abort()

    def abort_all(self) -> None:
        for groups in (self._new, self._used):
            for group in tuple(groups.values()):
                for connection in tuple(group):
                    self.drop(connection)

    def abort_handshakes(self) -> None:
        for group in tuple(self._new.values()):
            for connection in tuple(group):
                if connection.transport is None:
                    self.drop(connection)

    def _drop_one(self, groups: dict[str, dict[Connection, None]]) -> None:
        largest = max(groups.values(), key=len, default=None)
        if largest:
            self.drop(next(iter(largest)))


def _is_over(since: float | None, now: float, seconds: float) -> bool:
    return since is not None and now - since > seconds


def _discard(groups: dict[str, dict[Connection, None]], key: str, connection: Connection) -> bool:
    group = groups.get(key)
    if group is None or connection not in group:
        return False
    del group[connection]
    if not group:
        del groups[key]
    return True


class ConnectionAcceptor:
    """Listening sockets, which pass connections to protocols once TLS is established.

    Without a `context` there is no TLS.
    """

    def __init__(
        self,
        sockets: list[socket.socket],
        context: ssl.SSLContext | None,
        make_protocol: MakeProtocol,
        connections: ClientConnections,
        limits: ConnectionLimits,
    ) -> None:
        self._sockets = sockets
        self._context = context
        self._make_protocol = make_protocol
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._connections = connections
        self._logged = 0.0
        self._timers: set[asyncio.TimerHandle] = set()
        self._handshakes: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        for listening in self._sockets:
            self._resume(listening)
        self._sweep()

    async def stop(self) -> None:
        """Accept no more connections; those that are open go on."""
        for listening in self._sockets:
            self._loop.remove_reader(listening.fileno())
            listening.close()
        for timer in self._timers:
            timer.cancel()
        self._connections.abort_handshakes()
        await asyncio.gather(*self._handshakes)

    def _resume(self, listening: socket.socket) -> None:
        self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        def act() -> None:
            self._timers.discard(timer)
            action()

        timer = self._loop.call_later(seconds, act)
        self._timers.add(timer)

    def _sweep(self) -> None:
        self._connections.sweep(self._loop.time())
        self._later(SWEEP_SECONDS, self._sweep)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._complain(error)
                    self._pause(listening, PAUSE_SECONDS)
                    return
                # The client has left before it was accepted.
                continue
            self._take(accepted, str(address[0]))
        self._pause(listening, BETWEEN_SECONDS)

    def _pause(self, listening: socket.socket, seconds: float) -> None:
        """Accept nothing for a while; clients wait in the backlog, and open requests go on."""
        self._loop.remove_reader(listening.fileno())
        self._later(seconds, lambda: self._resume(listening))

    def _complain(self, error: OSError) -> None:
        now = time.monotonic()
        if not self._logged or now - self._logged > LOG_SECONDS:
            self._logged = now
            log.error(
                "no connection can be accepted (%d are open): %s; raise the limit of open files",
                len(self._connections),
                error.strerror,
            )

    def _take(self, accepted: socket.socket, address: str) -> None:
        accepted.setblocking(False)
        connection = Connection(accepted, address, self._loop.time())
        self._connections.add(connection)
        task = self._loop.create_task(self._establish(connection))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _establish(self, connection: Connection) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._make_protocol(connection),
                connection.accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._limits.head_seconds if self._context else None,
            )
        except (OSError, asyncio.CancelledError, ssl.SSLError):
            # Scanners and plain HTTP are no matter for the log.
            self._connections.remove(connection)
            connection.accepted.close()


@contextlib.asynccontextmanager
async def listening(
    host: str,
    port: int,
    context: ssl.SSLContext | None,
    make_protocol: MakeProtocol,
    connections: ClientConnections,
    limits: ConnectionLimits,
) -> AsyncIterator[tuple[str, int]]:
    """Accept connections until the block is left; yield the address and the port.

    Without a `context` they are not encrypted.
    """
    sockets = await _bound(host, port)
    listener = ConnectionAcceptor(sockets, context, make_protocol, connections, limits)
    listener.start()
    try:
        name = sockets[0].getsockname()
        yield str(name[0]), int(name[1])
    finally:
        await listener.stop()


async def _bound(host: str, port: int) -> list[socket.socket]:
    """Return listening sockets for every address of a host. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((item[0], item[4]) for item in found):
            opened = socket.create_server(address[:2], family=family, backlog=BACKLOG)
            opened.setblocking(False)
            sockets.append(opened)
    except OSError:
        for opened in sockets:
            opened.close()
        raise
    return sockets


def new_connections(limits: ConnectionLimits) -> ClientConnections:
    """Return the connections of a server, as many as the limit of open files allows."""
    descriptors = connection_limits.raise_descriptor_limit()
    return ClientConnections(limits, connection_limits.connection_limit(limits, descriptors))
