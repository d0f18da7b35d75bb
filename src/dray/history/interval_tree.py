"""A relational interval tree: periods in ordinary indexes, found by a time or a span of times.

After Kriegel, Pötke and Seidl, "Managing Intervals Efficiently in Object-Relational Databases"
(2000). The numbers are thought of as a binary tree, in which every period belongs to its *fork*:
the first bits that both ends have in common, then a one and zeros. A period that contains a time
has its fork among the at most `LEVELS` ancestors of that time, so that a few ranges of an index on
fork, since and until find it, however long ago it began.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "Ancestors",
    "ancestors",
    "fork",
]

LEVELS = 43
"""Enough for milliseconds until the year 2248."""


class Ancestors(NamedTuple):
    """The forks of all periods that may contain a time."""

    later: tuple[int, ...]
    """A period of these contains the time if it begins in time."""
    earlier: tuple[int, ...]
    """A period of these contains the time if it does not end before."""


def fork(since: int, until: int) -> int:
    """Return the fork of a period, both ends included."""
    if since == until:
        return since
    level = (since ^ until).bit_length() - 1
    return until >> level << level


def ancestors(time: int) -> Ancestors:
    later, earlier = [], {time}
    for level in range(LEVELS):
        if time >> level & 1:
            earlier.add(time >> level << level)
        else:
            later.append((time >> level | 1) << level)
    return Ancestors(tuple(later), tuple(sorted(earlier)))
