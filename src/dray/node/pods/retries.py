"""Work for a pod that is tried again until it succeeds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from dray.api import errors
from dray.node.devices import claim_access
from dray.node.devices.drivers import DriverError
from dray.node.pods.pod_context import PodContext
from dray.node.runtimes.interface import ContainerConfigError

T = TypeVar("T")

RETRY_SECONDS: Final = 0.2
MAX_RETRY_SECONDS: Final = 60.0
_RETRIED: Final = (claim_access.NotUsable, ContainerConfigError, DriverError, errors.StatusError)


async def retry(context: PodContext, work: Callable[[], Awaitable[T]], reason: str) -> T:
    """Call `work` until it succeeds, and record each failure in an event with `reason`.

    Waits twice as long after each failure, but not beyond the moment when a driver comes or goes.
    """
    delay = RETRY_SECONDS
    while True:
        # Taken before the work: a driver that registers meanwhile ends the wait after it.
        changed = context.node.drivers.changed
        try:
            return await work()
        except _RETRIED as error:
            context.record_warning(reason, f"{error}; next try in {delay:.1f} s")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await changed.wait()
        delay = min(delay * 2, MAX_RETRY_SECONDS)
