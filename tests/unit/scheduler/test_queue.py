"""Ready, backing off, waiting: which event wakes whom."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dray.api.ids import ObjectKey
from dray.scheduler import queue
from dray.scheduler.queue import Queue, QueueEntry
from dray.scheduling import wake_events
from dray.scheduling.unschedulable import Unschedulable
from tests import virtualtime

FOR_DEVICES = Unschedulable(wake_events=frozenset({wake_events.DEVICES}))
LONG_SECONDS = 60.0
"""After so long, nothing backs off any more."""


def key(name: str) -> ObjectKey:
    return ObjectKey("default", name)


def with_queue(test: Callable[[Queue], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        waiting = Queue()
        try:
            await test(waiting)
        finally:
            waiting.close()

    def wrapper() -> None:
        virtualtime.run(run())

    wrapper.__name__ = test.__name__
    wrapper.__doc__ = test.__doc__
    return wrapper


async def next_one(waiting: Queue) -> str:
    """The name of the pod that is tried next; empty if none is ready."""
    try:
        async with asyncio.timeout(0.01):
            return (await waiting.pop()).key.name
    except TimeoutError:
        return ""


async def refuse(waiting: Queue, name: str, question: str = "q") -> QueueEntry:
    waiting.add(key(name), 0)
    entry = await waiting.pop()
    assert entry.key.name == name
    waiting.park(entry, question, FOR_DEVICES)
    return entry


@with_queue
async def test_important_pods_come_first_then_earlier_ones(waiting: Queue) -> None:
    for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5)):
        waiting.add(key(name), priority)
    assert [await next_one(waiting) for _ in range(5)] == ["b", "d", "a", "c", ""]


@with_queue
async def test_early_ones_come_before_others_of_their_priority(waiting: Queue) -> None:
    waiting.add(key("a"), 0)
    waiting.add(key("b"), 5)
    for name in ("c", "d"):
        waiting.add(key(name), 0, is_early=True)
    assert [await next_one(waiting) for _ in range(5)] == ["b", "c", "d", "a", ""]


@with_queue
async def test_only_an_event_that_could_help_wakes(waiting: Queue) -> None:
    await refuse(waiting, "a")
    await asyncio.sleep(LONG_SECONDS)
    waiting.wake(wake_events.POD_REMOVED)
    assert await next_one(waiting) == ""
    waiting.wake(wake_events.DEVICES)
    assert await next_one(waiting) == "a"


@with_queue
async def test_of_pods_that_ask_the_same_one_is_tried_and_the_next_only_if_it_fits(
    waiting: Queue,
) -> None:
    for name in "abc":
        await refuse(waiting, name)
    await asyncio.sleep(LONG_SECONDS)
    waiting.wake(wake_events.DEVICES)
    scout = await waiting.pop()
    assert (scout.key.name, await next_one(waiting)) == ("a", "")
    waiting.done(scout)
    second = await waiting.pop()
    assert second.key.name == "b"
    waiting.park(second, "q", FOR_DEVICES)
    assert await next_one(waiting) == ""


@with_queue
async def test_pods_that_ask_otherwise_are_tried_beside(waiting: Queue) -> None:
    await refuse(waiting, "a", "one")
    await refuse(waiting, "b", "other")
    await asyncio.sleep(LONG_SECONDS)
    waiting.wake(wake_events.DEVICES)
    assert {await next_one(waiting), await next_one(waiting)} == {"a", "b"}


@with_queue
async def test_an_event_during_the_attempt_is_not_missed(waiting: Queue) -> None:
    waiting.add(key("a"), 0)
    entry = await waiting.pop()
    waiting.wake(wake_events.DEVICES)
    waiting.park(entry, "q", FOR_DEVICES)
    await asyncio.sleep(queue.FIRST_BACKOFF_SECONDS)
    assert await next_one(waiting) == "a"


@with_queue
async def test_an_event_while_the_scout_is_away_is_not_missed(waiting: Queue) -> None:
    await refuse(waiting, "a")
    await asyncio.sleep(LONG_SECONDS)
    waiting.wake(wake_events.DEVICES)
    scout = await waiting.pop()
    waiting.wake(wake_events.DEVICES)
    waiting.park(scout, "q", FOR_DEVICES)
    await asyncio.sleep(2 * queue.FIRST_BACKOFF_SECONDS)
    assert await next_one(waiting) == "a"


@with_queue
async def test_refused_again_and_again_waits_a_little_before_each_try(waiting: Queue) -> None:
    entry = await refuse(waiting, "a")
    for _ in range(20):
        await asyncio.sleep(LONG_SECONDS)
        waiting.wake(wake_events.DEVICES)
        assert (await waiting.pop()) is entry
        waiting.park(entry, "q", FOR_DEVICES)
    waiting.wake(wake_events.DEVICES)
    assert await next_one(waiting) == ""
    assert waiting.lengths()[queue.WAITING] == 1


@with_queue
async def test_an_expensive_question_waits_longer(waiting: Queue) -> None:
    waiting.add(key("a"), 0)
    entry = await waiting.pop()
    waiting.park(entry, "q", FOR_DEVICES, cost_seconds=1.0)
    await asyncio.sleep(queue.COST_FACTOR - 1)
    waiting.wake(wake_events.DEVICES)
    assert await next_one(waiting) == ""


@with_queue
async def test_a_changed_pod_is_tried_at_once(waiting: Queue) -> None:
    await refuse(waiting, "a")
    waiting.add(key("a"), 0)
    assert await next_one(waiting) == "a"


@with_queue
async def test_the_next_one_is_tried_when_the_scout_is_deleted(waiting: Queue) -> None:
    for name in "ab":
        await refuse(waiting, name)
    await asyncio.sleep(LONG_SECONDS)
    waiting.wake(wake_events.DEVICES)
    waiting.remove(key("a"))
    assert await next_one(waiting) == "b"


@with_queue
async def test_the_next_one_is_tried_when_the_scout_fails_by_an_error(waiting: Queue) -> None:
    for name in "ab":
        await refuse(waiting, name)
    await asyncio.sleep(LONG_SECONDS)
    waiting.wake(wake_events.DEVICES)
    scout = await waiting.pop()
    waiting.retry(scout)
    assert await next_one(waiting) == "b"
    assert waiting.lengths()[queue.BACKING_OFF] == 1


@with_queue
async def test_a_group_is_taken_out_together(waiting: Queue) -> None:
    await refuse(waiting, "a")
    waiting.add(key("b"), 0)
    first = await waiting.pop()
    taken = waiting.take(key("a"))
    assert first.key.name == "b"
    assert taken is not None
    assert waiting.take(key("a")) is None
    await asyncio.sleep(LONG_SECONDS)
    waiting.wake(wake_events.DEVICES)
    assert await next_one(waiting) == ""


@with_queue
async def test_nothing_is_left_of_pods_that_are_gone(waiting: Queue) -> None:
    for name in "ab":
        await refuse(waiting, name)
    for name in "ab":
        waiting.remove(key(name))
    assert len(waiting) == 0
    waiting.wake(wake_events.DEVICES)
    assert await next_one(waiting) == ""


@with_queue
async def test_a_change_that_helps_nobody_outdates_the_reasons_of_those_who_want_the_same(
    waiting: Queue,
) -> None:
    await refuse(waiting, "a")
    await refuse(waiting, "b")
    for_nodes = Unschedulable(wake_events=frozenset({wake_events.NODES}))
    waiting.add(key("c"), 0)
    waiting.park(await waiting.pop(), "nodes", for_nodes)
    assert waiting.outdated() == []
    waiting.wake(wake_events.DEVICES_TAKEN)
    (group,) = waiting.outdated()
    waiting.refresh(group)
    assert await next_one(waiting) == "a"
    assert await next_one(waiting) == ""


@with_queue
async def test_a_refresh_does_not_delay_the_next_attempt(waiting: Queue) -> None:
    entry = await refuse(waiting, "a")
    await asyncio.sleep(LONG_SECONDS)
    waiting.wake(wake_events.DEVICES_TAKEN)
    waiting.refresh(*waiting.outdated())
    assert await waiting.pop() is entry
    waiting.park(entry, "q", FOR_DEVICES, cost_seconds=1.0)
    assert waiting.outdated() == []
    waiting.wake(wake_events.DEVICES)
    assert await next_one(waiting) == "a"


@with_queue
async def test_a_line_follows_those_who_join_and_leave_it(waiting: Queue) -> None:
    for name in ("a", "b", "c"):
        waiting.add(key(name), 0)
        waiting.park(await waiting.pop(), name, FOR_DEVICES, line="gpu")
    waiting.add(key("urgent"), 5)
    waiting.park(await waiting.pop(), "urgent", FOR_DEVICES, line="gpu")
    lines = waiting.lines
    assert [each.name for each in lines.ahead_of(key("b"), 10)] == ["urgent", "a"]
    assert [each.name for each in lines.ahead_of(key("c"), 2)] == ["urgent", "a"]
    lines.take_changed(9)
    waiting.remove(key("a"))
    assert lines.changed.is_set()
    assert [each.name for each in lines.take_changed(9)] == ["urgent", "b", "c"]
    assert [each.name for each in lines.ahead_of(key("b"), 10)] == ["urgent"]
    assert lines.ahead_of(key("urgent"), 10) == []
