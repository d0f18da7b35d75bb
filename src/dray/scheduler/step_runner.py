"""Drives decisions from the event loop: yields to it, limits searches, moves long ones to a thread.

The caller sees to it that nothing changes the state meanwhile (`SchedulerState.exclusively`).
"""

from __future__ import annotations

import asyncio
import time
from typing import TypeVar

from dray.allocator.model.rejections import SearchTimeout
from dray.scheduling.steps import Alternatives, DeviceSearch, SearchOutcome, Steps

TURN_SECONDS = 0.005
"""The time to work before other tasks of the loop run."""
INLINE_SECONDS = 0.005
"""The time that a search may run in the loop before it is repeated in a thread."""
NODE_SECONDS = 10.0
"""The time limit of a search on one node (DynamicResourcesFilterTimeoutDefault)."""

Result = TypeVar("Result")


class Deadline:
    """A time limit that a search checks at every step. It is reached until it is set."""

    __slots__ = ("_at",)

    def __init__(self) -> None:
        self._at = 0.0

    def __call__(self) -> bool:
        return time.perf_counter() > self._at

    def set(self, seconds: float) -> None:
        """Set the limit to a time from now."""
        self._at = time.perf_counter() + seconds

    def expire(self) -> None:
        self._at = 0.0


class Countdown:
    """A time limit that starts when it is first checked."""

    __slots__ = ("_at", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._at: float | None = None

    def __call__(self) -> bool:
        now = time.perf_counter()
        if self._at is None:
            self._at = now + self._seconds
        return now > self._at


class StepRunner:
    """Runs decisions, one at a time. `deadline` has to be the `should_stop` of their allocator."""

    def __init__(self, deadline: Deadline, *, limits_nodes: bool) -> None:
        self._deadline, self._limits_nodes = deadline, limits_nodes
        self._turn_began = 0.0

    async def run(self, steps: Steps[Result]) -> Result:
        """Return the result of a decision."""
        try:
            step = next(steps)
            while True:
                outcome = None
                if step is not None:
                    self._deadline.set(INLINE_SECONDS)
                    outcome = step.run()
                    if isinstance(outcome, SearchTimeout):
                        outcome = await self._run_in_thread(step)
                if time.perf_counter() - self._turn_began > TURN_SECONDS:
                    await self._yield()
                step = steps.send(outcome)
        except StopIteration as end:
            result: Result = end.value
            return result
        finally:
            # Undoes at once what an abandoned decision has tried out in the state.
            steps.close()

    async def yield_to_loop(self) -> None:
        """Let other tasks run, if this one has worked long enough."""
        if time.perf_counter() - self._turn_began > TURN_SECONDS:
            await self._yield()

    async def _yield(self) -> None:
        await asyncio.sleep(0)
        self._turn_began = time.perf_counter()

    async def _run_in_thread(self, search: DeviceSearch | Alternatives) -> SearchOutcome:
        # The search starts again: it cannot be moved between threads in the middle, and what it
        # has done so far took no longer than a turn.
        self._deadline.set(NODE_SECONDS if self._limits_nodes else float("inf"))
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(None, search.run)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # The thread must not outlive this task: it reads what the next owner will change.
            self._deadline.expire()
            await asyncio.wait([running])
            raise
