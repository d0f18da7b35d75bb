"""A copy that is kept in step with the store."""

from __future__ import annotations

import asyncio

import msgspec

from dray.apiserver.storage.follower import StoreFollower
from dray.store import memory, watch
from dray.store.store import Delete, Entry, Put, Store, Transaction
from tests import loop
from tests.waiting import until


class Names:
    """Remembers values; what starts with `!` cannot be read."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def put(self, entry: Entry) -> None:
        if entry.value.startswith(b"!"):
            raise msgspec.ValidationError("unreadable")
        self.values[entry.key] = entry.value

    def remove(self, key: str) -> None:
        self.values.pop(key, None)


async def write(store: Store, key: str, value: bytes) -> None:
    await store.commit(Transaction((Put(key, value),)))


def test_what_is_there_is_loaded_and_what_is_gone_forgotten() -> None:
    async def scenario() -> None:
        async with memory.open() as store:
            names = Names()
            follower = StoreFollower(store, "/a/", names)
            await write(store, "/a/1", b"one")
            await write(store, "/b/1", b"other")
            await follower.load()
            assert names.values == {"/a/1": b"one"}
            await store.commit(Transaction((Delete("/a/1"),)))
            await write(store, "/a/2", b"two")
            await follower.load()
            assert names.values == {"/a/2": b"two"}

    loop.run(scenario())


def test_changes_are_followed_until_the_store_is_closed() -> None:
    async def scenario() -> None:
        names = Names()
        async with memory.open() as store:
            following = asyncio.create_task(StoreFollower(store, "/a/", names).run())
            await write(store, "/a/1", b"one")
            await until(lambda: names.values == {"/a/1": b"one"})
            await store.commit(Transaction((Delete("/a/1"),)))
            await until(lambda: not names.values)
        await asyncio.wait_for(following, 5)

    loop.run(scenario())


def test_a_follower_that_fell_behind_starts_again() -> None:
    async def scenario() -> None:
        names = Names()
        limits = watch.WatchLimits(buffered_events=2)
        async with memory.open(limits) as store:
            following = asyncio.create_task(StoreFollower(store, "/a/", names).run())
            await asyncio.sleep(0)
            for number in range(9):
                await write(store, f"/a/{number}", b"x")
            await until(lambda: len(names.values) == 9)
        await asyncio.wait_for(following, 5)

    loop.run(scenario())


def test_what_cannot_be_read_is_left_out() -> None:
    async def scenario() -> None:
        async with memory.open() as store:
            names = Names()
            follower = StoreFollower(store, "/a/", names)
            await write(store, "/a/1", b"one")
            await follower.load()
            await write(store, "/a/1", b"!broken")
            await write(store, "/a/2", b"two")
            await follower.load()
            assert names.values == {"/a/2": b"two"}

    loop.run(scenario())
