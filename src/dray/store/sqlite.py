"""The embedded store: the state in memory, and a SQLite file as its durable log.

Reads never touch the disk, except into the past beyond the window of recent events. Blocking work
has two threads: one writes, one reads the past.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sqlite3
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from dray.store import (
    backup,
    committed_state,
    group_commit,
    sqlite_file,
    sqlite_history,
    store,
    watch,
)
from dray.store.watch import Stretch

Answer = TypeVar("Answer")


class SqliteStore(committed_state.StateStore):
    """One file's store. Only `open` makes one."""

    def __init__(
        self,
        file: sqlite_file.Database,
        loaded: sqlite_file.Loaded,
        past: sqlite_history.History,
        writer: Executor,
        reader: Executor,
        limits: watch.WatchLimits,
    ) -> None:
        self._file, self._past, self._reader = file, past, reader
        super().__init__(loaded.image)
        self._compacted = loaded.compacted
        self._fanout = watch.Fanout(loaded.image.revision, limits)
        self._writer = group_commit.GroupCommit(file, self._state, self._fanout, writer)

    @property
    def _oldest(self) -> int:
        return self._compacted

    async def list(
        self, prefix: str, *, limit: int = 0, after_key: str = "", revision: int | None = None
    ) -> store.Page:
        span = store.Span.under(prefix, after_key)
        if revision is None:
            return self._state.page(span, limit)
        before = await self._before(span, revision)
        return self._state.page_at(span, limit, revision, before)

    async def _before(self, span: store.Span, revision: int) -> committed_state.Before:
        """Return the entries at a revision of those keys of a span that changed since."""
        self._check_reachable(revision)
        before: committed_state.Before = {}
        reached = revision
        while reached < self._fanout.window.start:
            until = self._state.revision
            before = await self._read(self._past.before, reached, until, span) | before
            self._check_reachable(revision)
            reached = until
        return committed_state.undo(self._fanout.window.after(reached), span) | before

    async def commit(self, transaction: store.Transaction) -> int:
        return await self._writer.commit(transaction)

    async def watch(self, prefix: str, after_revision: int) -> store.Watch:
        self._check_reachable(after_revision)
        events = functools.partial(self._past_events, store.Span.under(prefix))
        return self._fanout.subscribe(prefix, after_revision, events)

    async def _past_events(self, span: store.Span, after: int, until: int) -> Stretch:
        stretch = await self._read(self._past.events, after, until, span)
        self._check_reachable(after)
        return stretch

    async def compact(self, revision: int) -> None:
        self._check_reached(revision)
        if revision <= self._compacted:
            return
        await self._writer.run(self._file.compact, revision)
        self._compacted = max(self._compacted, revision)
        self._fanout.window.forget(revision)
        while await self._writer.run(self._file.sweep):
            pass

    def health(self) -> store.StoreHealth:
        return self._writer.health()

    async def backup(self, target: Path) -> None:
        """Write a complete copy of the current state to a file; reads and writes go on."""
        await self._read(backup.write, self._past.copy, target)

    async def _read(self, function: Callable[..., Answer], *arguments: object) -> Answer:
        self._check_open()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._reader, function, *arguments)
        except sqlite3.Error as error:
            raise store.Unavailable(f"reading failed: {error}") from error

    async def close(self) -> None:
        """Finish the queued writes, and end the watches."""
        await self._writer.close()
        self._closed = True
        self._fanout.end(store.Closed())


@contextlib.asynccontextmanager
async def open(
    path: Path,
    *,
    connect: sqlite_file.Connect = sqlite_file.connect,
    limits: watch.WatchLimits = watch.DEFAULT_LIMITS,
) -> AsyncIterator[SqliteStore]:
    """Open the store in a file, or create it; it is closed at the end of the block."""
    run = asyncio.get_running_loop().run_in_executor
    with (
        ThreadPoolExecutor(1, "store-writer") as writer,
        ThreadPoolExecutor(1, "store-reader") as reader,
    ):
        file = await run(writer, sqlite_file.Database, path, connect)
        past = sqlite_history.History(path, connect)
        try:
            # Without a name for the loaded state: it would keep every replaced value alive.
            opened = SqliteStore(file, await run(writer, file.load), past, writer, reader, limits)
            try:
                yield opened
            finally:
                await opened.close()
        finally:
            await run(reader, past.close)
            await run(writer, file.close)
