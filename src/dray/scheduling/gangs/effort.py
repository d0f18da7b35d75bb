"""A bound on the effort of a search, which is counted and not measured."""

from __future__ import annotations

from collections.abc import Callable

TRIALS_LIMIT = 100_000
"""The nodes and devices that are tried for one gang: a few seconds of work."""


class SearchEnded(Exception):
    """A search was ended before it could tell whether the gang fits."""


class Effort:
    """Counts the trials of a search. Calling it counts one, or returns that it has to end."""

    def __init__(self, should_stop: Callable[[], bool]) -> None:
        self._should_stop = should_stop
        self.trials = 0

    def __call__(self) -> bool:
        if self.trials >= TRIALS_LIMIT or self._should_stop():
            return True
        self.trials += 1
        return False

    def spend(self) -> None:
        """Count a trial. Raises SearchEnded if there may be no further one."""
        if self():
            raise SearchEnded
