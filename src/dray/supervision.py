"""Restarts of work that has to go on: loops, caches, agents, whole components."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

__all__ = ["raise_if_cancelled", "run_forever", "run_until_done"]

log = logging.getLogger(__name__)

RESTART_SECONDS = 1.0

Work = Callable[[], Awaitable[None]]
FailureReport = Callable[[BaseException], None]


async def run_forever(name: str, work: Work) -> None:
    """Run `work` until cancelled; whenever it fails or ends, log that and start it again."""
    while True:
        await run_until_done(name, work)
        log.warning("%s ended and is restarted", name)
        await asyncio.sleep(RESTART_SECONDS)


async def run_until_done(
    name: str,
    work: Work,
    restart_on: tuple[type[Exception], ...] = (Exception,),
    *,
    report: FailureReport | None = None,
    max_seconds: float = RESTART_SECONDS,
) -> None:
    """Run `work` until it returns; whenever it fails, log that and start it again.

    `report` is called with each failure. The pause doubles after each, up to `max_seconds`. Errors
    other than those of `restart_on`, alone or in an exception group, are raised.
    """
    pause = RESTART_SECONDS
    while (failure := await _failure(name, work, restart_on)) is not None:
        # Work that fails while it is cancelled raises only its failure.
        raise_if_cancelled()
        if report is not None:
            report(failure)
        await asyncio.sleep(pause)
        pause = min(pause * 2, max_seconds)


async def _failure(
    name: str, work: Work, restart_on: tuple[type[Exception], ...]
) -> BaseException | None:
    failure: BaseException | None = None
    try:
        # In a task of its own: until Python 3.13, a task group of which a task fails leaves the
        # task around it marked as cancelled, and `raise_if_cancelled` would end the supervision.
        await asyncio.create_task(_awaited(work), name=name)
    except* restart_on as failures:
        failure = _only(failures)
        if not _is_cancelled():
            log.error("%s failed and is restarted", name, exc_info=failure)
    return failure


async def _awaited(work: Work) -> None:
    await work()


def _only(failures: BaseExceptionGroup[Exception]) -> BaseException:
    """Return the error that was raised: `except*` puts a single one into a group."""
    single = len(failures.exceptions) == 1 and not failures.message
    return failures.exceptions[0] if single else failures


def raise_if_cancelled() -> None:
    """Raise CancelledError if the current task has been cancelled."""
    if _is_cancelled():
        raise asyncio.CancelledError


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
