"""cel-go's extension library for lists, version 3 (ext/lists.go)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from dray.cel import types
from dray.cel.functions import cost_estimates, dispatching, runtime_costs
from dray.cel.functions.dispatching import function, operator
from dray.cel.functions.overloads import (
    UNBOUNDED,
    CallEstimate,
    Function,
    Library,
    Operand,
    Overload,
    Range,
    member,
)
from dray.cel.functions.prices import Price
from dray.cel.runtime import values
from dray.cel.runtime.values import EvaluationError
from dray.cel.types import INT, Kind, Type, list_of

_T = types.parameter("T")
_LIST = list_of(_T)
_DYNAMIC_LIST = list_of(types.DYN)
COMPARABLE = (
    types.INT,
    types.UINT,
    types.DOUBLE,
    types.BOOL,
    types.DURATION,
    types.TIMESTAMP,
    types.STRING,
    types.BYTES,
)
_TEXTUAL = frozenset({Kind.STRING, Kind.BYTES})

_MAXIMUM_RANGE = 10_000_000
_MAXIMUM_FLAT = 100_000
"""No list is flattened to more elements: upstream charges for the nested list only."""


def slice(elements: values.CelList, start: int, end: int) -> values.CelList:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if len(elements) < end:
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(elements)}")
    if end - start > values.COST_LIMIT:
        raise values.CostExceeded
    return elements[start:end]


def flatten(elements: Any, depth: Any = 1) -> list[Any]:
    if elements.__class__ not in values.LIST_CLASSES or depth.__class__ is not int:
        raise EvaluationError(_flatten_refusal(elements, depth))
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Any] = []
    _flatten_into(flat, elements, depth, values.StepBudget(_MAXIMUM_FLAT))
    return flat


def _flatten_refusal(elements: Any, depth: Any) -> str:
    parameter = "" if depth == 1 else values.type_of(depth)
    return f"no such overload: {values.type_of(elements)}.flatten({parameter})"


def _flatten_into(
    flat: list[Any], elements: values.CelList, depth: int, effort: values.StepBudget
) -> None:
    effort.spend(len(elements))
    for element in elements:
        if depth and element.__class__ in values.LIST_CLASSES:
            _flatten_into(flat, element, depth - 1, effort)
        else:
            flat.append(element)


def sort(elements: Any) -> values.CelList:
    if elements.__class__ not in values.LIST_CLASSES:
        raise dispatching.missing_operation("sort", elements)
    return sort_by_keys(elements, elements)


def sort_by_keys(elements: Any, keys: Any) -> values.CelList:
    """Return the elements in the order of their keys, those with equal keys as they were."""
    if elements.__class__ not in values.LIST_CLASSES:
        raise dispatching.missing_operation("@sortByAssociatedKeys", elements)
    if len(elements) != len(keys):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {len(elements)} and {len(keys)} elements respectively"
        )
    if not elements:
        return elements  # type: ignore[no-any-return]
    _check_sortable(keys)
    by_key = functools.cmp_to_key(_compare_pairs)
    pairs = sorted(zip(keys, elements, strict=True), key=by_key)
    return [element for _, element in pairs]


def _check_sortable(keys: values.CelList) -> None:
    _check_quadratic_effort(len(keys))
    first = keys[0].__class__
    if first not in values.COMPARABLE:
        raise EvaluationError("list elements must be comparable")
    if any(key.__class__ is not first for key in keys):
        raise EvaluationError("list elements must have the same type")


def _compare_pairs(one: tuple[Any, Any], other: tuple[Any, Any]) -> int:
    try:
        return values.compare(one[0], other[0])
    except EvaluationError:
        # NaN: cel-go takes "not less" for an answer.
        return 0


def _check_quadratic_effort(count: int) -> None:
    if 2 * count * count > values.COST_LIMIT:
        raise values.CostExceeded


def make_range(count: int) -> range:
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > _MAXIMUM_RANGE:
        raise EvaluationError(
            f"lists.range: size {count} exceeds maximum allowed ({_MAXIMUM_RANGE})"
        )
    return range(count)


def reverse(elements: values.CelList) -> list[Any]:
    return list(values.bounded(elements))[::-1]


def distinct(elements: values.CelList) -> values.CelList:
    if not elements:
        return elements
    _check_quadratic_effort(len(elements))
    unique: list[Any] = []
    for element in elements:
        if not any(values.is_equal(element, other) for other in unique):
            unique.append(element)
    return unique


def _slice_estimate(operands: Sequence[Operand]) -> CallEstimate:
    start = cost_estimates.literal_unsigned(operands[1], 0)
    end = cost_estimates.literal_unsigned(operands[2], operands[0].size_or_unknown.high)
    return cost_estimates.list_creation(1, Range.exactly(cost_estimates.wrapped(end - start)))


def _range_estimate(operands: Sequence[Operand]) -> CallEstimate:
    count = cost_estimates.literal_unsigned(operands[0], UNBOUNDED)
    return cost_estimates.list_creation(1, Range.exactly(count))


def _reverse_estimate(operands: Sequence[Operand]) -> CallEstimate:
    return cost_estimates.list_creation(1, operands[0].size_or_unknown)


def _flatten_estimate(operands: Sequence[Operand]) -> CallEstimate:
    depth = cost_estimates.literal_unsigned(operands[1], UNBOUNDED) if len(operands) > 1 else 1
    return cost_estimates.list_creation(float(depth), operands[0].size_or_unknown)


def _output_cost(arguments: Sequence[Any], result: Any) -> int:
    return runtime_costs.list_creation(1, runtime_costs.size(result))


def _flatten_cost(arguments: Sequence[Any], result: Any) -> int:
    depth = arguments[1] if len(arguments) > 1 else 1
    factor = float(depth) if depth.__class__ is int and depth >= 0 else 1.0
    return runtime_costs.list_creation(factor, runtime_costs.size(arguments[0]))


def _quadratic(keys: int, estimated_factor: float = 2.0) -> Price:
    """Return the price of comparing all keys with each other; `keys` is their argument."""

    def estimate(operands: Sequence[Operand]) -> CallEstimate:
        size = operands[keys].size_or_unknown
        return cost_estimates.list_creation(estimated_factor, size.multiply(size))

    def cost(arguments: Sequence[Any], result: Any) -> int:
        compared = arguments[keys] if arguments[keys].__class__ in values.LIST_CLASSES else ()
        is_textual = compared and compared[0].__class__ in (str, bytes)
        factor = 2.0 + runtime_costs.STRING_FACTOR if is_textual else 2.0
        return runtime_costs.list_creation(factor, len(compared) * len(compared))

    return estimate, cost


def _sorting(name: str, id: str, keys: int, call: Callable[..., Any]) -> Function:
    """Return a function with an overload for each ordered type; `keys` is the argument of keys."""
    overloads = []
    for type in COMPARABLE:
        factor = 2.0 + runtime_costs.STRING_FACTOR if type.kind in _TEXTUAL else 2.0
        ordered = list_of(type)
        arguments: tuple[Type, ...] = (_LIST, ordered) if keys else (ordered,)
        price = _quadratic(keys, factor)
        overloads.append(member(f"list_{type.name}_{id}", arguments, arguments[0], call, *price))
    return operator(name, call, *overloads)


_SLICE = (_slice_estimate, _output_cost)
_FLATTEN = (_flatten_estimate, runtime_costs.with_output(_flatten_cost))
_RANGE = (_range_estimate, _output_cost)
_REVERSE = (_reverse_estimate, _output_cost)

LIBRARY: Library = (
    function("slice", member("list_slice", (_LIST, INT, INT), _LIST, slice, *_SLICE)),
    operator(
        "flatten",
        flatten,
        member("list_flatten", (list_of(_LIST),), _LIST, flatten, *_FLATTEN),
        member("list_flatten_int", (_DYNAMIC_LIST, INT), _DYNAMIC_LIST, flatten, *_FLATTEN),
    ),
    _sorting("sort", "sort", 0, sort),
    _sorting("@sortByAssociatedKeys", "sortByAssociatedKeys", 1, sort_by_keys),
    function("lists.range", Overload("lists_range", (INT,), list_of(INT), make_range, *_RANGE)),
    function("reverse", member("list_reverse", (_LIST,), _LIST, reverse, *_REVERSE)),
    function("distinct", member("list_distinct", (_LIST,), _LIST, distinct, *_quadratic(0))),
)
