"""Waiting for a condition, never for a time: it ends when the condition holds or fails by name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

DEADLINE_SECONDS: Final = 30.0
"""Generous: only a test that fails waits so long."""
PAUSE_SECONDS: Final = 0.005

Found = TypeVar("Found")


async def until(
    check: Callable[[], Found], what: str = "", *, seconds: float = DEADLINE_SECONDS
) -> Found:
    """Wait until a look finds something; what it found."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain for {what or check}"
        await asyncio.sleep(PAUSE_SECONDS)
    return found


async def until_async(
    check: Callable[[], Awaitable[Found]], what: str = "", *, seconds: float = DEADLINE_SECONDS
) -> Found:
    """The same where looking takes a request."""
    deadline = time.monotonic() + seconds
    while not (found := await check()):
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain for {what or check}"
        await asyncio.sleep(PAUSE_SECONDS)
    return found


def until_now(
    check: Callable[[], Found], what: str = "", *, seconds: float = DEADLINE_SECONDS
) -> Found:
    """The same outside of an event loop, for other processes."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain for {what or check}"
        time.sleep(PAUSE_SECONDS)
    return found
