"""`+ - * / %` and negation, with the overflow checks of 64 bits (cel-go types/overflow.go).

The operators look at their left operand first, as cel-go's do: a type without the operation is
one error, a right operand that does not fit is another.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from dray.cel import types
from dray.cel.functions import cost_estimates, dispatching, prices
from dray.cel.functions.overloads import Function, Library, Overload
from dray.cel.runtime import times, values
from dray.cel.runtime.values import Concatenation, Duration, EvaluationError, Timestamp, UInt
from dray.cel.types import Type

Operation = Callable[[Any, Any], Any]

_LIST = types.list_of(types.parameter("A"))


def _checked_int(number: int) -> int:
    if values.MINIMUM_INT <= number <= values.MAXIMUM_INT:
        return number
    raise EvaluationError("integer overflow")


def _checked_uint(number: int) -> UInt:
    if 0 <= number <= values.MAXIMUM_UINT:
        return UInt(number)
    raise EvaluationError("unsigned integer overflow")


def add_ints(left: int, right: int) -> int:
    return _checked_int(left + right)


def add_uints(left: UInt, right: UInt) -> UInt:
    return _checked_uint(int(left) + int(right))


def add_lists(left: values.CelList, right: values.CelList) -> values.CelList:
    if not left:
        return right
    if not right:
        return left
    if len(left) + len(right) > values.MAXIMUM_INT:
        raise values.CostExceeded
    return Concatenation(left, right)


def add_durations(left: Duration, right: Duration) -> Duration:
    return Duration(_checked_int(left.nanoseconds + right.nanoseconds))


def add_timestamp_duration(left: Timestamp, right: Duration) -> Timestamp:
    return times.timestamp_at(left.nanoseconds + right.nanoseconds, left.offset_seconds)


def add_duration_timestamp(left: Duration, right: Timestamp) -> Timestamp:
    return add_timestamp_duration(right, left)


def subtract_ints(left: int, right: int) -> int:
    return _checked_int(left - right)


def subtract_uints(left: UInt, right: UInt) -> UInt:
    return _checked_uint(int(left) - int(right))


def difference(left: Duration | Timestamp, right: Duration | Timestamp) -> Duration:
    return Duration(_checked_int(left.nanoseconds - right.nanoseconds))


def subtract_timestamp_duration(left: Timestamp, right: Duration) -> Timestamp:
    return add_timestamp_duration(left, negate_duration(right))


def multiply_ints(left: int, right: int) -> int:
    return _checked_int(left * right)


def multiply_uints(left: UInt, right: UInt) -> UInt:
    return _checked_uint(int(left) * int(right))


def divide_ints(left: int, right: int) -> int:
    if not right:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return _checked_int(quotient if (left < 0) == (right < 0) else -quotient)


def divide_uints(left: UInt, right: UInt) -> UInt:
    if not right:
        raise EvaluationError("division by zero")
    return UInt(int(left) // int(right))


def divide_doubles(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or math.isnan(left) or math.isnan(right):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def modulo_ints(left: int, right: int) -> int:
    if not right:
        raise EvaluationError("modulus by zero")
    if left == values.MINIMUM_INT and right == -1:
        raise EvaluationError("integer overflow")
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def modulo_uints(left: UInt, right: UInt) -> UInt:
    if not right:
        raise EvaluationError("modulus by zero")
    return UInt(int(left) % int(right))


def negate_int(number: int) -> int:
    return _checked_int(-number)


def negate_duration(span: Duration) -> Duration:
    return Duration(_checked_int(-span.nanoseconds))


_CLASSES: dict[Type, frozenset[type]] = {
    types.INT: frozenset({int}),
    types.UINT: frozenset({UInt}),
    types.DOUBLE: frozenset({float}),
    types.STRING: frozenset({str}),
    types.BYTES: frozenset({bytes}),
    types.DURATION: frozenset({Duration}),
    types.TIMESTAMP: frozenset({Timestamp}),
    _LIST: values.LIST_CLASSES,
}


def _operator(name: str, *overloads: Overload) -> Function:
    """Return an operator that looks at the class of the left and then of the right operand."""
    operations: dict[type, dict[type, Operation]] = {}
    for overload in overloads:
        left_type, right_type = overload.arguments
        for left_class in _CLASSES[left_type]:
            by_right = dict.fromkeys(_CLASSES[right_type], overload.call)
            operations.setdefault(left_class, {}).update(by_right)

    def apply(left: Any, right: Any) -> Any:
        by_right = operations.get(left.__class__)
        if by_right is None:
            raise dispatching.missing_operation(name, left)
        return by_right.get(right.__class__, dispatching.refuse)(left, right)

    return dispatching.operator(name, apply, *overloads)


_NEGATIONS: dict[type, Callable[[Any], Any]] = {
    int: negate_int,
    float: operator.neg,
    Duration: negate_duration,
    bool: dispatching.refuse,
}


def negate(operand: Any) -> Any:
    operation = _NEGATIONS.get(operand.__class__)
    if operation is None:
        raise dispatching.missing_operation("-_", operand)
    return operation(operand)


def _same(id: str, type: Type, call: Operation) -> Overload:
    return Overload(id, (type, type), type, call)


def _joining(id: str, type: Type) -> Overload:
    return Overload(id, (type, type), type, operator.add, *prices.CONCATENATION)


_SPAN, _TIME = types.DURATION, types.TIMESTAMP
_ADDITION = _operator(
    "_+_",
    _joining("add_bytes", types.BYTES),
    _same("add_double", types.DOUBLE, operator.add),
    _same("add_duration_duration", _SPAN, add_durations),
    Overload("add_duration_timestamp", (_SPAN, _TIME), _TIME, add_duration_timestamp),
    Overload("add_timestamp_duration", (_TIME, _SPAN), _TIME, add_timestamp_duration),
    _same("add_int64", types.INT, add_ints),
    Overload("add_list", (_LIST, _LIST), _LIST, add_lists, cost_estimates.list_concatenation),
    _joining("add_string", types.STRING),
    _same("add_uint64", types.UINT, add_uints),
)
add = _ADDITION.dispatch

LIBRARY: Library = (
    _ADDITION,
    _operator(
        "_-_",
        _same("subtract_double", types.DOUBLE, operator.sub),
        _same("subtract_duration_duration", _SPAN, difference),
        _same("subtract_int64", types.INT, subtract_ints),
        Overload("subtract_timestamp_duration", (_TIME, _SPAN), _TIME, subtract_timestamp_duration),
        Overload("subtract_timestamp_timestamp", (_TIME, _TIME), _SPAN, difference),
        _same("subtract_uint64", types.UINT, subtract_uints),
    ),
    _operator(
        "_*_",
        _same("multiply_double", types.DOUBLE, operator.mul),
        _same("multiply_int64", types.INT, multiply_ints),
        _same("multiply_uint64", types.UINT, multiply_uints),
    ),
    _operator(
        "_/_",
        _same("divide_double", types.DOUBLE, divide_doubles),
        _same("divide_int64", types.INT, divide_ints),
        _same("divide_uint64", types.UINT, divide_uints),
    ),
    _operator(
        "_%_",
        _same("modulo_int64", types.INT, modulo_ints),
        _same("modulo_uint64", types.UINT, modulo_uints),
    ),
    dispatching.operator(
        "-_",
        negate,
        Overload("negate_double", (types.DOUBLE,), types.DOUBLE, operator.neg),
        Overload("negate_int64", (types.INT,), types.INT, negate_int),
    ),
)
