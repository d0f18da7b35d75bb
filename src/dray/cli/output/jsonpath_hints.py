"""Finds paths of a JSONPath template that give nothing, and suggests where the name is.

kubectl prints nothing for a path without a value, and for others, such as
`.status.allocation.devices[*].device`, an error that does not give the right path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dray.cli.command_errors import JsonPathError
from dray.cli.output import jsonpath_syntax as syntax
from dray.cli.output.jsonpath import Finder
from dray.cli.output.jsonpath_syntax import Part, Path

LOOKED_AT = 100
"""The number of objects in which names are searched."""


def hints(text: str, data: Any) -> list[str]:
    """Return one sentence for each path that is empty while its last name exists nearby."""
    starts: dict[Path, list[Any]] = {}
    hits: set[Path] = set()
    for path, start, matches in _walked(syntax.parse(text), data):
        starts.setdefault(path, []).append(start)
        if matches:
            hits.add(path)
    return [
        hint
        for path, values in starts.items()
        if path not in hits and (hint := _hint(path, values[:LOOKED_AT]))
    ]


def _walked(parts: Sequence[Part], data: Any) -> Iterator[tuple[Path, Any, list[Any]]]:
    """Yield every path, each value it starts from, and the values it leads to."""
    finder = Finder(requires_keys=False)
    for part in parts:
        if isinstance(part, syntax.RangePart):
            for value in _found(finder, data, part.path):
                yield from _walked(part.parts, value)
        else:
            yield part, data, _found(finder, data, part)


def _found(finder: Finder, data: Any, path: Path) -> list[Any]:
    try:
        return finder.walk([data], path)
    except JsonPathError:
        return []


def _hint(path: Path, starts: Sequence[Any]) -> str:
    written = _written(path)
    last = path[-1] if path else None
    if not isinstance(last, syntax.FieldStep) or "?" in written:
        return ""
    meant = next(_meant(path, last.name, starts), "")
    return f"Nothing has {written}. Did you mean {meant}?" if meant else ""


def _meant(path: Path, last: str, starts: Sequence[Any]) -> Iterator[str]:
    """Yield where the first missing name is, or the last name below what exists."""
    existing = _known(path, starts)
    missing = path[existing]
    if isinstance(missing, syntax.FieldStep):
        rest = _written(path[existing + 1 :])
        yield from (place + rest for one in starts for place in _places(one, missing.name))
    beginning = _written(path[:existing])
    places = (place for one in starts for place in _places(one, last))
    yield from (place for place in places if place.startswith(beginning))


def _known(path: Path, starts: Sequence[Any]) -> int:
    """Return how many steps of a path lead to a value."""
    finder = Finder(requires_keys=False)
    lengths = range(len(path) - 1, 0, -1)
    leads = (size for size in lengths if any(_found(finder, one, path[:size]) for one in starts))
    return next(leads, 0)


def _written(path: Path) -> str:
    return "".join(map(_text, path))


def _text(step: syntax.Step) -> str:
    """Return a step as it is written, or "?" for steps that hints do not use."""
    if isinstance(step, syntax.FieldStep):
        return f".{step.name}"
    is_all = isinstance(step, syntax.Slice) and step[:3] == (None, None, None)
    return "[*]" if is_all or isinstance(step, syntax.Wildcard) else "?"


def _places(value: Any, name: str, so_far: str = "") -> Iterator[str]:
    """Yield paths to a name; the first item of a list stands for all."""
    if isinstance(value, dict):
        if name in value:
            yield f"{so_far}.{name}"
        for key, child in value.items():
            if key != "managedFields":
                yield from _places(child, name, f"{so_far}.{key}")
    elif isinstance(value, list) and value:
        yield from _places(value[0], name, f"{so_far}[*]")
