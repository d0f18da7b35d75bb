"""Queues and turns of users."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable

import pytest

from dray.api import errors
from dray.api.http_messages import User
from dray.apiserver.access.authentication import ANONYMOUS
from dray.apiserver.serving import fairness
from dray.apiserver.serving.fairness import Dispatcher, Flow
from dray.apiserver.serving.limits import ORDINARY, SYSTEM, ServerLimits
from tests.waiting import until

MALLORY, ALICE = User("mallory"), User("alice")
ONE = dataclasses.replace(ORDINARY, running=1, waiting=2)


def run(test: Callable[[Dispatcher], Awaitable[None]], **limits: object) -> None:
    async def started() -> None:
        await test(Dispatcher(ServerLimits(**{"ordinary": ONE, **limits})))  # type: ignore[arg-type]

    asyncio.run(asyncio.wait_for(started(), 30))


def test_users_have_the_limits_of_what_they_are() -> None:
    limits = ServerLimits()
    dispatcher = Dispatcher(limits)
    assert dispatcher.flow_of(ANONYMOUS).limits is limits.anonymous
    assert dispatcher.flow_of(ALICE).limits is limits.ordinary
    assert dispatcher.flow_of(User("system:kube-scheduler")).limits is SYSTEM
    assert dispatcher.flow_of(User("n", frozenset({"system:nodes"}))).limits is SYSTEM
    admin = User("root", frozenset({"system:masters"}))
    assert dispatcher.flow_of(admin).is_exempt
    # Who impersonates counts as themselves: names that one may take on are no way around limits.
    assert dispatcher.flow_of(User("x", impersonator=ALICE)) is dispatcher.flow_of(ALICE)


def test_a_queue_is_left_in_order_and_others_do_not_wait() -> None:
    async def check(dispatcher: Dispatcher) -> None:
        flow, order = dispatcher.flow_of(MALLORY), []
        await dispatcher.enter(flow)

        async def wait(number: int) -> None:
            await dispatcher.enter(flow)
            order.append(number)
            dispatcher.leave(flow)

        tasks = [asyncio.create_task(wait(number)) for number in range(2)]
        await until(lambda: len(flow.waiting) == 2)
        with pytest.raises(errors.TooManyRequests) as refused:
            await dispatcher.enter(flow)
        assert refused.value.retry_after_seconds == 1
        other = dispatcher.flow_of(ALICE)
        await dispatcher.enter(other)
        dispatcher.leave(other)
        assert not order
        dispatcher.leave(flow)
        await asyncio.gather(*tasks)
        assert order == [0, 1]
        assert flow.running == 0

    run(check)


def test_who_leaves_the_queue_leaves_no_place_behind() -> None:
    async def check(dispatcher: Dispatcher) -> None:
        flow = dispatcher.flow_of(MALLORY)
        await dispatcher.enter(flow)
        waiting = asyncio.create_task(dispatcher.enter(flow))
        await until(lambda: flow.waiting)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert not flow.waiting
        admitted = asyncio.create_task(dispatcher.enter(flow))
        await until(lambda: flow.waiting)
        dispatcher.leave(flow)
        # It has its place but does not know yet.
        admitted.cancel()
        await asyncio.wait([admitted])
        assert flow.running == 0

    run(check)


def test_who_has_much_to_read_gets_nothing_more() -> None:
    async def check(dispatcher: Dispatcher) -> None:
        flow = dispatcher.flow_of(MALLORY)
        flow.unsent_bytes = fairness.MAX_UNSENT_BYTES + 1
        waiting = asyncio.create_task(dispatcher.enter(flow))
        await until(lambda: flow.waiting)
        dispatcher.sent(flow, flow.unsent_bytes)
        await waiting
        assert flow.running == 1

    run(check)


def test_long_steps_make_a_user_heavy_for_a_while() -> None:
    flow = Flow("mallory", ORDINARY)
    for _ in range(100):
        flow.charge(fairness.LONG_STEP_SECONDS / 2, 0.0)
    assert not flow.is_heavy(0.0)
    flow.charge(1.0, 0.0)
    assert flow.is_heavy(1.0)
    assert not flow.is_heavy(60.0)


def test_heavy_users_take_turns() -> None:
    async def check(dispatcher: Dispatcher) -> None:
        order: list[str] = []

        async def work(flow: Flow) -> None:
            for _ in range(3):
                order.append(flow.name)
                await asyncio.sleep(0)

        flows = [dispatcher.flow_of(user) for user in (MALLORY, ALICE)]
        for flow in flows:
            flow.charge(1000.0, time.perf_counter())
        # Four requests of one, and one of the other.
        mallory, alice = flows
        await asyncio.gather(
            *(dispatcher.run(flow, work(flow)) for flow in (*([mallory] * 4), alice))
        )
        # Hers are among the first, though she came last.
        assert max(n for n, name in enumerate(order) if name == "alice") <= 6

    run(check)


def test_the_work_gets_its_results_and_its_cancellation() -> None:
    async def check(dispatcher: Dispatcher) -> None:
        flow, seen = dispatcher.flow_of(MALLORY), []

        async def work() -> int:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise
            return 1

        async def quick() -> int:
            await asyncio.sleep(0)
            return 7

        for seconds in (0.0, 1000.0):
            flow.charge(seconds, time.perf_counter())
            assert await dispatcher.run(flow, quick()) == 7
            task = asyncio.create_task(dispatcher.run(flow, work()))
            await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
        assert seen == ["cancelled"] * 2
        # The turn has been given back.
        assert await dispatcher.run(flow, quick()) == 7

    run(check)


def test_users_who_have_left_are_forgotten() -> None:
    dispatcher = Dispatcher(ServerLimits())
    for number in range(5000):
        dispatcher.flow_of(User(f"user-{number}"))
    assert len(dispatcher._flows) <= 1001
