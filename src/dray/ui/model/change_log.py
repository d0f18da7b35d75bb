"""The stream of one model: a number for each change, and the last ones as they are sent.

Each change is encoded once, whoever reads it. Readers have no buffers of their own: who is further
behind than the log gets a new snapshot.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

KEPT_CHANGES = 2000
KEPT_BYTES = 8 * 2**20


class StreamPosition(NamedTuple):
    """A place in the stream of one model; as text it is the id of an event."""

    log: str
    number: int

    def __str__(self) -> str:
        return f"{self.log}-{self.number}"


def position_of(text: str) -> StreamPosition | None:
    """Return the position that the id of an event names; None for any other text."""
    log, _, number = text.partition("-")
    if not log or not number.isascii() or not number.isdecimal() or len(number) > 15:
        return None
    return StreamPosition(log, int(number))


class SentChanges:
    """The changes of a model; `snapshot` encodes its whole state."""

    def __init__(self, snapshot: Callable[[], bytes]) -> None:
        self.name = secrets.token_hex(4)
        self._snapshot = snapshot
        self._encoded: bytes | None = None
        self._kept: deque[bytes] = deque()
        self._bytes = 0
        self.number = 0
        """The number of the last change."""
        self.is_closed = False
        self._changed = asyncio.Event()

    def add(self, change: bytes) -> None:
        """Append an encoded change; the caller has counted `number` up before it encoded."""
        self._kept.append(change)
        self._bytes += len(change)
        while len(self._kept) > KEPT_CHANGES or self._bytes > KEPT_BYTES:
            self._bytes -= len(self._kept.popleft())
        self._encoded = None
        self.wake()

    def next_number(self) -> int:
        """Count up, and return the number of the change that is about to be added."""
        self.number += 1
        return self.number

    def close(self) -> None:
        """End all streams of this log."""
        self.is_closed = True
        self.wake()

    def snapshot(self) -> tuple[StreamPosition, bytes]:
        """Return the whole state; it is encoded once until something changes."""
        if self._encoded is None:
            self._encoded = self._snapshot()
        return StreamPosition(self.name, self.number), self._encoded

    def since(self, position: StreamPosition) -> list[bytes] | None:
        """Return the changes after a position; None if they are not kept any more."""
        behind = self.number - position.number
        if position.log != self.name or behind < 0 or behind > len(self._kept):
            return None
        return [self._kept[index] for index in range(len(self._kept) - behind, len(self._kept))]

    async def wait(self, position: StreamPosition) -> None:
        """Wait until there is something after a position, or all readers have to look again."""
        if self.number <= position.number and not self.is_closed:
            await self._changed.wait()

    def wake(self) -> None:
        """Let all readers look again."""
        self._changed.set()
        self._changed = asyncio.Event()
