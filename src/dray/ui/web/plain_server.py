"""Serves a dashboard over plain HTTP on this machine, with the limits of all dray servers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any, Final

from aiohttp import http_exceptions, web

from dray import gc_tuning
from dray.connections import listener
from dray.connections.http_protocol import HttpProtocol, HttpServer
from dray.connections.limits import ConnectionLimits
from dray.ui.web import answers
from dray.ui.web.dashboard import ROOT, Dashboard
from dray.ui.web.request_checks import DashboardSite

log = logging.getLogger(__name__)
# A client that sends no valid HTTP gets an error response; the log is not for it.
log.addFilter(
    lambda record: (
        not (
            record.exc_info and isinstance(record.exc_info[1], http_exceptions.HttpProcessingError)
        )
    )
)

LIMITS: Final = ConnectionLimits(new_connections=128, connections=2048)
CONNECTIONS_OF_STRANGERS: Final = 128
MAX_LINE_BYTES: Final = 2**16
"""The longest selector, of which each character may be written as %XX, is a part of a line."""
MAX_FIELD_BYTES: Final = 2**13
MAX_HEADERS: Final = 64
SHUTDOWN_SECONDS: Final = 1.0
STRANGER: Final = ""


@contextlib.asynccontextmanager
async def serving(dashboard: Dashboard, host: str, port: int) -> AsyncIterator[str]:
    """Serve until the block is left; yields the URL. Raises OSError where it cannot listen."""
    connections = listener.new_connections(LIMITS)
    site = DashboardSite(is_secure=False, names=frozenset({host, "localhost"}))

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        protocol = request.protocol
        assert isinstance(protocol, HttpProtocol)
        user = dashboard.user_of(request)
        limit = None if user else CONNECTIONS_OF_STRANGERS
        if not connections.assign(protocol.connection, user or STRANGER, limit):
            protocol.close()
            return answers.json_answer({"message": "too many connections"}, 429)
        path = request.rel_url.raw_path
        if path != ROOT and not path.startswith(f"{ROOT}/"):
            headers = {**answers.EVERY_ANSWER, "location": f"{ROOT}/"}
            return web.Response(status=308 if path == "/" else 404, headers=headers)
        return await dashboard.answer(request, site)

    server = HttpServer(
        answer,
        connections,
        request_factory=_request,
        handler_cancellation=True,
        access_log=None,
        logger=log,
        max_line_size=MAX_LINE_BYTES,
        max_field_size=MAX_FIELD_BYTES,
        max_headers=MAX_HEADERS,
        keepalive_timeout=LIMITS.idle_seconds,
        lingering_time=0.0,
    )
    runner = web.ServerRunner(server, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        accepting = listener.listening(host, port, None, server.protocol, connections, LIMITS)
        # A collection of all objects of a large fleet takes longer than a change may take.
        with gc_tuning.rare_collections():
            async with accepting as (bound, bound_port):
                written = f"[{bound}]" if ":" in bound else bound
                yield f"http://{written}:{bound_port}"
    finally:
        dashboard.end_streams()
        await runner.cleanup()
        connections.abort_all()
        await asyncio.sleep(0)


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(
        message,
        payload,
        protocol,
        writer,
        task,
        loop,
        client_max_size=answers.MAX_BODY_BYTES,
    )
