"""cel-go's set library: lists taken as sets (ext/sets.go)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dray.cel import types
from dray.cel.functions import cost_estimates, dispatching, runtime_costs
from dray.cel.functions.overloads import CallEstimate, Function, Library, Operand, Overload
from dray.cel.runtime import values

_LIST = types.list_of(types.parameter("T"))


def contains(elements: values.CelList, others: values.CelList) -> bool:
    """Return whether every one of `others` is among the elements."""
    _check_effort(elements, others)
    return all(values.contains(elements, other) for other in others)


def intersects(elements: values.CelList, others: values.CelList) -> bool:
    _check_effort(elements, others)
    return any(values.contains(others, element) for element in elements)


def equivalent(elements: values.CelList, others: values.CelList) -> bool:
    return contains(elements, others) and contains(others, elements)


def _check_effort(elements: values.CelList, others: values.CelList) -> None:
    if len(elements) * len(others) > values.COST_LIMIT:
        raise values.CostExceeded
    values.bounded(elements)
    values.bounded(others)


def _set_function(name: str, call: Callable[..., bool], passes: int) -> Function:
    def estimate(operands: Sequence[Operand]) -> CallEstimate:
        comparisons = operands[0].size_or_unknown.multiply(operands[1].size_or_unknown)
        return CallEstimate(comparisons.scale(float(passes)).add(cost_estimates.ONE))

    def cost(arguments: Sequence[Any], result: Any) -> int:
        return 1 + runtime_costs.size(arguments[0]) * runtime_costs.size(arguments[1]) * passes

    id = f"list_sets_{name}_list"
    overload = Overload(id, (_LIST, _LIST), types.BOOL, call, estimate, cost)
    return dispatching.function(f"sets.{name}", overload)


LIBRARY: Library = (
    _set_function("contains", contains, 1),
    _set_function("equivalent", equivalent, 2),
    _set_function("intersects", intersects, 1),
)
