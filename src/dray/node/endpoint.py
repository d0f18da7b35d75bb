"""Serves logs, exec, attach and port-forward of a node to API servers, over HTTPS.

The paths and parameters are the kubelet's (pkg/kubelet/server/server.go), so that a Kubernetes API
server can use a dray node, too. A client must have a certificate of the cluster's authority and one
of the names that API servers use.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import itertools
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, Protocol

from aiohttp import web

from dray.api import remote_command
from dray.api.formats import gotime
from dray.api.http_messages import MessageSocket
from dray.client import websockets
from dray.client.websockets import MessageWebSocket
from dray.clock import utc_now
from dray.connections import listener
from dray.connections.http_protocol import HttpProtocol, HttpServer
from dray.connections.limits import ConnectionLimits
from dray.connections.listener import ClientConnections
from dray.node.containers import logs, sessions
from dray.node.containers.logs import LogOptions
from dray.node.containers.sessions import Wanted
from dray.node.forwarding import port_forward
from dray.node.pods.container_access import ContainerAccess, ContainerUnavailable

log = logging.getLogger(__name__)

API_SERVERS: Final = (remote_command.API_SERVER_NAME,)
SHUTDOWN_SECONDS: Final = 1.0
MAX_LINE_BYTES: Final = 2**18
"""The limit of the request line, which has the arguments of a command."""
MAX_HEADERS: Final = 64
MAX_SESSIONS: Final = 500
"""Commands, attachments and followed logs at the same time: each may have a process."""
LIMITS: Final = ConnectionLimits(new_connections=64, connections=2 * MAX_SESSIONS)
LINGERING_SECONDS: Final = 2.0

Find = Callable[[str, str], ContainerAccess | None]
"""Finds the containers of a pod by its namespace and name; None where it is not here."""
Operation = Callable[[web.BaseRequest, ContainerAccess, str], Awaitable[web.StreamResponse]]
"""Answers a request for one container of a pod."""


class ServedCertificate(Protocol):
    """A certificate that is replaced before it ends."""

    @property
    def certificate(self) -> bytes:
        """The current one, in PEM."""

    def serve_in(self, context: ssl.SSLContext) -> None:
        """Load the current certificate into a context, and each later one."""

    async def run(self, publish: Callable[[bytes], Awaitable[None]]) -> None:
        """Replace it whenever it is due; `publish` makes a new one known before it is served."""


@dataclass(frozen=True)
class Identity:
    """The endpoint's certificate, and the clients that may use it."""

    served: ServedCertificate
    client_authority: bytes
    clients: Collection[str] = API_SERVERS

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self.client_authority.decode())
        self.served.serve_in(context)
        return context


