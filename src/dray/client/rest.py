"""Requests over HTTPS: TLS from a kubeconfig, credentials, exec plugins, streams."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import re
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp

from dray.api import errors
from dray.api.http_messages import Request, Response
from dray.client import websockets
from dray.client.kubeconfig import ClusterConnection, ExecPlugin, KubeconfigError
from dray.clock import utc_now

TOKEN_FILE_SECONDS = 60.0
USER_AGENT = "dray"
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class RestTransport:
    """One connection pool to one API server. Close it, or use it as a context manager."""

    def __init__(
        self,
        connection: ClusterConnection,
        *,
        connections: int = 64,
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        self._connection = connection
        self._on_warning = on_warning
        self._credentials = Credentials(connection)
        self._limit = connections
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> RestTransport:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def send(self, request: Request) -> Response:
        """Return the response; an endless one streams until its iterator is closed.

        The response to a request with an `upgrade` header has an `Upgrade`.
        """
        session = self._session or await self._open()
        headers = {"User-Agent": USER_AGENT, **request.headers}
        headers.update(await self._credentials.headers())
        if headers.pop("upgrade", ""):
            return await self._converse(session, request, headers)
        try:
            response = await session.request(
                request.method,
                self._connection.server + request.path,
                params=request.query,
                data=request.body or None,
                headers=headers,
                server_hostname=self._connection.tls_server_name or None,
            )
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(error) from error
        received = {name.lower(): value for name, value in response.headers.items()}
        if self._on_warning is not None:
            for value in response.headers.getall("Warning", ()):
                for text in _WARNING.findall(value):
                    self._on_warning(text.replace('\\"', '"').replace("\\\\", "\\"))
        if _is_endless(request) and response.status == 200:
            return Response(response.status, received, stream=_chunks(response))
        async with response:
            return Response(response.status, received, await response.read())

    async def _converse(
        self, session: aiohttp.ClientSession, request: Request, headers: dict[str, str]
    ) -> Response:
        protocols = headers.pop("sec-websocket-protocol").split(",")
        connecting = session.ws_connect(
            self._connection.server + request.path,
            params=request.query,
            headers=headers,
            protocols=protocols,
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

    async def _open(self) -> aiohttp.ClientSession:
        certificate = await self._credentials.client_certificate()
        connector = aiohttp.TCPConnector(
            ssl=tls_context(self._connection, *certificate), limit=self._limit
        )
        self._session = websockets.session(connector, connect_seconds=30, read_bufsize=2**20)
        return self._session


def _is_endless(request: Request) -> bool:
    """Whether a request is a watch or follows a log."""
    return any(request.parameter(name) in ("true", "1") for name in ("watch", "follow"))


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async with response:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise errors.ServiceUnavailable(f"the watch was cut: {error}") from error
        finally:
            _abort(response)


def _abort(response: aiohttp.ClientResponse) -> None:
    """Close the connection of a stream that ends early, without the handshake of TLS."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


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
            basic = aiohttp.BasicAuth(self._connection.username, self._connection.password)
            return {"Authorization": basic.encode()}
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
