"""Kubernetes' list library: isSorted, sum, min, max, indexOf, lastIndexOf, includes.

See apiserver, cel/library/lists.go.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from dray.cel.functions import cost_estimates, prices, runtime_costs
from dray.cel.functions.dispatching import charged
from dray.cel.functions.extensions.lists import COMPARABLE
from dray.cel.functions.overloads import Library, Overload, member
from dray.cel.functions.standard import arithmetic
from dray.cel.runtime import values
from dray.cel.runtime.values import Duration, EvaluationError, UInt
from dray.cel.types import (
    BOOL,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    UINT,
    Type,
    display_name,
    list_of,
    parameter,
)

_A = parameter("A")
_ZEROS = {INT: 0, UINT: UInt(0), DOUBLE: 0.0, DURATION: Duration(0)}


def _comes_after(one: Any, other: Any) -> bool:
    """Return whether cel-go's comparison returns "greater"; an error counts as False."""
    try:
        return values.compare(one, other) > 0
    except EvaluationError:
        return False


def is_sorted(elements: values.CelList) -> bool:
    previous: Any = values.MISSING
    for element in values.bounded(elements):
        if element.__class__ not in values.COMPARABLE:
            raise values.no_such_overload()
        if previous is not values.MISSING and _comes_after(previous, element):
            return False
        previous = element
    return True


def smallest(elements: values.CelList) -> Any:
    return _extreme("min", elements, _comes_after)


def largest(elements: values.CelList) -> Any:
    return _extreme("max", elements, lambda best, element: _comes_after(element, best))


def _extreme(name: str, elements: values.CelList, is_better: Callable[[Any, Any], bool]) -> Any:
    """Return the first of the best elements."""
    best: Any = values.MISSING
    for element in values.bounded(elements):
        if element.__class__ not in values.COMPARABLE:
            raise values.no_such_overload()
        if best is values.MISSING or is_better(best, element):
            best = element
    if best is values.MISSING:
        raise EvaluationError(f"{name} called on empty list")
    return best


def _sum_from(zero: Any) -> Callable[[values.CelList], Any]:
    def sum(elements: values.CelList) -> Any:
        return functools.reduce(arithmetic.add, values.bounded(elements), zero)

    return sum


def index_of(elements: values.CelList, value: Any) -> int:
    for position, element in enumerate(values.bounded(elements)):
        if values.is_equal(element, value):
            return position
    return -1


def last_index_of(elements: values.CelList, value: Any) -> int:
    candidates = list(values.bounded(elements))
    for position in range(len(candidates) - 1, -1, -1):
        if values.is_equal(candidates[position], value):
            return position
    return -1


def includes(target: Any, value: Any) -> bool:
    """Return whether a list has a value, or whether a value that is not a list equals it."""
    if target.__class__ not in values.LIST_CLASSES:
        return values.is_equal(target, value)
    if value.__class__ is str and target.__class__ is tuple:
        return value in target
    return any(values.is_equal(element, value) for element in values.bounded(target))


def _aggregate(id: str, element: Type, call: Callable[..., Any]) -> Overload:
    """Return an overload for a list that returns a value of the elements' type."""
    id = id.format(display_name(element))
    return member(id, (list_of(element),), element, call, *prices.TRAVERSAL)


def _sortedness(element: Type) -> Overload:
    id = f"list_{display_name(element)}_is_sorted_bool"
    return member(id, (list_of(element),), BOOL, is_sorted, *prices.TRAVERSAL)


def _search(id: str, call: Callable[..., int]) -> Overload:
    return member(id, (list_of(_A), _A), INT, call, *prices.TRAVERSAL)


LIBRARY: Library = (
    charged("isSorted", *map(_sortedness, COMPARABLE)),
    charged(
        "sum",
        *(_aggregate("list_{0}_sum_{0}", type, _sum_from(zero)) for type, zero in _ZEROS.items()),
    ),
    charged("max", *(_aggregate("list_{0}_max_{0}", type, largest) for type in COMPARABLE)),
    charged("min", *(_aggregate("list_{0}_min_{0}", type, smallest) for type in COMPARABLE)),
    charged("indexOf", _search("list_a_index_of_int", index_of)),
    charged("lastIndexOf", _search("list_a_last_index_of_int", last_index_of)),
)

_INCLUDES_PRICE = (cost_estimates.traversal_of_list, runtime_costs.traversal)
INCLUDES: Library = (
    charged(
        "includes", member("list_includes_dyn_dyn", (DYN, DYN), BOOL, includes, *_INCLUDES_PRICE)
    ),
)
"""Apart from the rest: new expressions may use it only under a feature gate."""
