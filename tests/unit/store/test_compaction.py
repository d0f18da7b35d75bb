"""How long history is kept."""

from __future__ import annotations

import asyncio

from dray.store import compaction, memory, store, watch
from tests.waiting import DEADLINE_SECONDS, until


async def put(target: store.Store) -> int:
    return await target.commit(store.Transaction((store.Put("/pods/a/x", b""),)))


class Flaky(memory.MemoryStore):
    """Refuses its first compactions, and remembers those that were asked for."""

    refusals = 2
    asked: list[int]

    async def compact(self, revision: int) -> None:
        self.asked.append(revision)
        if self.refusals:
            self.refusals -= 1
            raise store.ReadOnly("no room")
        await super().compact(revision)


def test_history_of_the_last_period_is_kept() -> None:
    async def scenario() -> None:
        async with memory.open() as target:
            first = await put(target)
            running = asyncio.ensure_future(compaction.compact_regularly(target, seconds=0))
            await asyncio.sleep(0)
            second = await put(target)
            async with asyncio.timeout(DEADLINE_SECONDS):
                while (oldest := target._fanout.window.start) < first:
                    await asyncio.sleep(0)
                assert oldest == first
                while target._fanout.window.start < second:
                    await asyncio.sleep(0)
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(scenario())


def test_refused_compaction_is_tried_again() -> None:
    async def scenario() -> list[int]:
        target = Flaky(watch.Fanout(0, watch.DEFAULT_LIMITS))
        target.asked = []
        await put(target)
        running = asyncio.ensure_future(compaction.compact_regularly(target, seconds=0))
        await until(lambda: len(target.asked) >= 4, "four attempts")
        running.cancel()
        await asyncio.wait([running])
        return target.asked[:4]

    assert asyncio.run(scenario()) == [1, 1, 1, 1]
