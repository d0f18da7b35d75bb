"""Work that ends is started again, until it is cancelled."""

from __future__ import annotations

import asyncio

import pytest

from dray.client import supervisor
from dray.client.supervisor import supervise
from tests.waiting import until


def test_what_dies_is_started_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = 0

    async def fragile() -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise RuntimeError("a bug")
        await asyncio.Event().wait()

    async def run() -> None:
        task = asyncio.create_task(supervise("fragile", fragile))
        await until(lambda: attempts >= 3, "the third attempt")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    monkeypatch.setattr(supervisor, "RESTART_SECONDS", 0.001)
    asyncio.run(run())
    assert caplog.text.count("fragile died") == 2


def test_what_fails_while_it_is_cancelled_is_not_started_again() -> None:
    async def failing() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(60))
            try:
                await asyncio.Event().wait()
            finally:
                raise RuntimeError("a bug at the end")

    async def run() -> None:
        task = asyncio.create_task(supervise("failing", failing))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(10):
                await task

    asyncio.run(run())
