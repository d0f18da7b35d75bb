"""The one writer of the SQLite store: it writes transactions in groups, each synced once.

Transactions that arrive while a group is being synced form the next group. Each is judged in order
against those before it, and a refused one does not disturb the others. State, watchers and callers
learn of a group only after it is durable, so nothing that was read or watched can be lost.

When the disk is full, writes are refused with the reason until there is room. When the disk refuses
a write though there is room, the next ones are tried all the same, and the store calls itself
unwritable until one succeeds. After any other failure nothing is written until the file is
reopened: a failed sync leaves unknown what is on disk.
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

_REFUSED_WRITES = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
}

Answer = TypeVar("Answer")


class _QueuedTransaction(NamedTuple):
    transaction: store.Transaction
    outcome: asyncio.Future[int]


class _Group(NamedTuple):
    """Transactions written together: what they change, and what each will be told."""

    draft: committed_state.PendingCommits
    answers: list[tuple[asyncio.Future[int], int | store.CommitRejected]]


class _ResumeCondition(enum.Enum):
    """What ends a stop."""

    ROOM = enum.auto()
    SUCCESS = enum.auto()
    """A write that is tried and succeeds."""
    REOPENING = enum.auto()


class _WriteFailure(NamedTuple):
    """Why the last write failed, and when writing may go on."""

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

    def health(self) -> store.Health:
        if self._closed:
            return store.Health(writable=False, reason="the store is closed")
        if self._stop is None or (
            self._stop.end is _ResumeCondition.ROOM and self._file.has_room()
        ):
            return store.Health(writable=True)
        return store.Health(writable=False, reason=self._stop.reason)

    async def commit(self, transaction: store.Transaction) -> int:
        self._check_writable()
        waiting = _QueuedTransaction(transaction, self._loop.create_future())
        self._queue.append(waiting)
        if self._idle.is_set():
            self._idle.clear()
            # Not at once: whoever else commits in this turn of the loop joins the group.
            self._loop.call_soon(self._write_group)
        return await waiting.outcome

    async def run(self, function: Callable[..., Answer], *arguments: object) -> Answer:
        """Let the writing thread do something else between two groups."""
        self._check_writable()
        try:
            return await self._loop.run_in_executor(self._thread, function, *arguments)
        except sqlite3.Error as error:
            self._stop = self._stop_because(error)
            raise store.ReadOnly(self._stop.reason) from error

    async def close(self) -> None:
        """Take no more writes, and finish those that wait."""
        self._closed = True
        await self._idle.wait()

    def _check_writable(self) -> None:
        if self._closed:
            raise store.Closed
        if reason := self._refusal():
            raise store.ReadOnly(reason)

    def _refusal(self) -> str:
        """Why a write need not even be tried; empty where it may succeed."""
        if self._stop is None or self._stop.end is _ResumeCondition.SUCCESS:
            return ""
        return self.health().reason

    def _stop_because(self, error: BaseException) -> _WriteFailure:
        return _WriteFailure.because(error, has_room=self._file.has_room())

    def _write_group(self) -> None:
        if reason := self._refusal():
            self._refuse_waiting(reason)
        group = self._take_group()
        if not group.draft.changes:
            self._finish(group)
            return
        writing = self._loop.run_in_executor(self._thread, self._file.append, group.draft.changes)
        writing.add_done_callback(functools.partial(self._group_written, group))

    def _refuse_waiting(self, reason: str) -> None:
        while self._queue:
            _settle(self._queue.popleft().outcome, store.ReadOnly(reason))

    def _take_group(self) -> _Group:
        group = _Group(committed_state.PendingCommits(self._state), [])
        while self._queue and len(group.draft.changes) < CHANGES_IN_GROUP:
            transaction, outcome = self._queue.popleft()
            if outcome.cancelled():
                continue
            try:
                group.answers.append((outcome, group.draft.add(transaction)))
            except store.CommitRejected as refusal:
                # Told only with the rest: it may rest on a change that fails to become durable.
                group.answers.append((outcome, refusal))
        return group

    def _group_written(self, group: _Group, writing: asyncio.Future[None]) -> None:
        error = writing.exception()
        if error:
            self._stop = self._stop_because(error)
            self._abandon(group, self._stop)
            return
        self._stop = None
        self._state.apply(group.draft)
        self._fanout.publish(group.draft.revision, group.draft.events)
        self._finish(group)

    def _finish(self, group: _Group) -> None:
        for outcome, answer in group.answers:
            _settle(outcome, answer)
        self._go_on()

    def _abandon(self, group: _Group, stop: _WriteFailure) -> None:
        kind = store.Unavailable if stop.end is _ResumeCondition.REOPENING else store.ReadOnly
        for outcome, _ in group.answers:
            _settle(outcome, kind(stop.reason))
        self._go_on()

    def _go_on(self) -> None:
        if self._queue:
            self._write_group()
        else:
            self._idle.set()


def _settle(outcome: asyncio.Future[int], answer: int | store.StoreError) -> None:
    if outcome.done():
        return
    if isinstance(answer, int):
        outcome.set_result(answer)
    else:
        outcome.set_exception(answer)
