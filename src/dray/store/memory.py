"""The store for tests: it loses everything when it is closed.

Its history is the window of recent events.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from dray.store import committed_state, store, watch


class MemoryStore(committed_state.StateStore):
    """A store without a disk. Only `open` makes one."""

    def __init__(self, fanout: watch.Fanout) -> None:
        super().__init__(committed_state.EMPTY)
        self._fanout = fanout

    @property
    def _oldest(self) -> int:
        return self._fanout.window.start

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
        self._check_open()
        draft = committed_state.PendingCommits(self._state)
        revision = draft.add(transaction)
        self._state.apply(draft)
        self._fanout.publish(revision, draft.events)
        return revision

    async def watch(self, prefix: str, after_revision: int) -> store.Watch:
        self._check_reachable(after_revision)
        return self._fanout.subscribe(prefix, after_revision, _no_history)

    async def compact(self, revision: int) -> None:
        self._check_reached(revision)
        self._fanout.window.forget(revision)

    def health(self) -> store.StoreHealth:
        return store.StoreHealth(writable=not self._closed)

    def close(self) -> None:
        self._closed = True
        self._fanout.end(store.Closed())


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
