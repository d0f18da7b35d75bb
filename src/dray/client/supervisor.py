"""Restarts work that ends: for the parts of a component that have to run as long as it runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

from dray.client import lease

__all__ = ["supervise"]

log = logging.getLogger(__name__)

RESTART_SECONDS = 1.0


async def supervise(name: str, work: Callable[[], Awaitable[object]]) -> NoReturn:
    """Run `work` until cancelled. If it ends or raises, log that and start it again."""
    while True:
        try:
            await work()
        except Exception:
            lease.raise_if_cancelled()
            log.exception("%s died and is started again", name)
        else:
            log.warning("%s ended and is started again", name)
        await asyncio.sleep(RESTART_SECONDS)
