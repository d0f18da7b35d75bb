"""Serves metrics for Prometheus and health checks for probes over HTTP or HTTPS."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path

from aiohttp import web

from dray.telemetry import Counter, Gauge, Labels, Registry

CONTENT_TYPE = "text/plain; version=0.0.4"
EVERY_ADDRESS = ""
MAX_CONNECTIONS = 64
IDLE_SECONDS = 30.0
"""The time for a request's head, and between requests; Prometheus asks more often."""
COMPRESSED_BYTES = 1 << 16
"""Longer metrics are compressed for readers that accept it."""


class _BoundedServer(web.Server):
    """Has a limited number of connections: a new one takes the place of the oldest."""

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if len(self.connections) > MAX_CONNECTIONS:
            oldest = self.connections[0].transport
            if oldest is not None:
                oldest.abort()


async def everybody(_: str) -> bool:
    """Allow any reader."""
    return True


@contextlib.asynccontextmanager
async def serving(
    registry: Registry,
    host: str,
    port: int,
    is_ready: Callable[[], bool],
    *,
    tls: ssl.SSLContext | None = None,
    allows: Callable[[str], Awaitable[bool]] = everybody,
) -> AsyncIterator[int]:
    """Serve `/metrics`, `/livez`, `/healthz` and `/readyz`; yield the port (0 chooses a free one).

    `allows` decides by the Authorization header who may read the metrics; probes need none.
    Raises OSError where it cannot listen.
    """

    async def answer(request: web.BaseRequest) -> web.Response:
        match request.path:
            case "/metrics":
                if not await allows(request.headers.get("authorization", "")):
                    return web.Response(status=401, headers={"www-authenticate": "Basic"})
                return await _metrics(registry, request)
            case "/livez" | "/healthz":
                return web.Response(text="ok")
            case "/readyz":
                return _readiness(is_ready())
        return web.Response(status=404)

    server = _BoundedServer(
        answer, access_log=None, keepalive_timeout=IDLE_SECONDS, lingering_time=0.0
    )
    runner = web.ServerRunner(server)
    await runner.setup()
    try:
        listener = _listener(host, port)
        await web.SockSite(runner, listener, ssl_context=tls).start()
        yield int(listener.getsockname()[1])
    finally:
        await runner.cleanup()


async def _metrics(registry: Registry, request: web.BaseRequest) -> web.Response:
    body = (await registry.collected()).encode()
    headers = {"content-type": CONTENT_TYPE}
    if len(body) > COMPRESSED_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        body = await asyncio.to_thread(gzip.compress, body, compresslevel=1)
    return web.Response(body=body, headers=headers)


def register_process(registry: Registry) -> None:
    """Register the process metrics of Prometheus' own client libraries."""
    started = time.time()
    registry.register(
        Counter(
            "process_cpu_seconds_total",
            "CPU time of this process.",
            ask=lambda: [((), time.process_time())],
        ),
        Gauge(
            "process_resident_memory_bytes", "Resident memory of this process.", ask=_resident_bytes
        ),
        Gauge(
            "process_start_time_seconds",
            "When this process started, since 1970.",
            ask=lambda: [((), started)],
        ),
    )


def _readiness(is_ready: bool) -> web.Response:
    return web.Response(text="ok") if is_ready else web.Response(status=503, text="not ready")


def _listener(host: str, port: int) -> socket.socket:
    """Return a listening socket; `EVERY_ADDRESS` is dual-stack where the host has IPv6."""
    if host == EVERY_ADDRESS and socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def _resident_bytes() -> Iterable[tuple[Labels, float]]:
    """Return the memory in use; nothing where the system is not Linux."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:
        return []
    return [((), pages * os.sysconf("SC_PAGE_SIZE"))]
