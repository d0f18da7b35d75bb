"""How a round of the event loop is divided between users."""

from __future__ import annotations

import asyncio

from dray.apiserver.serving import rounds
from dray.apiserver.serving.rounds import Rounds, RoundShare

FEW = 5


def test_what_does_not_fit_into_a_round_waits_for_the_next_in_order() -> None:
    async def check() -> None:
        shared, share, order = Rounds(), RoundShare(FEW * rounds.REQUEST_SECONDS), list[int]()

        async def ask(number: int) -> None:
            await shared.enter(share)
            order.append(number)

        tasks = [asyncio.create_task(ask(number)) for number in range(4 * FEW)]
        seen = []
        while len(order) < len(tasks):
            await asyncio.sleep(0)
            seen.append(len(order))
        assert order == list(range(4 * FEW))
        steps = [after - before for before, after in zip([0, *seen], seen, strict=False)]
        assert max(steps) <= FEW + 1

    asyncio.run(check())


def test_another_user_does_not_wait_for_the_delayed_requests() -> None:
    async def check() -> None:
        shared = Rounds()
        mallory, alice = RoundShare(0.001), RoundShare(0.001)
        shared.charge(mallory, 0.002)
        tasks = [asyncio.create_task(shared.enter(mallory)) for _ in range(100)]
        await asyncio.sleep(0)
        assert len(mallory.delayed) > 50
        await shared.enter(alice)
        assert mallory.delayed
        await asyncio.gather(*tasks)

    asyncio.run(check())


def test_a_delayed_request_that_is_given_up_keeps_nobody_waiting() -> None:
    async def check() -> None:
        shared, share = Rounds(), RoundShare(0.001)
        shared.charge(share, 0.002)
        first, second = (asyncio.create_task(shared.enter(share)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        async with asyncio.timeout(10):
            await second

    asyncio.run(check())
