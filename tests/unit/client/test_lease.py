"""Leader election: one leader, and none who does not know that he is not."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable

import pytest

from dray.api import errors, kinds
from dray.api.http_messages import Request, Response, User
from dray.client.api_client import Client, InProcessTransport
from dray.client.lease import LeaderElection, LeadershipLost, Timing
from dray.store import memory
from tests import virtualtime
from tests.unit.client import servers
from tests.waiting import until

FAST = Timing(duration_seconds=1.0, deadline_seconds=0.3, retry_seconds=0.02)


class Link:
    """A transport that can be cut."""

    def __init__(self, transport: InProcessTransport) -> None:
        self._transport = transport
        self.is_cut = False

    async def send(self, request: Request) -> Response:
        if self.is_cut:
            raise errors.service_unavailable("the network is gone")
        return await self._transport.send(request)


def with_server(test: Callable[[Link], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        virtualtime.run(_run())

    async def _run() -> None:
        async with memory.open() as store:
            app = servers.open_to_all(store)
            await test(Link(InProcessTransport(app.handle, User("admin"))))

    run.__name__ = getattr(test, "__name__", "test")
    return run


def candidate(link: Link, identity: str, *, years_ahead: int = 0) -> LeaderElection:
    def now() -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=365 * years_ahead)

    return LeaderElection(Client(link), "test", identity, now=now, timing=FAST, jitter=lambda: 0.0)


async def leading(seats: list[str], name: str) -> None:
    seats.append(name)
    try:
        await asyncio.Event().wait()
    finally:
        seats.remove(name)


@with_server
async def test_the_second_candidate_leads_when_the_first_stops(link: Link) -> None:
    seats: list[str] = []
    async with asyncio.TaskGroup() as group:
        first = group.create_task(candidate(link, "a").run(lambda: leading(seats, "a")))
        await until(lambda: seats == ["a"])
        second = group.create_task(candidate(link, "b").run(lambda: leading(seats, "b")))
        await asyncio.sleep(FAST.duration_seconds * 1.5)
        assert seats == ["a"]
        first.cancel()
        await until(lambda: seats == ["b"])
        lease = await Client(link).get(kinds.LEASE, "test", "kube-system")
        assert lease["spec"]["leaseTransitions"] == 1
        second.cancel()


@with_server
async def test_a_clock_that_is_years_ahead_does_not_make_a_leader(link: Link) -> None:
    seats: list[str] = []
    async with asyncio.TaskGroup() as group:
        first = group.create_task(candidate(link, "a").run(lambda: leading(seats, "a")))
        await until(lambda: seats == ["a"])
        ahead = candidate(link, "b", years_ahead=10)
        second = group.create_task(ahead.run(lambda: leading(seats, "b")))
        await asyncio.sleep(FAST.duration_seconds * 1.5)
        assert seats == ["a"]
        first.cancel()
        second.cancel()


@with_server
async def test_who_cannot_renew_stops_before_another_may_start(link: Link) -> None:
    seats: list[str] = []
    other = Link(link._transport)
    lost = asyncio.Event()

    async def first() -> None:
        with pytest.raises(LeadershipLost):
            await candidate(link, "a").run(lambda: leading(seats, "a"))
        assert seats == []
        lost.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(first())
        await until(lambda: seats == ["a"])
        second = group.create_task(candidate(other, "b").run(lambda: leading(seats, "b")))
        link.is_cut = True
        await until(lambda: seats == ["b"])
        assert lost.is_set()
        second.cancel()


@with_server
async def test_who_lost_a_lease_that_is_gone_now_may_lead_again(link: Link) -> None:
    seats: list[str] = []
    election = candidate(link, "a")
    first = asyncio.create_task(election.run(lambda: leading(seats, "a")))
    await until(lambda: seats == ["a"])
    link.is_cut = True
    with pytest.raises(LeadershipLost):
        async with asyncio.timeout(10):
            await first
    link.is_cut = False
    await Client(link).delete(kinds.LEASE, "test", "kube-system")
    again = asyncio.create_task(election.run(lambda: leading(seats, "a")))
    await until(lambda: seats == ["a"])
    again.cancel()


@with_server
async def test_who_stands_by_knows_that_somebody_leads(link: Link) -> None:
    seats: list[str] = []
    leader, other = candidate(link, "a"), candidate(link, "b")
    assert not other.is_standing_by
    async with asyncio.TaskGroup() as group:
        first = group.create_task(leader.run(lambda: leading(seats, "a")))
        await until(lambda: seats == ["a"])
        second = group.create_task(other.run(lambda: leading(seats, "b")))
        await until(lambda: other.is_standing_by)
        assert not leader.is_standing_by
        first.cancel()
        await until(lambda: seats == ["b"])
        assert not other.is_standing_by
        second.cancel()


@with_server
async def test_leading_ends_when_the_work_is_done(link: Link) -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    await candidate(link, "a").run(work)
    lease = await Client(link).get(kinds.LEASE, "test", "kube-system")
    assert not lease["spec"].get("holderIdentity")


@with_server
async def test_who_is_cancelled_while_it_loses_the_lease_is_over(link: Link) -> None:
    election = candidate(link, "a")

    async def lead() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            # The lease is lost, and in the same moment somebody wants us to end.
            task.cancel()

    task = asyncio.create_task(election.run(lead))
    await until(lambda: election.is_leading)
    link.is_cut = True
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await task
