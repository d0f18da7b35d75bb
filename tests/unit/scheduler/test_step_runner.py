"""Decisions driven from the event loop: pauses, time limits, searches in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from dray.allocator.model.rejections import NoDevices, SearchTimeout
from dray.allocator.placement import Allocator, FitResult, NoFit
from dray.scheduler import step_runner
from dray.scheduler.step_runner import Countdown, Deadline, StepRunner
from dray.scheduling.steps import DeviceSearch, SearchOutcome, Steps
from tests import loop
from tests.unit.scheduler.world import (
    World,
    claim,
    device_class,
    devices_of,
    gpu_slice,
    node,
    pod,
    template,
    world,
)

FOUND = NoFit(NoDevices())


class SlowAllocator:
    """Searches until the deadline, and finds something unless it is in the event loop."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self.threads: list[threading.Thread] = []
        self.finds = True

    def allocate_on(self, _claims: Any, _node: str) -> FitResult:
        self.threads.append(threading.current_thread())
        if self.finds and threading.current_thread() is not threading.main_thread():
            return FOUND
        while not self._deadline():
            pass
        raise SearchTimeout("timed out")


class Setting:
    def __init__(self) -> None:
        self.deadline = Deadline()
        self.runner = StepRunner(self.deadline, limits_nodes=True)
        self.allocator = SlowAllocator(self.deadline)
        self.is_closed = False

    def steps(self) -> Steps[SearchOutcome | None]:
        try:
            yield None
            return (yield DeviceSearch(cast(Allocator, self.allocator), (), "node"))
        finally:
            self.is_closed = True


def test_a_search_that_takes_long_is_repeated_in_a_thread() -> None:
    setting = Setting()
    assert loop.run(setting.runner.run(setting.steps())) is FOUND
    first, second = setting.allocator.threads
    assert first is threading.main_thread()
    assert second is not threading.main_thread()


def test_a_search_has_a_time_limit_in_the_thread_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_runner, "NODE_SECONDS", 0.01)
    setting = Setting()
    setting.allocator.finds = False
    assert isinstance(loop.run(setting.runner.run(setting.steps())), SearchTimeout)


def test_a_cancelled_search_ends_before_its_task() -> None:
    setting = Setting()
    setting.allocator.finds = False

    async def run() -> None:
        task = asyncio.ensure_future(setting.runner.run(setting.steps()))
        while len(setting.allocator.threads) < 2:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert setting.deadline(), "the thread has seen the end of its time"
        assert setting.is_closed, "the decision has undone what it tried"

    loop.run(run())


def test_other_tasks_run_while_a_decision_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_runner, "TURN_SECONDS", 0.0)
    runner, others = Setting().runner, 0

    def long_decision() -> Steps[int]:
        for _ in range(100):
            yield None
        return others

    async def run() -> int:
        nonlocal others
        task = asyncio.ensure_future(runner.run(long_decision()))
        while not task.done():
            others += 1
            await asyncio.sleep(0)
        return await task

    assert loop.run(run()) >= 50


def test_an_error_of_a_decision_reaches_the_caller() -> None:
    def broken() -> Steps[None]:
        yield None
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        loop.run(Setting().runner.run(broken()))


def test_a_countdown_starts_when_it_is_first_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("dray.scheduler.step_runner.time.perf_counter", lambda: now)
    countdown = Countdown(5.0)
    now = 200.0
    assert not countdown()
    now = 205.0
    assert not countdown()
    now = 205.1
    assert countdown()


def test_pods_are_bound_though_each_search_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_runner, "INLINE_SECONDS", -1.0)
    run_searches(fitting_pods)


def test_a_search_that_takes_too_long_is_given_up_and_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(step_runner, "INLINE_SECONDS", -1.0)
    monkeypatch.setattr(step_runner, "NODE_SECONDS", -1.0)

    async def refused(here: World) -> None:
        await here.create(device_class(), node("node-0"), gpu_slice("node-0"))
        await here.create(claim("x"), pod("p", "x"))
        await here.refused("p", "node node-0: timed out trying to allocate devices")

    run_searches(refused)


async def fitting_pods(here: World) -> None:
    await here.create(device_class(), node("node-0"), gpu_slice("node-0", 4), template("gpu"))
    for number in range(4):
        await here.create(pod(f"p{number}", template_name="gpu"))
    allocated = []
    for number in range(4):
        await here.bound(f"p{number}")
        allocated += devices_of((await here.claims_of(f"p{number}"))[0])
    assert len(set(allocated)) == 4


def run_searches(test: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        async with world() as here:
            await test(here)

    loop.run(run())
