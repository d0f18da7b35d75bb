"""Costs of calls while an expression runs (cel-go runtimecost.go, apiserver library/cost.go).

Arguments and results may be errors: their size is 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from dray.cel.functions.overloads import Cost
from dray.cel.runtime import values

STRING_FACTOR = 0.1
"""The cost of looking at one character of a string."""
REGEX_FACTOR = 0.25
"""The cost of one character of a regular expression, for each step through the string."""
LIST_CREATION = 10
MAP_CREATION = 30

_CONTAINERS: frozenset[Any] = values.LIST_CLASSES | values.MAP_CLASSES
_SIZED: frozenset[Any] = _CONTAINERS | {str, bytes}

# Upstream charges some calls far less than what they return takes to make. Beyond these sizes it is
# charged here, so that the cost limit bounds time and memory of an evaluation as well.
_FREE_CHARACTERS = 1000
_FREE_ELEMENTS = 100

AMPLIFYING = frozenset({"findAll", "flatten", "format", "replace", "split"})
"""Functions that are charged so: no estimate accounts for them, only counting does."""


def size(value: Any) -> int:
    """Return `size()` of a value or of an optional's value, 1 if it has no size."""
    if value.__class__ in _SIZED:
        return len(value)
    if value.__class__ is values.Optional and value.has_value:
        return size(value.value)
    return int(getattr(value, "cel_size", 1))


def free(arguments: Sequence[Any], result: Any) -> int:
    return 0


def scan(arguments: Sequence[Any], result: Any) -> int:
    """Charge reading every character of the first argument once."""
    return math.ceil(size(arguments[0]) * STRING_FACTOR)


def scan_second(arguments: Sequence[Any], result: Any) -> int:
    return math.ceil(size(arguments[1]) * STRING_FACTOR)


def scan_twice(arguments: Sequence[Any], result: Any) -> int:
    return math.ceil(size(arguments[0]) * 2 * STRING_FACTOR)


def scan_result_twice(arguments: Sequence[Any], result: Any) -> int:
    return math.ceil(size(result) * 2 * STRING_FACTOR)


def scan_both(arguments: Sequence[Any], result: Any) -> int:
    return math.ceil((size(arguments[0]) + size(arguments[1])) * STRING_FACTOR)


def scan_shorter(arguments: Sequence[Any], result: Any) -> int:
    return math.ceil(min(size(arguments[0]), size(arguments[1])) * STRING_FACTOR)


def search(arguments: Sequence[Any], result: Any) -> int:
    """Charge searching one string at every position of another."""
    text = math.ceil(size(arguments[0]) * STRING_FACTOR)
    return text * math.ceil(size(arguments[1]) * STRING_FACTOR)


def match(arguments: Sequence[Any], result: Any) -> int:
    """Charge running a regular expression, the second argument, over the first."""
    return match_size(size(arguments[0]), size(arguments[1]))


def match_size(text_size: int, expression_size: int) -> int:
    text = math.ceil((1.0 + text_size) * STRING_FACTOR)
    return text * math.ceil(expression_size * REGEX_FACTOR)


def traversal(arguments: Sequence[Any], result: Any) -> int:
    """Charge visiting everything inside the first argument."""
    return _traversal(arguments[0], {})


def _traversal(value: Any, costs: dict[int, int]) -> int:
    """Return the cost of visiting a value; parts that occur several times are visited once."""
    if value.__class__ is str:
        length = len(value) if value.isascii() else len(value.encode())
        return int(length * STRING_FACTOR)
    if value.__class__ is bytes:
        return int(len(value) * STRING_FACTOR)
    if value.__class__ not in _CONTAINERS:
        return 1
    if id(value) not in costs:
        costs[id(value)] = sum(_traversal(part, costs) for part in _parts(value))
    return costs[id(value)]


def _parts(container: Any) -> Iterable[Any]:
    if container.__class__ in values.LIST_CLASSES:
        return values.bounded(container)
    return (values.key_value(part) for entry in container.items() for part in entry)


def list_creation(factor: float, count: int) -> int:
    """Charge a new list and work in proportion to a number of elements."""
    return int(count * factor) + 1 + LIST_CREATION


def with_output(cost: Cost) -> Cost:
    """Charge also for a result that is larger than upstream's price covers."""

    def charge(arguments: Sequence[Any], result: Any) -> int:
        return cost(arguments, result) + _output_surcharge(result)

    return charge


def _output_surcharge(result: Any) -> int:
    produced = size(result)
    if result.__class__ is str:
        return math.ceil(produced * STRING_FACTOR) if produced > _FREE_CHARACTERS else 0
    return produced if produced > _FREE_ELEMENTS else 0
