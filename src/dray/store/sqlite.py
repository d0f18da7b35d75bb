"""The embedded store: state in memory, a SQLite file as its durable log, commits in groups.

Transactions that wait while one group is being synced form the next group: one SQLite transaction,
one sync. Each is judged in order against those before it, and a refused one does not disturb the
others. State, watchers and callers learn of a group only after it is durable, so nothing that was
read or watched can be lost. Reads never touch the disk, except into the past beyond the window.

When the disk is full, writes are refused with the reason, reads go on, and writes are taken again
when there is room. After any other failure the file is not written again until it is reopened: a
failed sync leaves unknown what is on the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from dray.store import backup, database, history, state, store, watch
from dray.store.watch import Stretch

CHANGES_IN_GROUP = 128

_LACK_OF_ROOM = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
}

Answer = TypeVar("Answer")


class _Waiting(NamedTuple):
    transaction: store.Transaction
    outcome: asyncio.Future[int]


class _Group(NamedTuple):
    """Transactions written together: what they change, and what each will be told."""

    draft: state.Draft
    answers: list[tuple[asyncio.Future[int], int | store.Refused]]


class _Stop(NamedTuple):
    """Why writing has stopped, and whether it may go on once there is room."""

    reason: str
    ends_with_room: bool

    @classmethod
    def because(cls, error: BaseException) -> _Stop:
        if getattr(error, "sqlite_errorcode", None) in _LACK_OF_ROOM:
            return cls(f"no room to write: {error}", ends_with_room=True)
        return cls(f"writing failed: {error}; the store must be reopened", ends_with_room=False)


class SqliteStore(store.Store):
    """One file's store. Only `open` makes one."""

    def __init__(
        self,
        file: database.Database,
        loaded: database.Loaded,
        past: history.History,
        threads: _Threads,
        limits: watch.Limits,
    ) -> None:
        self._file, self._past, self._threads = file, past, threads
        self._state = state.State(loaded.image)
        self._compacted = loaded.compacted
        self._fanout = watch.Fanout(self._state.revision, limits)
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Waiting] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._stop: _Stop | None = None
        self._closed = False

    async def revision(self) -> int:
        return self._state.revision

    async def get(self, key: str) -> store.Entry | None:
        return self._state.get(key)

    async def list(
        self, prefix: str, *, limit: int = 0, after_key: str = "", revision: int | None = None
    ) -> store.Page:
        span = store.Span.under(prefix, after_key)
        if revision is None:
            return self._state.page(span, limit)
        before = await self._before(span, revision)
        return self._state.page_at(span, limit, revision, before)

    async def _before(self, span: store.Span, revision: int) -> state.Before:
        """What the keys of a span were at a revision, for those that changed since."""
        self._check_reachable(revision)
        before: state.Before = {}
        reached = revision
        while reached < self._fanout.window.start:
            until = self._state.revision
            before = await self._read(self._past.before, reached, until, span) | before
            self._check_reachable(revision)
            reached = until
        return state.undo(self._fanout.window.after(reached), span) | before

    async def watch(self, prefix: str, after_revision: int) -> store.Watch:
        self._check_reachable(after_revision)
        events = functools.partial(self._past_events, store.Span.under(prefix))
        return self._fanout.subscribe(prefix, after_revision, events)

    async def _past_events(self, span: store.Span, after: int, until: int) -> Stretch:
        stretch = await self._read(self._past.events, after, until, span)
        self._check_reachable(after)
        return stretch

    def _check_reachable(self, revision: int) -> None:
        if revision > self._state.revision:
            raise store.FutureRevision(revision, self._state.revision)
        if revision < self._compacted:
            raise store.Expired(revision, self._compacted)

    def health(self) -> store.Health:
        if self._closed:
            return store.Health(writable=False, reason="the store is closed")
        if not self._stop or (self._stop.ends_with_room and self._file.has_room()):
            return store.Health(writable=True)
        return store.Health(writable=False, reason=self._stop.reason)

    async def commit(self, transaction: store.Transaction) -> int:
        self._check_writable()
        waiting = _Waiting(transaction, self._loop.create_future())
        self._queue.append(waiting)
        if self._idle.is_set():
            self._idle.clear()
            # Not at once: whoever else commits in this turn of the loop joins the group.
            self._loop.call_soon(self._write_group)
        return await waiting.outcome

    def _check_writable(self) -> None:
        if self._closed:
            raise store.Closed
        health = self.health()
        if not health.writable:
            raise store.ReadOnly(health.reason)

    def _write_group(self) -> None:
        if self._stop and not self.health().writable:
            self._fail_queue(self._stop.reason)
        group = self._take_group()
        if not group.draft.changes:
            self._finish(group)
            return
        writing = self._loop.run_in_executor(
            self._threads.writer, self._file.append, group.draft.changes
        )
        writing.add_done_callback(functools.partial(self._group_written, group))

    def _take_group(self) -> _Group:
        group = _Group(state.Draft(self._state), [])
        while self._queue and len(group.draft.changes) < CHANGES_IN_GROUP:
            transaction, outcome = self._queue.popleft()
            if outcome.cancelled():
                continue
            try:
                group.answers.append((outcome, group.draft.add(transaction)))
            except store.Refused as refusal:
                # Told only with the rest: it may rest on a change that fails to become durable.
                group.answers.append((outcome, refusal))
        return group

    def _group_written(self, group: _Group, writing: asyncio.Future[None]) -> None:
        error = writing.exception()
        if error is None:
            self._stop = None
            self._state.apply(group.draft)
            self._fanout.publish(group.draft.revision, group.draft.events)
            self._finish(group)
        else:
            self._stop = _Stop.because(error)
            self._abandon(group, self._stop)

    def _finish(self, group: _Group) -> None:
        for outcome, answer in group.answers:
            _settle(outcome, answer)
        self._go_on()

    def _abandon(self, group: _Group, stop: _Stop) -> None:
        kind = store.ReadOnly if stop.ends_with_room else store.Unavailable
        for outcome, _ in group.answers:
            _settle(outcome, kind(stop.reason))
        self._go_on()

    def _fail_queue(self, reason: str) -> None:
        while self._queue:
            _settle(self._queue.popleft().outcome, store.ReadOnly(reason))

    def _go_on(self) -> None:
        if self._queue:
            self._write_group()
        else:
            self._idle.set()

    async def compact(self, revision: int) -> None:
        if revision > self._state.revision:
            raise store.FutureRevision(revision, self._state.revision)
        if revision <= self._compacted:
            return
        await self._write(self._file.compact, revision)
        self._compacted = max(self._compacted, revision)
        self._fanout.window.forget(revision)
        while await self._write(self._file.sweep):
            pass

    async def backup(self, target: Path) -> None:
        """Write a complete copy of the current state to a file; reads and writes go on."""
        await self._read(backup.write, self._past.copy, target)

    async def _read(self, function: Callable[..., Answer], *arguments: object) -> Answer:
        if self._closed:
            raise store.Closed
        return await self._loop.run_in_executor(self._threads.reader, function, *arguments)

    async def _write(self, function: Callable[..., Answer], *arguments: object) -> Answer:
        self._check_writable()
        try:
            return await self._loop.run_in_executor(self._threads.writer, function, *arguments)
        except sqlite3.Error as error:
            self._stop = _Stop.because(error)
            raise store.ReadOnly(self._stop.reason) from error

    async def drain(self) -> None:
        """Take no more writes, finish those that wait, end the watches."""
        self._closed = True
        await self._idle.wait()
        self._fanout.end(store.Closed())


