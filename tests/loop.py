"""One event loop for all tests of a process: gRPC does not let go of the first it has seen."""

from __future__ import annotations

import asyncio
import atexit
import functools
from collections.abc import Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")


@functools.cache
def _runner() -> asyncio.Runner:
    runner = asyncio.Runner()
    atexit.register(runner.close)
    return runner


def run(work: Coroutine[Any, Any, Answer]) -> Answer:
    return _runner().run(work)
