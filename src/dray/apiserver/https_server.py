"""HTTP and TLS around the application: sockets, limits, certificates, streams, shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import http_exceptions, web

from dray.api import errors, http_messages
from dray.api.http_messages import Request, Response, Upgrade, User
from dray.apiserver import app as application
from dray.apiserver.access import impersonation
from dray.apiserver.access.authentication import Authenticator
from dray.apiserver.access.certificates import KeyPair
from dray.apiserver.access.renewal import RenewedPair
from dray.client import websockets
from dray.client.websockets import MessageWebSocket

log = logging.getLogger(__name__)
# A client that sends no valid HTTP gets an error response; the log is not for it.
log.addFilter(lambda record: not _is_about(record, http_exceptions.HttpProcessingError))

MAX_BODY_BYTES = 3 * 2**20
MAX_LINE_BYTES = 2**16
"""Limit of the request line and of each header: selectors and tokens may be long."""
PRETTY_AGENTS = ("curl/", "Wget/", "Mozilla/")


@dataclass(frozen=True, slots=True)
class ServerLimits:
    body_bytes: int = MAX_BODY_BYTES
    watches: int = 20_000
    slow_client_seconds: float = 60.0
    """The time in which a client must send a body, or read a chunk."""
    shutdown_seconds: float = 10.0


DEFAULT_LIMITS = ServerLimits()


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

    @contextlib.asynccontextmanager
    async def listening(
        self, host: str, port: int, pair: KeyPair | RenewedPair, client_authority: bytes
    ) -> AsyncIterator[str]:
        """Serve until the block is left; yields the address. Open requests finish, watches end.

        A RenewedPair is replaced while it is served.
        """
        # A watch whose client has left must end: without cancellation it waits for an event.
        low_level = web.Server(
            self._serve,
            request_factory=self._incoming,
            handler_cancellation=True,
            access_log=None,
            logger=log,
            auto_decompress=False,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
        )
        runner = web.ServerRunner(low_level, shutdown_timeout=self._limits.shutdown_seconds)
        await runner.setup()
        self._is_closing = False
        renewed = pair if isinstance(pair, RenewedPair) else RenewedPair(lambda: pair)
        renewing = asyncio.create_task(renewed.run())
        try:
            site = web.TCPSite(runner, host, port, ssl_context=_tls(renewed, client_authority))
            await site.start()
            bound = runner.addresses[0]
            yield f"https://{_host(str(bound[0]))}:{bound[1]}"
        finally:
            self._is_closing = True
            renewing.cancel()
            for task in tuple(self._streaming):
                task.cancel()
            transports = [
                connection.transport for connection in low_level.connections if connection.transport
            ]
            await runner.cleanup()
            await _hang_up(transports)

    def _incoming(
        self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any
    ) -> web.BaseRequest:
        loop, limit = asyncio.get_running_loop(), self._limits.body_bytes
        return web.BaseRequest(
            message, payload, protocol, writer, task, loop, client_max_size=limit
        )

    async def _serve(self, incoming: web.BaseRequest) -> web.StreamResponse:
        try:
            user = self._acting(await self._authenticate(incoming), incoming)
            request = _request(incoming, await self._body(incoming))
        except errors.StatusError as error:
            self._app.note_refusal(_request(incoming), error)
            return _plain(application.status_response(error), _wants_pretty(incoming.headers))
        response = await self._app.handle(request, user)
        if response.upgrade is not None:
            return await self._converse(incoming, response.upgrade)
        if response.stream is not None:
            return await self._stream(incoming, response)
        return _plain(response, _wants_pretty(incoming.headers, request.parameter("pretty")))

    async def _authenticate(self, incoming: web.BaseRequest) -> User:
        transport = incoming.transport
        certificate = transport.get_extra_info("peercert") if transport else None
        return await self._authenticator.authenticate(
            incoming.headers.get("Authorization", ""), certificate
        )

    def _acting(self, user: User, incoming: web.BaseRequest) -> User:
        headers = [
            (name.lower(), value)
            for name, value in incoming.headers.items()
            if name.lower().startswith(impersonation.PREFIX)
        ]
        if not headers:
            return user
        return impersonation.impersonated_user(user, headers, self._app.authorize)

    async def _body(self, incoming: web.BaseRequest) -> bytes:
        if not incoming.can_read_body:
            return b""
        try:
            async with asyncio.timeout(self._limits.slow_client_seconds):
                return await incoming.read()
        except web.HTTPRequestEntityTooLarge as error:
            limit = self._limits.body_bytes
            raise errors.request_entity_too_large(f"limit is {limit}") from error
        except TimeoutError as error:
            raise errors.bad_request("the body of the request did not arrive in time") from error
        except web.RequestPayloadError as error:
            raise errors.bad_request(f"the body of the request cannot be read: {error}") from error

    async def _stream(self, incoming: web.BaseRequest, response: Response) -> web.StreamResponse:
        assert response.stream is not None
        if self._open_watches >= self._limits.watches:
            error = errors.too_many_requests("too many open watches, please try again later", 1)
            return _plain(application.status_response(error), False)
        outgoing = web.StreamResponse(status=response.status, headers=dict(response.headers))
        outgoing.enable_chunked_encoding()
        self._open_watches += 1
        try:
            await outgoing.prepare(incoming)
            await self._copy(response.stream, outgoing)
        finally:
            self._open_watches -= 1
        return outgoing

    async def _converse(self, incoming: web.BaseRequest, upgrade: Upgrade) -> web.StreamResponse:
        """Exchange messages until either side ends or the server closes."""
        outgoing = web.WebSocketResponse(
            protocols=(upgrade.protocol,), max_msg_size=websockets.MAX_MESSAGE_BYTES
        )
        with self._until_closing():
            await outgoing.prepare(incoming)
            await upgrade.converse(MessageWebSocket(outgoing))
            await outgoing.close()
        return outgoing

    async def _copy(self, stream: AsyncIterator[bytes], outgoing: web.StreamResponse) -> None:
        """Write until the stream ends, the client leaves or the server closes."""
        with self._until_closing():
            try:
                async with contextlib.aclosing(stream) as chunks:  # type: ignore[type-var]
                    async for chunk in chunks:
                        async with asyncio.timeout(self._limits.slow_client_seconds):
                            await outgoing.write(chunk)
            except TimeoutError:
                # A client that does not read is disconnected, and can resume from its last event.
                outgoing.force_close()

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


async def _hang_up(transports: Iterable[asyncio.Transport]) -> None:
    """Abort connections whose clients do not complete the closing handshake of TLS."""
    for transport in transports:
        # Python 3.11.2, which Debian 12 has, fails on a closed connection; later ones do not.
        with contextlib.suppress(AttributeError):
            transport.abort()
    await asyncio.sleep(0)


def _request(incoming: web.BaseRequest, body: bytes = b"") -> Request:
    headers = {name.lower(): value for name, value in incoming.headers.items()}
    query = tuple(incoming.query.items())
    source = incoming.remote or ""
    return Request(incoming.method, incoming.rel_url.raw_path, query, headers, body, source)


def _is_about(record: logging.LogRecord, kind: type[BaseException]) -> bool:
    return record.exc_info is not None and isinstance(record.exc_info[1], kind)


def _plain(response: Response, pretty: bool) -> web.Response:
    body = response.body
    if body and response.headers.get("content-type") == http_messages.JSON:
        body = (msgspec.json.format(body, indent=2) if pretty else body) + b"\n"
    headers = {"cache-control": "no-cache, private", **response.headers}
    return web.Response(status=response.status, body=body, headers=headers)


def _wants_pretty(headers: Mapping[str, str], parameter: str = "") -> bool:
    if parameter:
        return parameter not in ("false", "0")
    return headers.get("User-Agent", "").startswith(PRETTY_AGENTS)


def _tls(pair: RenewedPair, client_authority: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=client_authority.decode())
    pair.serve_in(context)
    return context


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
