"""The store for tests: it loses everything when it is closed.

Its history is the window of recent events.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from dray.store import committed_state, store, watch


class MemoryStore(store.Store):
    """A store without a disk. Only `open` makes one."""

    def __init__(self, fanout: watch.Fanout) -> None:
        self._state = committed_state.CommittedState(committed_state.EMPTY)
        self._fanout = fanout
        self._closed = False

    async def revision(self) -> int:
        return self._state.revision

    async def get(self, key: str) -> store.Entry | None:
        return self._state.get(key)

    def changed_at(self, area: str) -> int:
        return self._state.changed_at(area)

    async def list(
        self, prefix: str, *, limit: int = 0, after_key: str = "", revision: int | None = None
    ) -> store.Page:
        span = store.Span.under(prefix, after_key)
        if revision is None:
            return self._state.page(span, limit)
        self._check_reachable(revision)
        before = committed_state.undo(self._fanout.window.after(revision), span)
        return self._state.page_at(span, limit, revision, before)

    async def commit(self, transaction: store.Transaction) -> int:
        if self._closed:
            raise store.Closed
        draft = committed_state.PendingCommits(self._state)
        revision = draft.add(transaction)
        self._state.apply(draft)
        self._fanout.publish(revision, draft.events)
        return revision

    async def watch(self, prefix: str, after_revision: int) -> store.Watch:
        self._check_reachable(after_revision)
        return self._fanout.subscribe(prefix, after_revision, _no_history)

    async def compact(self, revision: int) -> None:
        if revision > self._state.revision:
            raise store.FutureRevision(revision, self._state.revision)
        self._fanout.window.forget(revision)

    def health(self) -> store.StoreHealth:
        return store.StoreHealth(writable=not self._closed)

    def close(self) -> None:
        self._closed = True
        self._fanout.end(store.Closed())

    def _check_reachable(self, revision: int) -> None:
        if self._closed:
            raise store.Closed
        if revision > self._state.revision:
            raise store.FutureRevision(revision, self._state.revision)
        if revision < self._fanout.window.start:
            raise store.RevisionExpired(revision, self._fanout.window.start)


async def _no_history(after: int, until: int) -> watch.Stretch:
    raise store.RevisionExpired(after, until)


@contextlib.asynccontextmanager
async def open(limits: watch.WatchLimits = watch.DEFAULT_LIMITS) -> AsyncIterator[MemoryStore]:
    """Open an empty store; it is closed at the end of the block."""
    opened = MemoryStore(watch.Fanout(0, limits))
    try:
        yield opened
    finally:
        opened.close()