def _settle(outcome: asyncio.Future[int], answer: int | store.StoreError) -> None:
    if outcome.done():
        return
    if isinstance(answer, int):
        outcome.set_result(answer)
    else:
        outcome.set_exception(answer)


class _Threads(NamedTuple):
    writer: Executor
    reader: Executor


@contextlib.contextmanager
def _threads() -> Iterator[_Threads]:
    with (
        ThreadPoolExecutor(1, "store-writer") as writer,
        ThreadPoolExecutor(1, "store-reader") as reader,
    ):
        yield _Threads(writer, reader)


@contextlib.asynccontextmanager
async def open(
    path: Path,
    *,
    connect: database.Connect = database.connect,
    limits: watch.Limits = watch.DEFAULT_LIMITS,
) -> AsyncIterator[SqliteStore]:
    """The store in a file, which is created if need be; closed in order at the end of the block."""
    run = asyncio.get_running_loop().run_in_executor
    with _threads() as threads:
        file = await run(threads.writer, database.Database, path, connect)
        past = history.History(path, connect)
        try:
            # No name for what is loaded: it would keep every replaced value alive.
            opened = SqliteStore(file, await run(threads.writer, file.load), past, threads, limits)
            try:
                yield opened
            finally:
                await opened.drain()
        finally:
            await run(threads.reader, past.close)
            await run(threads.writer, file.close)
