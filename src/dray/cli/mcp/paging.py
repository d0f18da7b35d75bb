"""Parts of a JSON document that stay below a size, and the places where the rest begins.

What fits is kept whole. Of what does not fit, lists, objects and texts are cut at their end, so
that the shape of the document stays; each cut says how to get the rest.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

EMPTY_BYTES = 2
"""The size of an empty list, object or text."""
SEPARATORS_BYTES = 2
"""A comma, and the colon behind a key."""
PATH_SHOWN = 200
"""Paths are for readers; a cursor has the exact place."""

Place = tuple[int, ...]
"""A value in a document, by the positions that lead to it."""


class Truncation(NamedTuple):
    """A list, object or text of which only a part is shown."""

    path: str
    shown: int
    """Where the rest begins: elements, fields or characters before it."""
    of: int
    cursor: str


class DocumentPage(NamedTuple):
    """A part of a document, and where it was cut."""

    value: Any
    cuts: list[Truncation]


def render(value: Any) -> str:
    """Return JSON in printable ASCII: every other character is escaped."""
    return json.dumps(value, separators=(",", ":")).replace("\x7f", "\\u007f")


def part_of(document: Any, place: Place, start: int) -> DocumentPart:
    """Return a part of a document. Raises IndexError or TypeError if there is none."""
    value, path = document, ""
    for position in place:
        key, value = _children(value)[position]
        path = _joined(path, key)
    if not isinstance(value, str | list | dict):
        raise TypeError(f"{type(value).__name__} has no parts")
    return DocumentPart(value, place, path, start)


def page(part: DocumentPart, budget: int, cursor_of: Callable[[Place, int], str]) -> DocumentPage:
    """Return as much of a part as `budget` bytes can hold, together with the cuts."""
    fitter = _Fitter(cursor_of)
    return DocumentPage(fitter.fit(part, budget), fitter.cuts)


class DocumentPart(NamedTuple):
    """A value of a document from one of its elements on."""

    value: Any
    place: Place
    path: str
    start: int = 0

    @property
    def rest(self) -> Any:
        if isinstance(self.value, dict):
            return dict(itertools.islice(self.value.items(), self.start, None))
        return self.value[self.start :] if self.start else self.value

    def children(self) -> list[tuple[Any, DocumentPart]]:
        """Return the elements from `start` on with their keys or positions."""
        return [
            (key, DocumentPart(child, (*self.place, number), _joined(self.path, key)))
            for number, (key, child) in enumerate(_children(self.value))
            if number >= self.start
        ]


def _children(value: Any) -> Sequence[tuple[Any, Any]]:
    """Return the elements of a list or an object. Raises TypeError for anything else."""
    if not isinstance(value, list | dict):
        raise TypeError(f"{type(value).__name__} has no elements")
    return list(value.items() if isinstance(value, dict) else enumerate(value))


def _joined(path: str, key: Any) -> str:
    joined = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}".lstrip(".")
    return joined[:PATH_SHOWN]


def _size(value: Any) -> int:
    return len(render(value))


class _Fitter:
    def __init__(self, cursor_of: Callable[[Place, int], str]) -> None:
        self._cursor_of = cursor_of
        self.cuts: list[Truncation] = []

    def fit(self, part: DocumentPart, budget: int) -> Any:
        """Return a part whole, or cut. `budget` is at least its `_least` size."""
        rest = part.rest
        if _size(rest) <= budget or not isinstance(rest, str | list | dict):
            return rest
        at_end = len(self.cuts)
        self.cuts.append(self._cut(part, 0))
        budget -= self._cut_size(part)
        if isinstance(rest, str):
            shown: Any = _beginning(rest, budget)
        elif isinstance(rest, list):
            shown = self._elements(part, budget)
        else:
            shown = self._fields(part, budget)
        if len(shown) == len(rest):
            del self.cuts[at_end]
        else:
            self.cuts[at_end] = self._cut(part, len(shown))
        return shown

    def _elements(self, part: DocumentPart, budget: int) -> list[Any]:
        """Return the first elements; of a large one at the start, a part."""
        shown: list[Any] = []
        budget -= EMPTY_BYTES
        for _, child in part.children():
            budget -= 1
            size = _size(child.value)
            if size > budget:
                if not shown and self._least(child, size) <= budget:
                    shown.append(self.fit(child, budget))
                break
            shown.append(child.value)
            budget -= size
        return shown

    def _fields(self, part: DocumentPart, budget: int) -> dict[Any, Any]:
        """Return the first fields; what small ones leave is shared by the large ones."""
        budget -= EMPTY_BYTES
        chosen: list[tuple[int, int, Any, DocumentPart]] = []
        for key, child in part.children():
            size = _size(child.value)
            least = self._least(child, size)
            budget -= least + _size(key) + SEPARATORS_BYTES
            if budget < 0:
                budget += least + _size(key) + SEPARATORS_BYTES
                break
            chosen.append((size, least, key, child))
        shown = dict.fromkeys(key for _, _, key, _ in chosen)
        by_size = sorted(chosen, key=lambda item: item[0])
        for number, (size, least, key, child) in enumerate(by_size):
            given = min(size, least + budget // (len(by_size) - number))
            budget -= given - least
            shown[key] = self.fit(child, given)
        return shown

    def _least(self, part: DocumentPart, size: int) -> int:
        """Return the size of a value of which nothing is shown, or its own if that is smaller."""
        if not isinstance(part.value, str | list | dict):
            return size
        return min(size, EMPTY_BYTES + self._cut_size(part))

    def _cut_size(self, part: DocumentPart) -> int:
        return _size(self._cut(part, len(part.value) - part.start)._asdict()) + 1

    def _cut(self, part: DocumentPart, shown: int) -> Truncation:
        end = part.start + shown
        cursor = self._cursor_of(part.place, end)
        return Truncation(part.path, end, len(part.value), cursor)


def _beginning(text: str, budget: int) -> str:
    """Return the beginning of a text that can be written in `budget` bytes."""
    left = budget - EMPTY_BYTES
    for number, character in enumerate(text):
        left -= _size(character) - EMPTY_BYTES
        if left < 0:
            return text[:number]
    return text
