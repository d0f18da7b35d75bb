"""Moves the work on large objects and long lists to threads, so that other requests go on.

Only functions that work on what belongs to one request may be moved. Threads do not make the work
faster, as Python runs one at a time; but the event loop gets its turn after a millisecond.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

LARGE_BYTES: Final = 16 * 2**10
"""Less is worked on at once: to move it takes longer than to do it."""
MANY_ENTRIES: Final = 100
SWITCH_SECONDS: Final = 0.001

P = ParamSpec("P")
T = TypeVar("T")

Charge = Callable[[float, float], None]
"""Takes the seconds that some work took, and the time on `time.perf_counter` when it ended."""

charged_to: contextvars.ContextVar[Charge | None] = contextvars.ContextVar("charge", default=None)
"""Who is charged for the work of the current request."""

_threads: list[ThreadPoolExecutor] = []


async def call(is_large: bool, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function, in a thread if what it works on is large."""
    if not is_large:
        return function(*args, **kwargs)
    return await moved(function, *args, **kwargs)


async def moved(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in the thread that all requests share."""
    return await moved_to(_executor(), function, *args, **kwargs)


async def moved_to(
    executor: ThreadPoolExecutor, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call a function in a thread; its time is charged to the user of the request."""
    charge = charged_to.get()

    def measured() -> T:
        started = time.thread_time()
        try:
            return function(*args, **kwargs)
        finally:
            if charge is not None:
                charge(time.thread_time() - started, time.perf_counter())

    return await asyncio.get_running_loop().run_in_executor(executor, measured)


def new_executor(prefix: str) -> ThreadPoolExecutor:
    """Return one thread, from which the event loop gets its turn after a millisecond."""
    sys.setswitchinterval(SWITCH_SECONDS)
    return ThreadPoolExecutor(1, thread_name_prefix=prefix)


def _executor() -> ThreadPoolExecutor:
    if not _threads:
        _threads.append(new_executor("requests"))
    return _threads[0]
