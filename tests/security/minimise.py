"""Make an input that fails smaller, as long as it still fails."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

MAX_TRIES = 400
"""A try is one run of what fails: enough for a few hundred parts."""


def sequence(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Return a part of `items` that still fails, without chunks that are not needed."""
    size, tries = max(len(items) // 2, 1), 0
    while size and tries < MAX_TRIES:
        start = 0
        while start < len(items) and tries < MAX_TRIES:
            shorter = [*items[:start], *items[start + size :]]
            tries += 1
            if shorter and fails(shorter):
                items = shorter
            else:
                start += size
        size //= 2
    return items


def text(value: str, fails: Callable[[str], bool]) -> str:
    """Return a part of a text that still fails."""
    return "".join(sequence(value, lambda part: fails("".join(part))))


def document(value: Any, fails: Callable[[Any], bool]) -> Any:
    """Return a JSON document that still fails, without members that are not needed."""
    for _ in range(MAX_TRIES):
        smaller = next((each for each in _smaller(value) if fails(each)), None)
        if smaller is None:
            break
        value = smaller
    return value


def _smaller(value: Any) -> Iterator[Any]:
    """Copies of a document that lack one member each, whole branches first."""
    for path in sorted(_paths(value), key=len):
        made = copy.deepcopy(value)
        owner = made
        for key in path[:-1]:
            owner = owner[key]
        del owner[path[-1]]
        yield made


def _paths(value: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    members: Any = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    for key, member in members:
        yield (*prefix, key)
        yield from _paths(member, (*prefix, key))
