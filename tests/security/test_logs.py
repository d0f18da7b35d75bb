"""The largest log that a container can write, read by its user: others must go on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest

from dray.node.containers import logs, shim
from dray.node.containers.logs import LogOptions

LINE = b"2026-01-01T00:00:00.000000000Z stdout F \n"
MIN_TURNS = 20
OPTIONS = [LogOptions(), LogOptions(tail_lines=1), LogOptions(timestamps=True, limit_bytes=1)]


@pytest.fixture
def largest(tmp_path: Path) -> Path:
    """A log of empty lines, and the one before it."""
    content = LINE * (shim.MAX_LOG_BYTES // len(LINE))
    (tmp_path / shim.ROTATED).write_bytes(content)
    (tmp_path / shim.OUTPUT).write_bytes(content)
    return tmp_path / shim.OUTPUT


async def turns_during(work: Awaitable[bytes]) -> int:
    """Return how many turns of the event loop others get during some work."""
    reading, turns = asyncio.ensure_future(work), 0
    while not reading.done():
        await asyncio.sleep(0.001)
        turns += 1
    await reading
    return turns


async def beginning(path: Path, options: LogOptions) -> bytes:
    following = logs.follow(path, lambda: True, options)
    found = await anext(following)
    await following.aclose()  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("options", OPTIONS)
def test_others_get_their_turn_while_a_log_is_read(largest: Path, options: LogOptions) -> None:
    assert asyncio.run(turns_during(logs.read_aside(largest, options))) > MIN_TURNS
    assert asyncio.run(turns_during(beginning(largest, options))) > MIN_TURNS


def test_others_get_their_turn_while_a_log_is_followed(largest: Path) -> None:
    async def follow() -> bytes:
        found = []
        async for chunk in logs.follow(largest, lambda: True, LogOptions(tail_lines=0)):
            found.append(chunk)
            with largest.open("ab") as file:
                file.write(LINE * 100_000 if len(found) == 1 else b"")
        return b"".join(found)

    assert asyncio.run(turns_during(follow())) > MIN_TURNS
