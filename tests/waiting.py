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

    async def look() -> Found:
        return check()

    return await until_answered(look, what or str(check), seconds=seconds)


async def until_answered(
    ask: Callable[[], Awaitable[Found]], what: str = "", *, seconds: float = DEADLINE_SECONDS
) -> Found:
    """Wait until a request finds something; what it found."""
    try:
        async with asyncio.timeout(seconds):
            while not (found := await ask()):
                await asyncio.sleep(PAUSE_SECONDS)
            return found
    except TimeoutError:
        raise AssertionError(f"waited {seconds:g} s in vain for {what or ask}") from None


def block_until(
    check: Callable[[], Found], what: str = "", *, seconds: float = DEADLINE_SECONDS
) -> Found:
    """Wait outside of an event loop, for other processes; what was found."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain for {what or check}"
        time.sleep(PAUSE_SECONDS)
    return found
