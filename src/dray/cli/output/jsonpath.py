"""Evaluates kubectl's JSONPath templates and prints values as kubectl does."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from dray.api.formats import serialization
from dray.cli.command_errors import JsonPathError
from dray.cli.output import jsonpath_syntax as syntax
from dray.cli.output.jsonpath_syntax import Part, Path

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
}
_RELAXED = re.compile(r"\{\.?([^{}]+)\}|\.?([^{}]+)")


class Template:
    """A parsed template. A missing key gives no values, or an error with `requires_keys`."""

    def __init__(self, text: str, *, requires_keys: bool = False) -> None:
        self._parts = syntax.parse(text)
        self._finder = Finder(requires_keys)

    def render(self, data: Any) -> str:
        return "".join(self._rendered(self._parts, data))

    def find(self, data: Any) -> list[Any]:
        """Return the values of all parts, in order."""
        return [value for values in self._values(self._parts, data) for value in values]

    def _rendered(self, parts: Sequence[Part], data: Any) -> Iterator[str]:
        for values in self._values(parts, data):
            yield " ".join(map(text_of, values))

    def _values(self, parts: Sequence[Part], data: Any) -> Iterator[list[Any]]:
        for part in parts:
            if isinstance(part, syntax.RangePart):
                for value in self._finder.walk([data], part.path):
                    yield from self._values(part.parts, value)
            else:
                yield self._finder.walk([data], part)


@functools.lru_cache(maxsize=128)
def relaxed(path: str) -> Template:
    """Parse a single path, whose braces and first dot may be missing."""
    match = _RELAXED.fullmatch(path)
    if match is None:
        raise JsonPathError(
            "unexpected path string, expected a 'name1.name2' or '.name1.name2' or "
            "'{name1.name2}' or '{.name1.name2}'"
        )
    return Template(f"{{.{match[1] or match[2]}}}")


def text_of(value: Any) -> str:
    """Return a value as templates print it: lists and objects as JSON."""
    if isinstance(value, (dict, list)):
        return serialization.write_json(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


class Finder:
    """Evaluates paths. Each step leads from some values to others."""

    def __init__(self, requires_keys: bool) -> None:
        self._requires_keys = requires_keys

    def walk(self, values: list[Any], path: Path) -> list[Any]:
        for step in path:
            values = self._step(values, step)
        return values

    def _step(self, values: list[Any], step: syntax.Step) -> list[Any]:
        match step:
            case syntax.Constant(value):
                return [value for _ in values]
            case syntax.FieldStep(name):
                return self._field(values, name)
            case syntax.Wildcard():
                return [child for value in values for child in _children(value)]
            case syntax.Recursive():
                return list(_descendants(values))
            case syntax.Union(members):
                return [matches for member in members for matches in self.walk(values, member)]
            case syntax.Filter():
                return [item for value in values for item in self._filtered(value, step)]
            case syntax.Slice():
                return [item for value in values for item in _sliced(value, step)]

    def _field(self, values: list[Any], name: str) -> list[Any]:
        matches = [value[name] for value in values if isinstance(value, dict) and name in value]
        if self._requires_keys and values and not matches:
            raise JsonPathError(f"{name} is not found")
        return matches

    def _filtered(self, value: Any, step: syntax.Filter) -> Iterator[Any]:
        if not isinstance(value, list):
            raise JsonPathError(f"{text_of(value)} is not array or slice and cannot be filtered")
        return (item for item in value if self._passes(item, step))

    def _passes(self, value: Any, step: syntax.Filter) -> bool:
        left = self.walk([value], step.left)
        if not step.operator:
            return bool(left)
        if not left:
            return False
        right = self.walk([value], step.right)
        if not right:
            return False
        if len(left) > 1 or len(right) > 1:
            raise JsonPathError("can only compare one element at a time")
        return _compare(step.operator, left[0], right[0])


def _compare(symbol: str, left: Any, right: Any) -> bool:
    compare = _COMPARISONS.get(symbol)
    if compare is None:
        raise JsonPathError(f"unrecognized filter operator {symbol}")
    if type(left) is not type(right):
        raise JsonPathError("incompatible types for comparison")
    return compare(left, right)


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _descendants(values: Iterable[Any]) -> Iterator[Any]:
    """Yield every object and list below the values that is not empty, outermost first."""
    for value in values:
        if children := list(_children(value)):
            yield value
            yield from _descendants(children)


def _sliced(value: Any, step: syntax.Slice) -> list[Any]:
    """Return a slice as client-go's evalArray does: an index beyond the end is an error."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise JsonPathError(f"{text_of(value)} is not array or slice")
    start, stop = _bounds(step, len(value))
    if start == stop:
        return []
    for index in (start, stop - 1):
        if not 0 <= index < len(value):
            raise JsonPathError(f"array index out of bounds: index {index}, length {len(value)}")
    if start > stop:
        raise JsonPathError(f"starting index {start} is greater than ending index {stop}")
    if step.step is not None and step.step <= 0:
        raise JsonPathError("step must be > 0")
    return value[start : stop : step.step or 1]


def _bounds(step: syntax.Slice, length: int) -> tuple[int, int]:
    start = step.start or 0
    stop = step.stop
    if step.is_single:
        stop = start + 1
        if stop == 0:
            stop = length
    elif stop is None:
        stop = length
    return start + length if start < 0 else start, stop + length if stop < 0 else stop
