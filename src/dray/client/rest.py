"""Requests over HTTPS: TLS from a kubeconfig, credentials, exec plugins, streams."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import json
import os
import re
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dray.api import errors
from dray.api.http_messages import Request, Response
from dray.client.http_pool import (
    CONNECT_SECONDS,
    ConnectionPool,
    HttpError,
    HttpResponse,
    ServerAddress,
)
from dray.client.kubeconfig import ClusterConnection, ExecPlugin, KubeconfigError
from dray.clock import utc_now

if TYPE_CHECKING:
    import aiohttp

TOKEN_FILE_SECONDS = 60.0
USER_AGENT = "dray"
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class RestTransport:
    """The connections to one API server. Close it, or use it as a context manager.

    `patience`: see `ConnectionPool`.
    """

    def __init__(
        self,
        connection: ClusterConnection,
        *,
        connections: int = 64,
        patience: float = 0.0,
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        self._connection = connection
        self._on_warning = on_warning
        self._credentials = Credentials(connection)
        self._limit = connections
        self._patience = patience
        self._pool: ConnectionPool | None = None
        self._sockets: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> RestTransport:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()
            self._pool = None
        if self._sockets is not None:
            await self._sockets.close()
            self._sockets = None

    async def send(self, request: Request) -> Response:
        """Return the response; an endless one streams until its iterator is closed.

        The response to a request with an `upgrade` header has an `Upgrade`.
        """
        headers = {"User-Agent": USER_AGENT, **request.headers}
        headers.update(await self._credentials.headers())
        if headers.pop("upgrade", ""):
            return await self._converse(request, headers)
        is_endless = _is_endless(request)
        if not is_endless:
            headers["Accept-Encoding"] = "gzip"
        pool = self._pool or await self._open()
        try:
            response = await pool.request(
                request.method, request.path, request.query, headers, request.body
            )
            self._warn(response)
            if is_endless and response.status == 200:
                return Response(response.status, response.headers, stream=_chunks(response))
            return Response(response.status, response.headers, await response.read())
        except HttpError as error:
            raise self._unreachable(error) from error

    def _warn(self, response: HttpResponse) -> None:
        if self._on_warning is not None:
            for value in response.warnings:
                for text in _WARNING.findall(value):
                    self._on_warning(text.replace('\\"', '"').replace("\\\\", "\\"))

    async def _converse(self, request: Request, headers: dict[str, str]) -> Response:
        # Imported here: few commands need WebSockets, and aiohttp is large.
        import aiohttp

        from dray.client import websockets

        if self._sockets is None:
            connector = aiohttp.TCPConnector(ssl=await self._tls(), limit=0)
            self._sockets = websockets.session(connector, connect_seconds=CONNECT_SECONDS)
        connecting = self._sockets.ws_connect(
            self._connection.server + request.path,
            params=request.query,
            headers=headers,
            protocols=headers.pop("sec-websocket-protocol").split(","),
            server_hostname=self._connection.tls_server_name or None,
            max_msg_size=websockets.MAX_MESSAGE_BYTES,
        )
        try:
            return Response(101, upgrade=await websockets.upgraded(connecting))
        except websockets.UpgradeRefused as refusal:
            return Response(refusal.status, {}, refusal.body)
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> errors.ServiceUnavailable:
        return errors.ServiceUnavailable(f"cannot reach {self._connection.server}: {error}")

    async def _open(self) -> ConnectionPool:
        tls = await self._tls() if self._connection.server.startswith("https:") else None
        # Another request may have opened it while this one waited for a credential plugin.
        if self._pool is None:
            address = ServerAddress(self._connection.server, tls, self._connection.tls_server_name)
            self._pool = ConnectionPool(address, limit=self._limit, patience=self._patience)
        return self._pool

    async def _tls(self) -> ssl.SSLContext:
        return tls_context(self._connection, *await self._credentials.client_certificate())


def _is_endless(request: Request) -> bool:
    """Whether a request is a watch or follows a log."""
    return any(request.parameter(name) in ("true", "1") for name in ("watch", "follow"))


async def _chunks(response: HttpResponse) -> AsyncIterator[bytes]:
    try:
        # Closed at once if the caller ends early, and with it the connection.
        async with contextlib.aclosing(response.chunks()) as chunks:
            async for chunk in chunks:
                yield chunk
    except HttpError as error:
        raise errors.ServiceUnavailable(f"the watch was interrupted: {error}") from error


class Credentials:
    """A token, a password, or the output of an exec plugin until it expires."""

    def __init__(self, connection: ClusterConnection) -> None:
        self._connection = connection
        self._token = connection.token
        self._certificate = (connection.client_certificate, connection.client_key)
        self._expires_at = 0.0
        self._lock = asyncio.Lock()

    async def headers(self) -> dict[str, str]:
        await self._refresh()
        if self._token:
            return {"Authorization": f"Bearer {self._token}"}
        if self._connection.username:
            pair = f"{self._connection.username}:{self._connection.password}"
            return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        return {}

    async def client_certificate(self) -> tuple[bytes, bytes]:
        await self._refresh()
        return self._certificate

    async def _refresh(self) -> None:
        plugin, token_file = self._connection.exec_plugin, self._connection.token_file
        if not plugin and not token_file:
            return
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if now < self._expires_at:
                return
            if plugin:
                self._expires_at = now + await self._run(plugin)
            else:
                self._token = Path(token_file).read_text("utf-8").strip()
                self._expires_at = now + TOKEN_FILE_SECONDS

    async def _run(self, plugin: ExecPlugin) -> float:
        """Run the plugin, and return the number of seconds for which its output is valid."""
        status = await _exec_status(plugin, self._connection)
        self._token = status.get("token", "")
        if certificate := status.get("clientCertificateData"):
            self._certificate = (certificate.encode(), status.get("clientKeyData", "").encode())
        expiry = status.get("expirationTimestamp")
        if not expiry:
            return float("inf")
        left = datetime.datetime.fromisoformat(expiry) - utc_now()
        return max(left.total_seconds() - 10, 1.0)


async def _exec_status(plugin: ExecPlugin, connection: ClusterConnection) -> dict[str, Any]:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.provide_cluster_info:
        spec["cluster"] = {"server": connection.server}
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    what = f"the credential plugin {plugin.command!r}"
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command, *plugin.arguments, env=environment, stdout=asyncio.subprocess.PIPE
        )
    except OSError as error:
        raise KubeconfigError(f"{what} cannot be started: {error.strerror}") from error
    output, _ = await process.communicate()
    if process.returncode:
        raise KubeconfigError(f"{what} failed with exit code {process.returncode}")
    status = json.loads(output).get("status")
    if not isinstance(status, dict):
        raise KubeconfigError(f"{what} printed no status")
    return status


def tls_context(
    connection: ClusterConnection, client_certificate: bytes, client_key: bytes
) -> ssl.SSLContext:
    # Without an authority, OpenSSL loads all that the machine trusts, which takes long.
    context = ssl.create_default_context(cadata=connection.certificate_authority.decode() or None)
    if connection.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if client_certificate:
        load_pair(context, client_certificate, client_key)
    return context


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a key pair through a temporary file, because OpenSSL reads only files."""
    descriptor, path = tempfile.mkstemp(prefix="dray-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(certificate + b"\n" + key)
        context.load_cert_chain(path)
    finally:
        os.unlink(path)
