"""The only writer of the SQLite store: it writes transactions in groups, each synced once.

Transactions that arrive while a group is being synced form the next group. Each is evaluated in
order against those before it, and a rejected one does not affect the others. State, watchers and
callers see a group only after it is durable, so nothing that was read or watched can be lost.

When the disk is full, writes are rejected with the reason until there is room. When the disk
rejects a write though there is room, the next ones are tried all the same, and the store is
reported as unwritable until one succeeds. After any other failure nothing is written until the
file is reopened: a failed sync leaves unknown what is on disk.
"""

from __future__ import annotations

import asyncio
import enum
import functools
import sqlite3
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import NamedTuple, TypeVar

from dray.store import committed_state, sqlite_file, store, watch

CHANGES_IN_GROUP = 128

# Errors of the write itself: SQLite rolls the transaction back, so the next one may be written.
# After all other errors, above all those of fsync, it is unknown what is on disk.
_REFUSED_WRITES = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
}

Result = TypeVar("Result")


class _QueuedTransaction(NamedTuple):
    transaction: store.Transaction
    outcome: asyncio.Future[int]


class _Group(NamedTuple):
    """Transactions written together: their changes, and the result of each."""

    draft: committed_state.PendingCommits
    results: list[tuple[asyncio.Future[int], int | store.CommitRejected]]


class _ResumeCondition(enum.Enum):
    """The event after which writes are accepted again."""

    ROOM = enum.auto()
    SUCCESS = enum.auto()
    """The next write that succeeds."""
    REOPENING = enum.auto()


class _WriteFailure(NamedTuple):
    """The reason of the last failed write, and the time until which writes are rejected."""

    reason: str
    end: _ResumeCondition

    @classmethod
    def because(cls, error: BaseException, *, has_room: bool) -> _WriteFailure:
        if getattr(error, "sqlite_errorcode", None) not in _REFUSED_WRITES:
            return cls(
                f"writing failed: {error}; the store must be reopened", _ResumeCondition.REOPENING
            )
        if not has_room:
            return cls(f"no room to write: {error}", _ResumeCondition.ROOM)
        advice = "there is free space, so look at the disk, at quotas and at file size limits"
        return cls(f"the last write failed: {error}; {advice}", _ResumeCondition.SUCCESS)


class GroupCommit:
    """Owns the database for writing, and with it the right to change state and to publish."""

    def __init__(
        self,
        file: sqlite_file.Database,
        current: committed_state.CommittedState,
        fanout: watch.Fanout,
        thread: Executor,
    ) -> None:
        self._file, self._state, self._fanout, self._thread = file, current, fanout, thread
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_QueuedTransaction] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._stop: _WriteFailure | None = None
        self._closed = False

    def health(self) -> store.StoreHealth:
        if self._closed:
            return store.StoreHealth(writable=False, reason="the store is closed")
        if self._stop is None or (
            self._stop.end is _ResumeCondition.ROOM and self._file.has_room()
        ):
            return store.StoreHealth(writable=True)
        return store.StoreHealth(writable=False, reason=self._stop.reason)

    async def commit(self, transaction: store.Transaction) -> int:
        self._check_writable()
        queued = _QueuedTransaction(transaction, self._loop.create_future())
        self._queue.append(queued)
        if self._idle.is_set():
            self._idle.clear()
            # Not at once: all that is committed in this turn of the loop joins the group, and
            # shares its fsync, which costs far more than the rest of a commit.
            self._loop.call_soon(self._write_group)
        return await queued.outcome

    async def run(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Call a function on the writing thread, between two groups."""
        self._check_writable()
        try:
            return await self._loop.run_in_executor(self._thread, function, *arguments)
        except sqlite3.Error as error:
            self._stop = self._stop_because(error)
            raise store.ReadOnly(self._stop.reason) from error

    async def close(self) -> None:
        """Accept no more writes, and finish the queued ones."""
        self._closed = True
        await self._idle.wait()

    def _check_writable(self) -> None:
        if self._closed:
            raise store.Closed
        if reason := self._rejection():
            raise store.ReadOnly(reason)

    def _rejection(self) -> str:
        """Return why a write cannot succeed, or an empty text if it may."""
        if self._stop is None or self._stop.end is _ResumeCondition.SUCCESS:
            return ""
        return self.health().reason

    def _stop_because(self, error: BaseException) -> _WriteFailure:
        return _WriteFailure.because(error, has_room=self._file.has_room())

    def _write_group(self) -> None:
        if reason := self._rejection():
            self._reject_queued(reason)
        group = self._take_group()
        if not group.draft.changes:
            # Only rejections, or deletes of absent keys. They need no sync: what they are based on
            # is committed state, because there is never more than one group on its way.
            self._finish(group)
            return
        writing = self._loop.run_in_executor(self._thread, self._file.append, group.draft.changes)
        writing.add_done_callback(functools.partial(self._group_written, group))

    def _reject_queued(self, reason: str) -> None:
        while self._queue:
            _settle(self._queue.popleft().outcome, store.ReadOnly(reason))

    def _take_group(self) -> _Group:
        group = _Group(committed_state.PendingCommits(self._state), [])
        while self._queue and len(group.draft.changes) < CHANGES_IN_GROUP:
            transaction, outcome = self._queue.popleft()
            # The caller has left, and nothing of the transaction has happened.
            if outcome.cancelled():
                continue
            try:
                group.results.append((outcome, group.draft.add(transaction)))
            except store.CommitRejected as rejection:
                # Not raised yet: it may be based on a change of this group, which may fail to
                # become durable.
                group.results.append((outcome, rejection))
        return group

    def _group_written(self, group: _Group, writing: asyncio.Future[None]) -> None:
        error = writing.exception()
        if error:
            self._stop = self._stop_because(error)
            self._abandon(group, self._stop)
            return
        self._stop = None
        # Only now, after the sync: a reader or a watcher that saw the change earlier could act on
        # something that a power cut undoes. State before watchers, because a watcher may list.
        self._state.apply(group.draft)
        self._fanout.publish(group.draft.revision, group.draft.events)
        self._finish(group)

    def _finish(self, group: _Group) -> None:
        for outcome, result in group.results:
            _settle(outcome, result)
        self._go_on()

    def _abandon(self, group: _Group, stop: _WriteFailure) -> None:
        # After a failed sync the group may be on disk or not, and only a new process can find out:
        # the kernel may report the error once and drop the pages, so a second fsync that succeeds
        # proves nothing. A write that was refused has surely not happened.
        kind = store.Unavailable if stop.end is _ResumeCondition.REOPENING else store.ReadOnly
        for outcome, _ in group.results:
            _settle(outcome, kind(stop.reason))
        self._go_on()

    def _go_on(self) -> None:
        if self._queue:
            self._write_group()
        else:
            self._idle.set()


def _settle(outcome: asyncio.Future[int], result: int | store.StoreError) -> None:
    if outcome.done():
        return
    if isinstance(result, int):
        outcome.set_result(result)
    else:
        outcome.set_exception(result)
