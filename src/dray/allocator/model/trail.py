"""The undo log of a search.

A check that changes its state pushes the inverse first; backtracking unwinds to a mark. A rejected
device leaves the state as it was, because the trail is unwound to the mark taken before the try.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Trail:
    """A stack of calls, each of which takes back one change."""

    __slots__ = ("_inverses",)

    def __init__(self) -> None:
        self._inverses: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def push(self, undo: Callable[..., Any], *arguments: Any) -> None:
        """Record that `undo(*arguments)` takes back the change that follows this call."""
        # Called before the change, while the arguments are still the old value.
        self._inverses.append((undo, arguments))

    def mark(self) -> int:
        return len(self._inverses)

    def unwind(self, mark: int) -> None:
        """Take back every change since `mark`, the latest first."""
        inverses = self._inverses
        while len(inverses) > mark:
            undo, arguments = inverses.pop()
            undo(*arguments)
