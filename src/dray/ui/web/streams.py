"""The stream of changes to one browser, as server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from aiohttp import web

from dray.api.formats import gotime
from dray.clock import utc_now
from dray.ui.model import change_log
from dray.ui.model.change_log import StreamPosition
from dray.ui.web.answers import API_ANSWER
from dray.ui.web.sessions import BrowserSession

HEARTBEAT_SECONDS: Final = 15.0
SLOW_SECONDS: Final = 30.0
"""The time in which a browser has to read a part of what it is sent."""
CHUNK_BYTES: Final = 2**16
RETRY_MILLISECONDS: Final = 1000


class StreamEnds(Exception):
    """The browser has to come back: it is too slow, or the session is over."""


async def send(request: web.BaseRequest, session: BrowserSession) -> web.StreamResponse:
    """Send a snapshot and then changes, until the session is over or the browser leaves."""
    headers = {**API_ANSWER, "content-type": "text/event-stream", "x-accel-buffering": "no"}
    outgoing = web.StreamResponse(headers=headers)
    position = change_log.position_of(request.headers.get("last-event-id", ""))
    with contextlib.suppress(ConnectionError):
        await outgoing.prepare(request)
        try:
            await _write(outgoing, b"retry: %d\n\n" % RETRY_MILLISECONDS)
            while _is_open(session):
                position = await _next(outgoing, session, position)
        except StreamEnds:
            # What the browser has not read is dropped.
            if request.transport is not None:
                request.transport.abort()
    return outgoing


def _is_open(session: BrowserSession) -> bool:
    now = asyncio.get_running_loop().time()
    member = session.member
    is_over = session.is_over or member.is_ended or now >= session.ends
    return not (is_over or member.model.log.is_closed)


async def _next(
    outgoing: web.StreamResponse, session: BrowserSession, position: StreamPosition | None
) -> StreamPosition | None:
    """Send what comes after a position, or show after a while that the server is still there."""
    model = session.member.model
    log = model.log
    try:
        async with asyncio.timeout(HEARTBEAT_SECONDS):
            await model.synced.wait()
            if position == StreamPosition(log.name, log.number):
                await log.wait(position)
    except TimeoutError:
        # An event and no comment: browsers do not show comments to the page.
        await _write(outgoing, b"event: alive\ndata: %s\n\n" % gotime.write(utc_now()).encode())
        return position
    if not _is_open(session) or session.member.model is not model:
        return None
    changes = log.since(position) if position is not None else None
    if changes is None or position is None:
        if position is not None and position.log == log.name and position.number < log.number:
            raise StreamEnds
        reached, snapshot = log.snapshot()
        await _write(outgoing, _event("snapshot", reached, snapshot))
        return reached
    if changes:
        reached = StreamPosition(log.name, position.number + len(changes))
        first = position.number + 1
        events = [
            _event("change", StreamPosition(log.name, number), change)
            for number, change in enumerate(changes, first)
        ]
        await _write(outgoing, b"".join(events))
        return reached
    return position


def _event(name: str, position: StreamPosition, data: bytes) -> bytes:
    # JSON as msgspec writes it has no line breaks.
    return b"event: %s\nid: %s\ndata: %s\n\n" % (name.encode(), str(position).encode(), data)


async def _write(outgoing: web.StreamResponse, data: bytes) -> None:
    """Send as fast as the browser reads. Raises StreamEnds if that is too slow."""
    unsent = memoryview(data)
    try:
        for start in range(0, len(data), CHUNK_BYTES):
            async with asyncio.timeout(SLOW_SECONDS):
                await outgoing.write(bytes(unsent[start : start + CHUNK_BYTES]))
    except TimeoutError as error:
        raise StreamEnds from error
