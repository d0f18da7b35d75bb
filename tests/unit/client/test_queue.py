"""The work queue: each key once, one worker at a time, nothing missed."""

from __future__ import annotations

import asyncio

from dray.client.queue import WorkQueue


def test_a_key_added_twice_is_handed_out_once() -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        queue.add("a")
        assert await queue.get() == "a"
        assert len(queue) == 0

    asyncio.run(run())


def test_a_key_added_while_it_is_worked_on_waits_until_done() -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        await queue.get()
        queue.add("a")
        assert len(queue) == 0
        queue.done("a")
        assert await queue.get() == "a"

    asyncio.run(run())


def test_keys_come_in_the_order_in_which_they_were_added() -> None:
    async def run() -> None:
        queue: WorkQueue[int] = WorkQueue()
        for key in (3, 1, 2):
            queue.add(key)
        assert [await queue.get() for _ in range(3)] == [3, 1, 2]

    asyncio.run(run())


def test_an_earlier_time_replaces_a_later_one() -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 3600)
        queue.add_after("a", 0.001)
        async with asyncio.timeout(5):
            assert await queue.get() == "a"

    asyncio.run(run())


def test_back_off_doubles_until_forgotten() -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue(first_backoff_seconds=1000)
        queue.retry("a")
        queue.retry("a")
        assert queue.failures("a") == 2
        queue.forget("a")
        assert queue.failures("a") == 0
        queue.close()
        assert queue.is_idle

    asyncio.run(run())


def test_a_waiting_worker_is_woken() -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue()
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            waiting = group.create_task(queue.get())
            group.create_task(asyncio.sleep(0)).add_done_callback(lambda _: queue.add("a"))
        assert waiting.result() == "a"

    asyncio.run(run())