class Endpoint:
    """Serves the pods that `find` returns."""

    def __init__(
        self,
        find: Find,
        identity: Identity,
        limits: ConnectionLimits = LIMITS,
        max_sessions: int = MAX_SESSIONS,
    ) -> None:
        self._find = find
        self._identity = identity
        self._limits = limits
        self._max_sessions = max_sessions
        self._connections = ClientConnections(limits, limits.connections)
        self._open: set[asyncio.Task[Any]] = set()

    @contextlib.asynccontextmanager
    async def listening(self, address: str, port: int = 0) -> AsyncIterator[int]:
        """Serve until the block is left; yields the port."""
        server = HttpServer(
            self._serve,
            self._connections,
            handler_cancellation=True,
            access_log=None,
            logger=log,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            max_headers=MAX_HEADERS,
            keepalive_timeout=self._limits.idle_seconds,
            lingering_time=LINGERING_SECONDS,
        )
        runner = web.ServerRunner(server, shutdown_timeout=SHUTDOWN_SECONDS)
        await runner.setup()
        context = self._identity.context()
        accepting = listener.listening(
            address, port, context, server.protocol, self._connections, self._limits
        )
        try:
            async with accepting as (_host, bound_port):
                yield bound_port
        finally:
            for task in tuple(self._open):
                task.cancel()
            await runner.cleanup()
            self._connections.abort_all()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        refusal = self._refusal(request)
        if refusal:
            return web.Response(status=403, text=refusal)
        operations: dict[str, Operation] = {
            remote_command.LOGS: self._logs,
            remote_command.EXEC: self._exec,
            remote_command.ATTACH: self._attach,
        }
        match request.path.strip("/").split("/"):
            case [name, namespace, pod, container] if name in operations:
                return await self._answered(operations[name], request, namespace, pod, container)
            case [remote_command.PORT_FORWARD, namespace, pod]:
                return await self._answered(self._forward, request, namespace, pod)
        return web.Response(status=404, text="404 page not found")

    def _refusal(self, request: web.BaseRequest) -> str:
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport else None
        subject = itertools.chain.from_iterable((certificate or {}).get("subject", ()))
        name = dict(subject).get("commonName", "")
        if name not in self._identity.clients:
            return f"{name!r} may not use this node"
        protocol = request.protocol
        assert isinstance(protocol, HttpProtocol)
        self._connections.assign(protocol.connection, name, None)
        return ""

    async def _answered(
        self,
        answer: Operation,
        request: web.BaseRequest,
        namespace: str,
        pod: str,
        container: str = "",
    ) -> web.StreamResponse:
        containers = self._find(namespace, pod)
        if containers is None or (container and not containers.has_container(container)):
            what = f'container "{container}" of pod' if container else "pod"
            text = f'{what} "{namespace}/{pod}" is not on this node'
            return web.Response(status=404, text=text)
        if len(self._open) >= self._max_sessions:
            text = "too many open sessions on this node, please try again later"
            return web.Response(status=429, text=text, headers={"Retry-After": "1"})
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            return await answer(request, containers, container)
        except (ContainerUnavailable, ValueError) as error:
            return web.Response(status=400, text=str(error))
        finally:
            self._open.discard(task)

    async def _logs(
        self, request: web.BaseRequest, containers: ContainerAccess, container: str
    ) -> web.StreamResponse:
        query = request.query
        options = _log_options(query)
        attempt = containers.logged(container, previous=_is_true(query.get("previous", "")))
        if not _is_true(query.get("follow", "")):
            body = await logs.read_aside(attempt.log, options)
            return web.Response(body=body, content_type="text/plain")
        answer = web.StreamResponse(headers={"content-type": "text/plain"})
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        following = logs.follow(attempt.log, lambda: attempt.exit() is not None, options)
        with contextlib.suppress(ConnectionError):
            async with contextlib.aclosing(following):  # type: ignore[type-var]
                async for chunk in following:
                    if chunk:
                        await answer.write(chunk)
        return answer

    async def _exec(
        self, request: web.BaseRequest, containers: ContainerAccess, container: str
    ) -> web.StreamResponse:
        wanted = _wanted(request)
        argv = tuple(request.query.getall("command", ()))
        if not argv:
            raise ValueError("you must specify a command")
        command = containers.exec_command(container, argv, stdin=wanted.stdin, tty=wanted.tty)
        return await _conversation(
            request, lambda socket: sessions.execute(socket, command, wanted)
        )

    async def _attach(
        self, request: web.BaseRequest, containers: ContainerAccess, container: str
    ) -> web.StreamResponse:
        wanted = _wanted(request)
        attempt = containers.running(container)
        return await _conversation(request, lambda socket: sessions.attach(socket, attempt, wanted))

    async def _forward(
        self, request: web.BaseRequest, containers: ContainerAccess, _container: str
    ) -> web.StreamResponse:
        return await _conversation(
            request,
            lambda socket: port_forward.serve(socket, containers.connect, containers.pod_name),
            (remote_command.TUNNEL,),
        )


async def _conversation(
    request: web.BaseRequest,
    converse: Callable[[MessageSocket], Awaitable[None]],
    protocols: tuple[str, ...] = remote_command.PROTOCOLS,
) -> web.StreamResponse:
    socket = web.WebSocketResponse(protocols=protocols, max_msg_size=websockets.MAX_MESSAGE_BYTES)
    if not socket.can_prepare(request).ok:
        raise ValueError("exec, attach and port-forward need an upgrade to WebSockets or SPDY")
    await socket.prepare(request)
    await converse(MessageWebSocket(socket))
    await socket.close()
    return socket


def _wanted(request: web.BaseRequest) -> Wanted:
    asked = {name: _is_true(request.query.get(name, "")) for name in ("input", "output", "error")}
    if not any(asked.values()):
        raise ValueError("you must specify at least 1 of stdin, stdout, stderr")
    tty = _is_true(request.query.get("tty", ""))
    return Wanted(asked["input"], asked["output"], asked["error"] and not tty, tty)


def _log_options(query: Any) -> LogOptions:
    since = ""
    if seconds := query.get("sinceSeconds"):
        moment = utc_now() - datetime.timedelta(seconds=int(seconds))
        since = gotime.write(moment, gotime.MICROSECONDS)
    elif time := query.get("sinceTime"):
        since = gotime.write(gotime.parse(time), gotime.MICROSECONDS)
    tail, limit = query.get("tailLines"), query.get("limitBytes")
    return LogOptions(
        int(tail) if tail else None,
        since.removesuffix("Z"),
        _is_true(query.get("timestamps", "")),
        int(limit) if limit else None,
    )


def _is_true(text: str) -> bool:
    return text.lower() in ("1", "t", "true")
