"""Events go some time after they were last seen; all others stay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from dray.api import kinds
from dray.api.types.meta import JsonObject
from dray.apiserver import event_expiry
from dray.apiserver.event_expiry import EventExpiry
from dray.apiserver.storage import store_keys
from dray.store import memory
from dray.store.store import ABSENT, Put, Store, Transaction
from tests import loop

NOON = 1767268800.0
HOUR = 3600.0


def time(hours: float) -> str:
    """Return a time of the day on which NOON is."""
    minutes = round(hours * 60)
    return f"2026-01-01T{minutes // 60:02}:{minutes % 60:02}:00Z"


def event(name: str, created: float, **fields: Any) -> JsonObject:
    return {"metadata": {"name": name, "creationTimestamp": time(created)}, **fields}


def key(name: str) -> str:
    return store_keys.key(kinds.EVENT, name, "default")


async def put(store: Store, *documents: JsonObject) -> None:
    for document in documents:
        value = json.dumps(document).encode()
        await store.commit(Transaction((Put(key(document["metadata"]["name"]), value, ABSENT),)))


async def names(store: Store) -> set[str]:
    page = await store.list(store_keys.prefix(kinds.EVENT))
    return {entry.key.rpartition("/")[2] for entry in page.entries}


def with_store(test: Callable[[Store], Awaitable[None]]) -> None:
    async def run() -> None:
        async with memory.open() as store:
            await test(store)

    loop.run(run())


def test_an_event_that_was_last_seen_long_ago_is_deleted() -> None:
    async def check(store: Store) -> None:
        await put(
            store,
            event("old", 10.5),
            event("new", 11.5),
            event("again", 9, lastTimestamp=time(11.5)),
            event("series", 9, series={"lastObservedTime": "2026-01-01T11:30:00.000000Z"}),
            event("both old", 9, lastTimestamp=time(10.9), eventTime=None),
            event("future", 10.5, lastTimestamp="9999-01-01T00:00:00Z"),
            event("nonsense", 10.5, lastTimestamp="yesterday"),
        )
        await EventExpiry(store, HOUR, lambda: NOON).delete_expired()
        assert await names(store) == {"new", "again", "series"}

    with_store(check)


def test_without_a_lifetime_nothing_is_looked_for() -> None:
    async def check(store: Store) -> None:
        await put(store, event("old", 1))
        await asyncio.wait_for(EventExpiry(store, 0, lambda: NOON).run(), 30)
        assert await names(store) == {"old"}

    with_store(check)


def test_many_events_are_deleted_page_by_page() -> None:
    async def check(store: Store) -> None:
        count = 2 * event_expiry.PAGE + 7
        await put(store, *(event(f"e{number}", 9 + number % 3) for number in range(count)))
        await EventExpiry(store, HOUR, lambda: NOON).delete_expired()
        assert len(await names(store)) == sum(number % 3 == 2 for number in range(count))

    with_store(check)


def test_an_event_that_happens_again_meanwhile_stays() -> None:
    async def check(store: Store) -> None:
        await put(store, event("a", 9), event("b", 9))
        entries = [entry async for entry in stored(store)]
        again = json.dumps(event("a", 9, lastTimestamp=time(12))).encode()
        await store.commit(Transaction((Put(key("a"), again, entries[0].revision),)))
        # As if the other server had read them before.
        await EventExpiry(store, HOUR, lambda: NOON)._delete(entries)
        assert await names(store) == {"a"}

    with_store(check)


async def stored(store: Store) -> Any:
    for entry in (await store.list(store_keys.prefix(kinds.EVENT))).entries:
        yield entry
