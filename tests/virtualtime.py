"""An event loop whose time passes only when nothing is left to do: hours of waiting take no time.

For code that takes its time from the loop and speaks with nothing outside of the process. A wait
of so many seconds is then exact: whatever was due before has happened, however slow the machine.
While a thread works for the loop, time stands still.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

Answer = TypeVar("Answer")
Arguments = TypeVarTuple("Arguments")


class _Selector(selectors.DefaultSelector):
    """Skips the time for which the loop would sleep."""

    now = 0.0
    threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or (timeout > 0 and self.threads):
            return super().select(None)
        ready = super().select(0)
        if not ready:
            self.now += max(timeout, 0.0)
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Arguments], Answer], *args: *Arguments
    ) -> asyncio.Future[Answer]:
        future = super().run_in_executor(executor, func, *args)
        self._clock.threads += 1
        future.add_done_callback(self._end_thread)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Wait for the threads, without the limit that Python 3.12 has: it is over at once."""
        await super().shutdown_default_executor()

    def _end_thread(self, _: asyncio.Future[Any]) -> None:
        self._clock.threads -= 1


def run(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run to the end in a loop of its own."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)
