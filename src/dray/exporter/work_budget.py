"""A limit on the share of time that expensive figures take."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

PAUSE = 50
"""The pause after some work, as a multiple of the time it took: 2 % of a core at most."""


class WorkBudget:
    """Is open unless work of its kind took long a short while ago."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.time = clock
        self._closed_until = 0.0

    @property
    def is_open(self) -> bool:
        return self.time() >= self._closed_until

    @contextlib.contextmanager
    def spending(self) -> Iterator[None]:
        """Measure the block, and close the budget accordingly."""
        began = self.time()
        try:
            yield
        finally:
            ended = self.time()
            until = ended + PAUSE * (ended - began)
            self._closed_until = (
                until
                if self._closed_until <= began
                else (self._closed_until + (PAUSE + 1) * (ended - began))
            )
