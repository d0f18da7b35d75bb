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
        self.answer_seconds = 0.0
        """How long answers are on their way."""

    async def send(self, request: Request) -> Response:
        if self.is_cut:
            raise errors.service_unavailable("the network is gone")
        response = await self._transport.send(request)
        await asyncio.sleep(self.answer_seconds)
        return response


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


@with_server
async def test_a_lease_counts_from_the_request_and_not_from_a_late_answer(link: Link) -> None:
    seats: list[str] = []
    now = asyncio.get_running_loop().time
    link.answer_seconds = FAST.duration_seconds * 0.8
    started = now()
    leader = asyncio.create_task(candidate(link, "a").run(lambda: leading(seats, "a")))
    await until(lambda: seats == ["a"])
    link.is_cut = True
    with pytest.raises(LeadershipLost):
        await leader
    # Two answers were late: that to the read, and that to the write.
    written = started + link.answer_seconds
    assert now() < written + FAST.duration_seconds


@with_server
async def test_work_that_does_not_stop_cannot_write_after_its_lease(link: Link) -> None:
    election = candidate(link, "a")
    own = election.as_leader(Client(Link(link._transport)))
    outcome: list[str] = []

    async def write(name: str) -> None:
        try:
            await own.create(kinds.CONFIG_MAP, {"metadata": {"name": name}}, "default")
            outcome.append("written")
        except errors.ServiceUnavailable as error:
            outcome.append(error.message)

    async def lead() -> None:
        await write("in-time")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(FAST.duration_seconds * 2)
            await write("late")
            raise

    leader = asyncio.create_task(election.run(lead))
    await until(lambda: outcome == ["written"])
    assert election.is_lease_valid
    link.is_cut = True
    with pytest.raises(LeadershipLost):
        await leader
    assert outcome == ["written", "this process no longer leads as test: not sent"]
    assert await own.get(kinds.CONFIG_MAP, "in-time", "default")
    with pytest.raises(errors.NotFound):
        await own.get(kinds.CONFIG_MAP, "late", "default")


@pytest.mark.parametrize("seconds", [(15, 15, 2), (15, 10, 10), (10, 15, 2), (15, 10, 0)])
def test_a_deadline_after_the_end_of_the_lease_is_refused(seconds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="retry < deadline < duration"):
        Timing(*seconds)
