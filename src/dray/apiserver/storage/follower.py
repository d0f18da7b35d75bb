"""Keeps a cache in sync with the store: all entries under a prefix, then every change.

`load` lists, `run` watches. Readers of the cache never wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Protocol

import msgspec

from dray.store import store
from dray.store.store import Entry, Store

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5


class FollowedCache(Protocol):
    """A cache that receives every entry, in order."""

    def put(self, entry: Entry) -> None:
        """Add or replace an entry; `msgspec.ValidationError` leaves it out."""

    def remove(self, key: str) -> None:
        """Remove a key, which may be absent."""


class StoreFollower:
    """Keeps one cache in sync with one prefix."""

    def __init__(self, store: Store, prefix: str, copy: FollowedCache) -> None:
        self._store = store
        self._prefix = prefix
        self._copy = copy
        self._keys: set[str] = set()
        self._revision: int | None = None
        self._moved = asyncio.Event()

    def has_reached(self, revision: int) -> bool:
        """Return whether the cache has every change up to a revision."""
        return self._revision is not None and self._revision >= revision

    async def reach(self, revision: int) -> None:
        """Wait until the cache has every change up to a revision that changed the prefix."""
        while not self.has_reached(revision):
            self._moved.clear()
            await self._moved.wait()

    async def load(self) -> None:
        page = await self._store.list(self._prefix)
        for key in self._keys - {entry.key for entry in page.entries}:
            self._remove(key)
        for entry in page.entries:
            self._put(entry)
        self._revision = page.revision
        self._moved.set()

    async def run(self) -> None:
        """Watch until the store is closed."""
        with contextlib.suppress(store.Closed):
            while True:
                try:
                    await self._follow()
                except (store.RevisionExpired, store.SlowWatcher):
                    self._revision = None
                except store.Unavailable as error:
                    log.warning("cannot follow %s: %s", self._prefix, error)
                    await asyncio.sleep(RETRY_SECONDS)

    async def _follow(self) -> None:
        if self._revision is None:
            await self.load()
        assert self._revision is not None
        with await self._store.watch(self._prefix, self._revision) as watch:
            while events := await watch.read():
                for event in events:
                    if event.current is None:
                        self._remove(event.key)
                    else:
                        self._put(event.current)
                self._revision = watch.revision
                self._moved.set()

    def _put(self, entry: Entry) -> None:
        self._keys.add(entry.key)
        try:
            self._copy.put(entry)
        except msgspec.ValidationError as error:
            log.error("%s cannot be read: %s", entry.key, error)
            self._copy.remove(entry.key)

    def _remove(self, key: str) -> None:
        self._keys.discard(key)
        self._copy.remove(key)
