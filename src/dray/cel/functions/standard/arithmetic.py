"""`+ - * / %` and negation, with the overflow checks of 64 bits (cel-go types/overflow.go).

The operators look at their left operand first, as cel-go's do: a type without the operation is
one error, a right operand that does not fit is another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from dray.cel import types
from dray.cel.functions import cost_estimates, dispatching, runtime_costs
from dray.cel.functions.overloads import Library, Overload
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


def add_doubles(left: float, right: float) -> float:
    return left + right


def add_strings(left: str, right: str) -> str:
    return left + right


def add_bytes(left: bytes, right: bytes) -> bytes:
    return left + right


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


def subtract_doubles(left: float, right: float) -> float:
    return left - right


def subtract_durations(left: Duration, right: Duration) -> Duration:
    return Duration(_checked_int(left.nanoseconds - right.nanoseconds))


def subtract_timestamp_duration(left: Timestamp, right: Duration) -> Timestamp:
    return add_timestamp_duration(left, negate_duration(right))


def subtract_timestamps(left: Timestamp, right: Timestamp) -> Duration:
    return Duration(_checked_int(left.nanoseconds - right.nanoseconds))


def multiply_ints(left: int, right: int) -> int:
    return _checked_int(left * right)


def multiply_uints(left: UInt, right: UInt) -> UInt:
    return _checked_uint(int(left) * int(right))


def multiply_doubles(left: float, right: float) -> float:
    return left * right


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


def negate_double(number: float) -> float:
    return -number


def negate_duration(span: Duration) -> Duration:
    return Duration(_checked_int(-span.nanoseconds))


def _refuse(*operands: Any) -> NoReturn:
    raise values.no_such_overload()


def _operator(name: str, operations: Mapping[type, Mapping[type, Operation]]) -> Operation:
    """Choose an operation by the classes of the left and then the right operand."""

    def apply(left: Any, right: Any) -> Any:
        by_right = operations.get(left.__class__)
        if by_right is None:
            raise dispatching.missing_operation(name, left)
        return by_right.get(right.__class__, _refuse)(left, right)

    return apply


_ADD_LISTS: dict[type, Operation] = dict.fromkeys(values.LIST_CLASSES, add_lists)
_ADDITIONS: dict[type, Mapping[type, Operation]] = {
    int: {int: add_ints},
    UInt: {UInt: add_uints},
    float: {float: add_doubles},
    str: {str: add_strings},
    bytes: {bytes: add_bytes},
    Duration: {Duration: add_durations, Timestamp: add_duration_timestamp},
    Timestamp: {Duration: add_timestamp_duration},
    **dict.fromkeys(values.LIST_CLASSES, _ADD_LISTS),
}
_SUBTRACTIONS: dict[type, Mapping[type, Operation]] = {
    int: {int: subtract_ints},
    UInt: {UInt: subtract_uints},
    float: {float: subtract_doubles},
    Duration: {Duration: subtract_durations},
    Timestamp: {Duration: subtract_timestamp_duration, Timestamp: subtract_timestamps},
}
_MULTIPLICATIONS: dict[type, Mapping[type, Operation]] = {
    int: {int: multiply_ints},
    UInt: {UInt: multiply_uints},
    float: {float: multiply_doubles},
}
_DIVISIONS: dict[type, Mapping[type, Operation]] = {
    int: {int: divide_ints},
    UInt: {UInt: divide_uints},
    float: {float: divide_doubles},
}
_MODULI: dict[type, Mapping[type, Operation]] = {
    int: {int: modulo_ints},
    UInt: {UInt: modulo_uints},
}
_NEGATIONS: dict[type, Callable[[Any], Any]] = {
    int: negate_int,
    float: negate_double,
    Duration: negate_duration,
    bool: _refuse,
}

add = _operator("_+_", _ADDITIONS)
subtract = _operator("_-_", _SUBTRACTIONS)
multiply = _operator("_*_", _MULTIPLICATIONS)
divide = _operator("_/_", _DIVISIONS)
modulo = _operator("_%_", _MODULI)


def negate(operand: Any) -> Any:
    operation = _NEGATIONS.get(operand.__class__)
    if operation is None:
        raise dispatching.missing_operation("-_", operand)
    return operation(operand)


_SPAN, _TIME = types.DURATION, types.TIMESTAMP


def _same(id: str, type: Type, call: Operation) -> Overload:
    return Overload(id, (type, type), type, call)


def _joining(id: str, type: Type, call: Operation) -> Overload:
    return Overload(
        id,
        (type, type),
        type,
        call,
        estimate=cost_estimates.concatenation,
        cost=runtime_costs.scan_both,
    )


LIBRARY = Library(
    "arithmetic",
    (
        dispatching.operator(
            "_+_",
            add,
            _joining("add_bytes", types.BYTES, add_bytes),
            _same("add_double", types.DOUBLE, add_doubles),
            _same("add_duration_duration", types.DURATION, add_durations),
            Overload("add_duration_timestamp", (_SPAN, _TIME), _TIME, add_duration_timestamp),
            Overload("add_timestamp_duration", (_TIME, _SPAN), _TIME, add_timestamp_duration),
            _same("add_int64", types.INT, add_ints),
            Overload(
                "add_list",
                (_LIST, _LIST),
                _LIST,
                add_lists,
                estimate=cost_estimates.list_concatenation,
            ),
            _joining("add_string", types.STRING, add_strings),
            _same("add_uint64", types.UINT, add_uints),
        ),
        dispatching.operator(
            "_-_",
            subtract,
            _same("subtract_double", types.DOUBLE, subtract_doubles),
            _same("subtract_duration_duration", types.DURATION, subtract_durations),
            _same("subtract_int64", types.INT, subtract_ints),
            Overload(
                "subtract_timestamp_duration", (_TIME, _SPAN), _TIME, subtract_timestamp_duration
            ),
            Overload("subtract_timestamp_timestamp", (_TIME, _TIME), _SPAN, subtract_timestamps),
            _same("subtract_uint64", types.UINT, subtract_uints),
        ),
        dispatching.operator(
            "_*_",
            multiply,
            _same("multiply_double", types.DOUBLE, multiply_doubles),
            _same("multiply_int64", types.INT, multiply_ints),
            _same("multiply_uint64", types.UINT, multiply_uints),
        ),
        dispatching.operator(
            "_/_",
            divide,
            _same("divide_double", types.DOUBLE, divide_doubles),
            _same("divide_int64", types.INT, divide_ints),
            _same("divide_uint64", types.UINT, divide_uints),
        ),
        dispatching.operator(
            "_%_",
            modulo,
            _same("modulo_int64", types.INT, modulo_ints),
            _same("modulo_uint64", types.UINT, modulo_uints),
        ),
        dispatching.operator(
            "-_",
            negate,
            Overload("negate_double", (types.DOUBLE,), types.DOUBLE, negate_double),
            Overload("negate_int64", (types.INT,), types.INT, negate_int),
        ),
    ),
)
