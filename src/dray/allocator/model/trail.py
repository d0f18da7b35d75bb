"""The undo log of a search.

Whoever changes search state pushes the inverse; backtracking unwinds to a mark. A refused device
leaves no trace because the trail is unwound to the mark taken before it was tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Trail:
    __slots__ = ("_inverses",)

    def __init__(self) -> None:
        self._inverses: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def push(self, undo: Callable[..., Any], *arguments: Any) -> None:
        """Remember that `undo(*arguments)` takes back what the caller is about to do."""
        self._inverses.append((undo, arguments))

    def mark(self) -> int:
        return len(self._inverses)

    def unwind(self, mark: int) -> None:
        """Take back everything since `mark`, the latest change first."""
        inverses = self._inverses
        while len(inverses) > mark:
            undo, arguments = inverses.pop()
            undo(*arguments)
