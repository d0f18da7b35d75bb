"""Compaction of any store by age. The process that owns the store runs it."""

from __future__ import annotations

import asyncio
import contextlib

from dray.store import store

HISTORY_SECONDS = 300.0


async def compact_regularly(target: store.Store, seconds: float = HISTORY_SECONDS) -> None:
    """Until cancelled, drop history that is older than `seconds`; up to twice that is kept.

    Several servers of one cluster may all do so: each drops only what it saw that long ago.
    """
    reached = await target.revision()
    while True:
        await asyncio.sleep(seconds)
        with contextlib.suppress(store.ReadOnly, store.Unavailable):
            current = await target.revision()
            await target.compact(reached)
            reached = current
