"""HTTP and TLS around the application: sockets, limits, certificates, streams, shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Protocol

import msgspec
from aiohttp import http_exceptions, web

from dray import gc_tuning
from dray.api import errors, http_messages, remote_command
from dray.api.http_messages import Request, Response, Upgrade, User
from dray.apiserver import app as application
from dray.apiserver.access import impersonation
from dray.apiserver.access.authentication import ANONYMOUS, Authenticator
from dray.apiserver.access.certificates import KeyPair
from dray.apiserver.access.renewal import RenewedPair
from dray.apiserver.request import offloading, protobuf_responses
from dray.apiserver.serving import limits as serving_limits
from dray.apiserver.serving.fairness import Dispatcher, Flow
from dray.apiserver.serving.limits import DEFAULT_LIMITS, ServerLimits
from dray.client import websockets
from dray.client.websockets import MessageWebSocket
from dray.connections import listener
from dray.connections.http_protocol import HttpProtocol, HttpServer
from dray.connections.listener import ClientConnections
from dray.connections.raw_upgrade import RawSocket

log = logging.getLogger(__name__)
# A client that sends no valid HTTP gets an error response; the log is not for it.
log.addFilter(lambda record: not _is_about(record, http_exceptions.HttpProcessingError))

PRETTY_AGENTS = ("curl/", "Wget/", "Mozilla/")
UNLIMITED_PATHS = application.HEALTH_PATHS | {"/version"}
PROBES = User("system:anonymous probes")
"""Health checks without credentials have limits of their own: others cannot use them up."""
NOBODY = User("")
"""The user of a request whose credentials are wrong."""
SMALL_BODY_BYTES = 2**14
CHUNK_BYTES = 2**16
LINGERING_SECONDS = 2.0
_PROTOCOL_HEADERS = frozenset({"sec-websocket-protocol", "x-stream-protocol-version"})


class Pages(Protocol):
    """Answers browsers, which have sessions of their own instead of credentials."""

    @property
    def root(self) -> str:
        """Return the path below which it answers."""

    def user_of(self, request: web.BaseRequest) -> str:
        """Return the name of the user who has a session; "" without one."""

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse: ...


class Server:
    """Listens, authenticates and passes requests to the application."""

    def __init__(
        self, app: application.App, authenticator: Authenticator, limits: ServerLimits | None = None
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._limits = limits or DEFAULT_LIMITS
        self._open_watches = 0
        self._is_closing = False
        self._streaming: set[asyncio.Task[Any]] = set()
        self.dispatcher = Dispatcher(self._limits)
        self._connections = ClientConnections(self._limits, self._limits.connections)
        self.pages: Pages | None = None
        """What people see in a browser, if the server has that."""
        self.on_listening: Callable[[str, int], Awaitable[None]] | None = None
        """Called with the address and the port whenever the server begins to listen."""

    @contextlib.asynccontextmanager
    async def listening(
        self, host: str, port: int, pair: KeyPair | RenewedPair, client_authority: bytes
    ) -> AsyncIterator[str]:
        """Serve until the block is left; yields the address. Open requests finish, watches end.

        A RenewedPair is replaced while it is served.
        """
        self._connections = connections = listener.new_connections(self._limits)
        low_level = self._http_server(connections)
        runner = web.ServerRunner(low_level, shutdown_timeout=self._limits.shutdown_seconds)
        await runner.setup()
        self._is_closing = False
        renewed = pair if isinstance(pair, RenewedPair) else RenewedPair(lambda: pair)
        context = _tls(renewed, client_authority)
        renewing = asyncio.create_task(renewed.run())
        try:
            accepting = listener.listening(
                host, port, context, low_level.protocol, connections, self._limits
            )
            # A collection of all objects takes longer than most requests.
            with gc_tuning.rare_collections():
                async with accepting as (bound, bound_port):
                    if self.on_listening is not None:
                        await self.on_listening(bound, bound_port)
                    yield f"https://{_host(bound)}:{bound_port}"
        finally:
            self._is_closing = True
            renewing.cancel()
            for task in tuple(self._streaming):
                task.cancel()
            await runner.cleanup()
            # Those whose clients do not complete the closing handshake of TLS.
            connections.abort_all()
            await asyncio.sleep(0)

    def _http_server(self, connections: ClientConnections) -> HttpServer:
        # A watch whose client has left must end: without cancellation it waits for an event.
        return HttpServer(
            self._serve,
            connections,
            request_factory=self._incoming,
            handler_cancellation=True,
            access_log=None,
            logger=log,
            auto_decompress=False,
            max_line_size=serving_limits.MAX_LINE_BYTES,
            max_field_size=serving_limits.MAX_LINE_BYTES,
            max_headers=serving_limits.MAX_HEADERS,
            read_bufsize=serving_limits.READ_BYTES,
            keepalive_timeout=self._limits.idle_seconds,
            lingering_time=LINGERING_SECONDS,
        )

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def _incoming(
        self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any
    ) -> web.BaseRequest:
        loop, limit = asyncio.get_running_loop(), self._limits.body_bytes
        return web.BaseRequest(
            message, payload, protocol, writer, task, loop, client_max_size=limit
        )

    async def _serve(self, incoming: web.BaseRequest) -> web.StreamResponse:
        if self.pages is not None and _is_below(self.pages.root, incoming):
            return await self._page(incoming, self.pages)
        headers = _headers(incoming)
        user = NOBODY
        try:
            user = self._acting(await self._authenticate(incoming), incoming, headers)
            flow = self._flow(incoming, user)
            self._count_connection(incoming, flow)
            await self.dispatcher.enter(flow)
        except errors.Unauthorized as error:
            await self.dispatcher.refuse()
            return self._refused(incoming, user, error)
        except errors.StatusError as error:
            return self._refused(incoming, user, error)
        try:
            response = await self._answered(incoming, headers, user, flow)
            if response.stream is None and response.upgrade is None:
                return await self._sent(incoming, response, flow)
        except errors.StatusError as error:
            return self._refused(incoming, user, error)
        finally:
            self.dispatcher.leave(flow)
        try:
            if response.upgrade is not None:
                return await self._converse(incoming, response.upgrade, flow)
            return await self._stream(incoming, response, flow)
        except errors.StatusError as error:
            return self._refused(incoming, user, error)

    async def _page(self, incoming: web.BaseRequest, pages: Pages) -> web.StreamResponse:
        """Answer a browser. What it then asks of the API is done with the identity of a session."""
        name = pages.user_of(incoming)
        flow = self.dispatcher.flow_of(User(name) if name else ANONYMOUS)
        try:
            self._count_connection(incoming, flow)
            await self.dispatcher.enter(flow)
            self.dispatcher.leave(flow)
        except errors.StatusError as error:
            return self._refused(incoming, NOBODY, error)
        with self._until_closing():
            return await pages.answer(incoming)
        raise AssertionError("the block returns, or the server closes")

    def _flow(self, incoming: web.BaseRequest, user: User) -> Flow:
        is_probe = user.name == ANONYMOUS.name and incoming.rel_url.raw_path in UNLIMITED_PATHS
        return self.dispatcher.flow_of(PROBES if is_probe else user)

    def _count_connection(self, incoming: web.BaseRequest, flow: Flow) -> None:
        protocol = incoming.protocol
        assert isinstance(protocol, HttpProtocol)
        limit = None if flow.is_exempt else flow.limits.connections
        if not self._connections.assign(protocol.connection, flow.name, limit):
            protocol.close()
            raise self.dispatcher.refusal("too many connections, please try again later")

    def _refused(
        self, incoming: web.BaseRequest, user: User, error: errors.StatusError
    ) -> web.Response:
        headers = {name.lower(): value for name, value in incoming.headers.items()}
        request = _request(incoming, headers)
        self._app.note_refusal(request, user, error)
        response = protobuf_responses.converted(application.status_response(error), headers)
        return _plain(_indented(response) if _wants_pretty(request, response) else response)

    async def _answered(
        self, incoming: web.BaseRequest, headers: Mapping[str, str], user: User, flow: Flow
    ) -> Response:
        request = _request(incoming, headers, await self._body(incoming))
        if not flow.is_exempt:
            offloading.charged_to.set(flow.charge)
        return await self.dispatcher.run(flow, self._formatted(request, user))

    async def _formatted(self, request: Request, user: User) -> Response:
        response = await self._app.handle(request, user)
        if not _wants_pretty(request, response):
            return response
        return await offloading.call(len(response.body) > CHUNK_BYTES, _indented, response)

    async def _sent(
        self, incoming: web.BaseRequest, response: Response, flow: Flow
    ) -> web.StreamResponse:
        """Return a small response; send a large one in pieces, as fast as the client reads."""
        size = len(response.body)
        if size <= SMALL_BODY_BYTES or incoming.method == "HEAD":
            return _plain(response)
        body, headers = _framed(response)
        outgoing = web.StreamResponse(status=response.status, headers=headers)
        outgoing.content_length = len(body)
        flow.unsent_bytes += size
        try:
            await outgoing.prepare(incoming)
            unsent = memoryview(body)
            for start in range(0, len(body), CHUNK_BYTES):
                async with asyncio.timeout(self._limits.slow_client_seconds):
                    await outgoing.write(unsent[start : start + CHUNK_BYTES])
        except TimeoutError:
            _hang_up(incoming)
        except ConnectionError:
            # The client has left; aiohttp notices when it ends the response.
            pass
        finally:
            self.dispatcher.sent(flow, size)
        return outgoing

    async def _authenticate(self, incoming: web.BaseRequest) -> User:
        transport = incoming.transport
        certificate = transport.get_extra_info("peercert") if transport else None
        return await self._authenticator.authenticate(
            incoming.headers.get("Authorization", ""), certificate
        )

    def _acting(self, user: User, incoming: web.BaseRequest, headers: Mapping[str, str]) -> User:
        for name in headers:
            if name.startswith(impersonation.PREFIX):
                break
        else:
            return user
        # Some of them may be repeated.
        pairs = ((name.lower(), value) for name, value in incoming.headers.items())
        named = [pair for pair in pairs if pair[0].startswith(impersonation.PREFIX)]
        return impersonation.impersonated_user(user, named, self._app.authorize)

    async def _body(self, incoming: web.BaseRequest) -> bytes:
        if not incoming.can_read_body:
            return b""
        try:
            content = incoming.content
            # Most bodies are small and have arrived with the head.
            small = min(SMALL_BODY_BYTES, self._limits.body_bytes)
            if content.is_eof() and content.total_bytes <= small:
                return content.read_nowait()
            async with asyncio.timeout(self._limits.slow_client_seconds):
                return await incoming.read()
        except web.HTTPRequestEntityTooLarge as error:
            limit = self._limits.body_bytes
            raise errors.request_entity_too_large(f"limit is {limit}") from error
        except TimeoutError as error:
            raise errors.bad_request("the body of the request did not arrive in time") from error
        except web.RequestPayloadError as error:
            raise errors.bad_request(f"the body of the request cannot be read: {error}") from error

    async def _stream(
        self, incoming: web.BaseRequest, response: Response, flow: Flow
    ) -> web.StreamResponse:
        """Send events, or a log that is followed."""
        assert response.stream is not None
        is_watch = response.headers.get("content-type") == http_messages.JSON
        with self._watching(flow) if is_watch else self._in_session(flow):
            outgoing = web.StreamResponse(status=response.status, headers=dict(response.headers))
            outgoing.enable_chunked_encoding()
            with contextlib.suppress(ConnectionError):
                await outgoing.prepare(incoming)
                if not await self._copy(response.stream, outgoing, flow):
                    _hang_up(incoming)
            return outgoing

    async def _converse(
        self, incoming: web.BaseRequest, upgrade: Upgrade, flow: Flow
    ) -> web.StreamResponse:
        """Exchange messages until either side ends or the server closes."""
        if incoming.headers.get("Upgrade", "").lower() == remote_command.SPDY.lower():
            return await self._converse_raw(incoming, upgrade, flow)
        outgoing = web.WebSocketResponse(
            protocols=(upgrade.protocol,), max_msg_size=websockets.MAX_MESSAGE_BYTES
        )
        with self._in_session(flow), self._until_closing():
            await outgoing.prepare(incoming)
            await upgrade.converse(MessageWebSocket(outgoing))
            await outgoing.close()
        return outgoing

    async def _converse_raw(
        self, incoming: web.BaseRequest, upgrade: Upgrade, flow: Flow
    ) -> web.StreamResponse:
        headers = {
            "Connection": "Upgrade",
            "Upgrade": remote_command.SPDY,
            "X-Stream-Protocol-Version": upgrade.protocol.removeprefix(f"{remote_command.SPDY}+"),
        }
        with self._in_session(flow), self._until_closing():
            raw = RawSocket(incoming)
            outgoing = await raw.prepare(headers)
            await upgrade.converse(raw)
        return outgoing

    @contextlib.contextmanager
    def _watching(self, flow: Flow) -> Iterator[None]:
        is_over = not flow.is_exempt and flow.watches >= flow.limits.watches
        if is_over or self._open_watches >= self._limits.watches:
            raise self.dispatcher.refusal("too many open watches, please try again later")
        self._open_watches += 1
        flow.watches += 1
        try:
            yield
        finally:
            flow.watches -= 1
            self._open_watches -= 1

    @contextlib.contextmanager
    def _in_session(self, flow: Flow) -> Iterator[None]:
        if not flow.is_exempt and flow.sessions >= flow.limits.sessions:
            raise self.dispatcher.refusal("too many open sessions, please try again later")
        flow.sessions += 1
        try:
            yield
        finally:
            flow.sessions -= 1

    async def _copy(
        self, stream: AsyncIterator[bytes], outgoing: web.StreamResponse, flow: Flow
    ) -> bool:
        """Write until the stream ends, the client leaves or the server closes.

        Returns False for a client that does not read: it can resume from its last event.
        """
        with self._until_closing():
            async with contextlib.aclosing(stream) as chunks:  # type: ignore[type-var]
                while chunk := await self.dispatcher.run(flow, _next_chunk(chunks)):
                    try:
                        async with asyncio.timeout(self._limits.slow_client_seconds):
                            await outgoing.write(chunk)
                    except TimeoutError:
                        return False
                    except ConnectionError:
                        break
        return True

    @contextlib.contextmanager
    def _until_closing(self) -> Iterator[None]:
        """Let the server end the current task when it closes; the block is then left in order."""
        task = asyncio.current_task()
        assert task is not None
        self._streaming.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if not self._is_closing:
                raise
            # The server closes: the stream ends in order, as after its last event.
            task.uncancel()
        finally:
            self._streaming.discard(task)


async def _next_chunk(chunks: AsyncIterator[bytes]) -> bytes:
    """Return the next chunk, which is empty only at the end."""
    async for chunk in chunks:
        if chunk:
            return chunk
    return b""


def _is_below(root: str, incoming: web.BaseRequest) -> bool:
    path = incoming.rel_url.raw_path
    return path == root or path.startswith(f"{root}/")


def _hang_up(incoming: web.BaseRequest) -> None:
    """Abort the connection: what its client has not read is dropped."""
    if incoming.transport is not None:
        incoming.transport.abort()


def _headers(incoming: web.BaseRequest) -> dict[str, str]:
    """Return the headers by their names in lower case; protocols may be named in several."""
    headers = {name.lower(): value for name, value in incoming.headers.items()}
    if "upgrade" in headers:
        for name in _PROTOCOL_HEADERS & headers.keys():
            headers[name] = ",".join(incoming.headers.getall(name))
    return headers


def _request(incoming: web.BaseRequest, headers: Mapping[str, str], body: bytes = b"") -> Request:
    url = incoming.rel_url
    query = tuple(incoming.query.items()) if url.raw_query_string else ()
    source = incoming.remote or ""
    return Request(incoming.method, url.raw_path, query, headers, body, source)


def _is_about(record: logging.LogRecord, kind: type[BaseException]) -> bool:
    return record.exc_info is not None and isinstance(record.exc_info[1], kind)


def _plain(response: Response) -> web.Response:
    body, headers = _framed(response)
    return web.Response(status=response.status, body=body, headers=headers)


def _framed(response: Response) -> tuple[bytes, dict[str, str]]:
    """Return the body as it is sent, and all headers."""
    body = response.body
    if body and response.headers.get("content-type") == http_messages.JSON:
        body += b"\n"
    return body, {"cache-control": "no-cache, private", **response.headers}


def _wants_pretty(request: Request, response: Response) -> bool:
    """Return whether a response is JSON for a person."""
    parameter = request.parameter("pretty") if request.query else ""
    if parameter:
        is_wanted = parameter not in ("false", "0")
    else:
        is_wanted = request.headers.get("user-agent", "").startswith(PRETTY_AGENTS)
    is_json = response.headers.get("content-type") == http_messages.JSON
    return is_wanted and is_json and bool(response.body)


def _indented(response: Response) -> Response:
    return msgspec.structs.replace(response, body=msgspec.json.format(response.body, indent=2))


def _tls(pair: RenewedPair, client_authority: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=client_authority.decode())
    pair.serve_in(context)
    return context


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
