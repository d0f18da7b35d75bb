"""Lines of pods that wait for the same devices, the next to be tried first."""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import Hashable
from typing import NamedTuple

from dray.api.ids import ObjectKey

Rank = tuple[int, int]


class _Member(NamedTuple):
    """A pod in a line; members compare as their ranks do."""

    rank: Rank
    key: ObjectKey


class WaitingLines:
    """All lines. The pods of one line ask for the same devices."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, list[_Member]] = {}
        self._members: dict[ObjectKey, tuple[Hashable, _Member]] = {}
        self._changed: dict[Hashable, None] = {}
        self.changed = asyncio.Event()
        """Set when a pod joins or leaves a line."""

    def put(self, line: Hashable, rank: Rank, key: ObjectKey) -> None:
        """Let a pod wait in a line, and in no other; None for no line."""
        member = _Member(rank, key)
        if self._members.get(key) == (line, member):
            return
        self.drop(key)
        if line is not None:
            self._members[key] = line, member
            # Sorted lists: joining and leaving move pointers, and a place is a binary search.
            bisect.insort(self._lines.setdefault(line, []), member)
            self._mark(line)

    def drop(self, key: ObjectKey) -> None:
        """Remove a pod from its line."""
        line, member = self._members.pop(key, (None, None))
        if member is None:
            return
        members = self._lines[line]
        del members[bisect.bisect_left(members, member)]
        if not members:
            del self._lines[line]
        self._mark(line)

    def ahead_of(self, key: ObjectKey, limit: int) -> list[ObjectKey]:
        """Return the pods before a pod in its line, at most `limit`."""
        line, member = self._members.get(key, (None, None))
        if member is None:
            return []
        members = self._lines[line]
        place = bisect.bisect_left(members, member)
        return [other.key for other in members[: min(place, limit)]]

    def take_changed(self, limit: int) -> list[ObjectKey]:
        """Return the first pods of each line that has changed since the last call."""
        lines = list(self._changed)
        self._changed.clear()
        self.changed.clear()
        return [member.key for line in lines for member in self._lines.get(line, ())[:limit]]

    def _mark(self, line: Hashable) -> None:
        self._changed[line] = None
        self.changed.set()
