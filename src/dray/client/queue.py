"""Keyed work: each key waits once, is worked on by one worker at a time, and backs off on failure.

The shape is client-go's work queue. A key that is added while it is being worked on is handed out
again after `done`, so that no change is missed and no key has two workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

FIRST_BACKOFF_SECONDS = 0.005
MAX_BACKOFF_SECONDS = 300.0


class WorkQueue(Generic[Key]):
    """A queue of distinct keys with delays and back-off, for one event loop."""

    def __init__(
        self,
        *,
        first_backoff_seconds: float = FIRST_BACKOFF_SECONDS,
        max_backoff_seconds: float = MAX_BACKOFF_SECONDS,
    ) -> None:
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._waiting: set[Key] = set()
        self._working: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._first_backoff_seconds = first_backoff_seconds
        self._max_backoff_seconds = max_backoff_seconds

    def __len__(self) -> int:
        return self._ready.qsize()

    @property
    def is_idle(self) -> bool:
        """Whether no key is ready, delayed or being worked on."""
        return not (self._waiting or self._working or self._timers)

    def add(self, key: Key) -> None:
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._working:
            self._ready.put_nowait(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Add `key` later; an earlier time that is already set stays."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._expire, key)

    def retry(self, key: Key) -> None:
        """Add `key` after its back-off, which doubles with each failure until `forget`."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = self._first_backoff_seconds * 2 ** min(failures, 32)
        self.add_after(key, min(delay, self._max_backoff_seconds))

    def forget(self, key: Key) -> None:
        self._failures.pop(key, None)

    def failures(self, key: Key) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> Key:
        """Wait for the next key; the caller must call `done(key)` afterwards."""
        key = await self._ready.get()
        self._waiting.discard(key)
        self._working.add(key)
        return key

    def done(self, key: Key) -> None:
        self._working.discard(key)
        if key in self._waiting:
            self._ready.put_nowait(key)

    def close(self) -> None:
        """Drop delayed keys, so that no timer outlives the owner."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _expire(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key)
