"""etcd killed and started while many write: nothing acknowledged is lost, no watch has a gap."""

from __future__ import annotations

import asyncio
import itertools
import random
from pathlib import Path

import pytest

from dray.store import etcd as etcd_store
from dray.store import store
from dray.store.etcd_connection import Access
from tests import etcd, loop, rounds

ROUNDS = rounds.count(5, long=50)
WRITERS = 8
DEADLINE_SECONDS = 60.0


class Writers:
    """Write until told to stop, through any outage, and remember what was acknowledged."""

    def __init__(self, target: store.Store) -> None:
        self._target = target
        self._stopped = False
        self.acknowledged: dict[int, str] = {}

    async def write(self, writer: int) -> None:
        for number in itertools.count():
            if self._stopped:
                return
            key = f"/pods/{writer}/{number % 5}"
            try:
                put = store.Put(key, f"{number}".encode())
                self.acknowledged[await self._target.commit(store.Transaction((put,)))] = key
            except store.Unavailable:
                await asyncio.sleep(0.05)

    async def more(self, count: int) -> None:
        """Wait until so many more writes have been acknowledged."""
        wanted = len(self.acknowledged) + count
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len(self.acknowledged) < wanted:
                await asyncio.sleep(0.01)

    def stop(self) -> None:
        self._stopped = True


async def collect(watcher: store.Watch, events: list[store.Event]) -> None:
    async for event in watcher:
        events.append(event)


async def write_through_outages(server: etcd.Server) -> None:
    chance = random.Random(rounds.seed_of(0))
    events: list[store.Event] = []
    async with etcd_store.open(Access((server.endpoint,))) as target:
        start = await target.revision()
        watcher = await target.watch("/pods/", start)
        writers = Writers(target)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(collect(watcher, events))
            writing = [tasks.create_task(writers.write(number)) for number in range(WRITERS)]
            for _ in range(ROUNDS):
                await writers.more(chance.randrange(1, 60))
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            await writers.more(50)
            writers.stop()
            await asyncio.wait(writing)
            last = await target.revision()
            async with asyncio.timeout(DEADLINE_SECONDS):
                while watcher.revision < last:
                    await asyncio.sleep(0.01)
            watcher.close()
        await check(target, start, events, writers.acknowledged)


async def check(
    target: store.Store, start: int, events: list[store.Event], acknowledged: dict[int, str]
) -> None:
    revisions = [event.revision for event in events]
    assert all(later > earlier for earlier, later in itertools.pairwise([start, *revisions]))
    assert acknowledged.items() <= {event.revision: event.key for event in events}.items()
    with await target.watch("/pods/", start) as again:
        replayed: list[store.Event] = []
        while len(replayed) < len(events):
            replayed += await again.read()
    assert replayed == events
    present = {event.key: event.current for event in events}
    assert {entry.key: entry for entry in (await target.list("/pods/")).entries} == present


@pytest.mark.slow
@pytest.mark.random
@pytest.mark.timeout(30 * ROUNDS)
def test_outages_of_etcd_lose_nothing(tmp_path: Path) -> None:
    with etcd.running(tmp_path) as server:
        loop.run(write_through_outages(server))
