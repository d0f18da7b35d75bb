"""Controllers try again what failed, and say so without flooding the log."""

from __future__ import annotations

import asyncio
import logging

import pytest

from dray.api import errors
from dray.client import controller
from dray.client.controller import Controller
from dray.client.queue import WorkQueue


def attempted(times: int) -> None:
    """Let a controller fail so often at one key."""

    async def run() -> None:
        done = asyncio.Event()
        tries = 0

        async def fail(_key: str) -> float | None:
            nonlocal tries
            tries += 1
            if tries == times:
                done.set()
            raise errors.internal_error(f"try {tries}")

        queue: WorkQueue[str] = WorkQueue(max_backoff_seconds=0.001)
        failing = Controller("claims", fail, queue=queue)
        queue.add("a")
        running = asyncio.ensure_future(failing.run())
        async with asyncio.timeout(30):
            await done.wait()
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(run())


def test_of_quick_retries_only_the_first_failure_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    attempted(controller.LASTING_FAILURES)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert told[0].startswith("claims: a: ")
    assert "try 1" in told[0]


def test_a_failure_that_lasts_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    attempted(controller.LASTING_FAILURES + 2)
    assert len(caplog.records) >= 2
    assert "try 11" in caplog.records[1].getMessage()
