"""Short names for what tests do to a store."""

from __future__ import annotations

import asyncio

from dray.store import store

DEADLINE_SECONDS = 20.0


async def put(
    target: store.Store,
    key: str,
    value: bytes = b"{}",
    *,
    expect: int | None = None,
    holds: tuple[str, ...] | None = None,
) -> int:
    return await target.commit(store.Transaction((store.Put(key, value, expect, holds),)))


async def delete(target: store.Store, key: str, *, expect: int | None = None) -> int:
    return await target.commit(store.Transaction((store.Delete(key, expect),)))


async def commit(target: store.Store, *operations: store.Operation) -> int:
    return await target.commit(store.Transaction(operations))


async def take(watcher: store.Watch, count: int) -> list[store.Event]:
    """The next events, as many as that, before the deadline."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        return [await anext(watcher) for _ in range(count)]


async def keys(target: store.Store, prefix: str = "/", *, revision: int | None = None) -> list[str]:
    page = await target.list(prefix, revision=revision)
    return [entry.key for entry in page.entries]


async def values(
    target: store.Store, prefix: str = "/", *, revision: int | None = None
) -> dict[str, bytes]:
    page = await target.list(prefix, revision=revision)
    return {entry.key: entry.value for entry in page.entries}
