"""Work that fails or ends is started again, until it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from dray import supervision
from tests.waiting import until


@pytest.fixture(autouse=True)
def _without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "RESTART_SECONDS", 0.001)


class Scripted:
    """Work that does one step after the other, one per start, and then waits for ever."""

    def __init__(self, *steps: Callable[[], Awaitable[None]]) -> None:
        self._steps = list(steps)
        self.starts = 0

    async def run(self) -> None:
        self.starts += 1
        if self._steps:
            await self._steps.pop(0)()
        else:
            await asyncio.Event().wait()


async def fail() -> None:
    raise RuntimeError("a bug")


async def fail_in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(fail())


async def end() -> None:
    pass


def supervise(work: Scripted, starts: int) -> None:
    async def run() -> None:
        task = asyncio.create_task(supervision.run_forever("work", work.run))
        await until(lambda: work.starts == starts, "the last start")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


def test_work_that_fails_is_started_again(caplog: pytest.LogCaptureFixture) -> None:
    supervise(Scripted(fail, fail_in_a_group), starts=3)
    assert [record.message for record in caplog.records] == ["work failed and is restarted"] * 2
    first, second = (record.exc_info for record in caplog.records)
    assert first is not None
    assert isinstance(first[1], RuntimeError)
    assert second is not None
    assert isinstance(second[1], ExceptionGroup)


def test_work_that_ends_is_started_again(caplog: pytest.LogCaptureFixture) -> None:
    supervise(Scripted(end), starts=2)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "work ended and is restarted")
    ]


def test_a_restart_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "RESTART_SECONDS", 30.0)
    work = Scripted(fail)

    async def run() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await supervision.run_forever("work", work.run)

    asyncio.run(run())
    assert work.starts == 1


def test_work_that_fails_while_it_is_cancelled_is_not_started_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    entered = asyncio.Event()

    async def failing() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(60))
            try:
                entered.set()
                await asyncio.Event().wait()
            finally:
                raise RuntimeError("a bug at the end")

    async def run() -> None:
        task = asyncio.create_task(supervision.run_forever("failing", failing))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(10):
                await task

    asyncio.run(run())
    assert not caplog.records


def test_work_that_may_end_ends(caplog: pytest.LogCaptureFixture) -> None:
    work = Scripted(fail, end)
    asyncio.run(supervision.run_until_done("work", work.run))
    assert work.starts == 2
    assert len(caplog.records) == 1


@pytest.mark.parametrize("step", [fail, fail_in_a_group])
def test_an_error_that_nobody_expects_is_raised(step: Callable[[], Awaitable[None]]) -> None:
    work = Scripted(step)
    with pytest.raises((RuntimeError, ExceptionGroup)):
        asyncio.run(supervision.run_until_done("work", work.run, (OSError,)))
    assert work.starts == 1
