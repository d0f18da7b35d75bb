"""Conversions between types: `int()`, `string()`, `timestamp()`, `type()`, `dyn()`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from dray.cel import types
from dray.cel.functions import cost_estimates, runtime_costs
from dray.cel.functions.dispatching import function, operator
from dray.cel.functions.overloads import CallEstimate, Library, Operand, Overload, Range
from dray.cel.runtime import text_format, times, values
from dray.cel.runtime.values import Duration, EvaluationError, Timestamp, UInt
from dray.cel.types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT, Type

_A = types.parameter("A")

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})

_DIGITS = r"[0-9](?:_?[0-9])*+"
_DECIMAL = re.compile(
    rf"[+-]?(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?", re.ASCII
)
_HEXADECIMAL = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]++\.?[0-9a-fA-F]*+|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++", re.ASCII
)
_SPECIAL = re.compile(r"[+-]?inf(?:inity)?|nan", re.ASCII | re.IGNORECASE)
_INTEGER = re.compile(r"([+-]?)0*+([0-9]*+)", re.ASCII)
_MAXIMUM_DIGITS = 20


def _identity(value: Any) -> Any:
    return value


def string_to_bool(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise values.conversion_error(BOOL)


def string_to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def string_to_double(text: str) -> float:
    """Parse as Go's strconv.ParseFloat; a number that is too large is an error."""
    if _SPECIAL.fullmatch(text):
        return float(text)
    if _DECIMAL.fullmatch(text):
        number = float(text)
    elif _HEXADECIMAL.fullmatch(text):
        number = _hexadecimal(text)
    else:
        raise values.conversion_error(DOUBLE)
    if math.isinf(number):
        raise values.conversion_error(DOUBLE)
    return number


def _hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return math.inf


def string_to_int(text: str) -> int:
    number = _integer(text)
    if number is None or not values.MINIMUM_INT <= number <= values.MAXIMUM_INT:
        raise values.conversion_error(INT)
    return number


def string_to_uint(text: str) -> UInt:
    number = _integer(text) if text[:1] not in ("+", "-") else None
    if number is None or number > values.MAXIMUM_UINT:
        raise values.conversion_error(UINT)
    return UInt(number)


def _integer(text: str) -> int | None:
    match = _INTEGER.fullmatch(text)
    if not match or len(match[2]) > _MAXIMUM_DIGITS or not text[-1:].isdigit():
        return None
    magnitude = int(match[2] or "0")
    return -magnitude if match[1] == "-" else magnitude


def double_to_int(number: float) -> int:
    if not values.MINIMUM_INT < number < values.MAXIMUM_INT:
        raise EvaluationError("integer overflow")
    return int(number)


def double_to_uint(number: float) -> UInt:
    if not 0 <= number < 2**64:
        raise EvaluationError("unsigned integer overflow")
    return UInt(number)


def int_to_uint(number: int) -> UInt:
    if number < 0:
        raise EvaluationError("unsigned integer overflow")
    return UInt(number)


def uint_to_int(number: UInt) -> int:
    if number > values.MAXIMUM_INT:
        raise EvaluationError("integer overflow")
    return int(number)


def int_to_timestamp(seconds: int) -> Timestamp:
    return times.timestamp_at(seconds * times.NANOSECONDS_PER_SECOND)


def timestamp_to_int(instant: Timestamp) -> int:
    return instant.nanoseconds // times.NANOSECONDS_PER_SECOND


def duration_to_int(span: Duration) -> int:
    return span.nanoseconds


def bool_to_string(value: bool) -> str:
    return "true" if value else "false"


def bytes_to_string(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def integer_to_string(number: int) -> str:
    return str(int(number))


def _bytes_estimate(operands: Sequence[Operand]) -> CallEstimate:
    size = operands[0].size_or_unknown
    result = Range(size.low, cost_estimates.wrapped(size.high * 4))
    return CallEstimate(size.scale(runtime_costs.STRING_FACTOR), result)


def _string_estimate(operands: Sequence[Operand]) -> CallEstimate:
    size = operands[0].size_or_unknown
    return CallEstimate(size.scale(runtime_costs.STRING_FACTOR), Range(size.low // 4, size.high))


def _from(id: str, source: Type, target: Type, call: Callable[[Any], Any]) -> Overload:
    return Overload(id, (source,), target, call)


_TO_BYTES = (_bytes_estimate, runtime_costs.scan)
_TO_STRING = (_string_estimate, runtime_costs.scan)

LIBRARY: Library = (
    operator("type", values.type_of, _from("type", _A, types.type_of(_A), values.type_of)),
    operator("dyn", _identity, _from("to_dyn", _A, types.DYN, _identity)),
    function(
        "bool",
        _from("bool_to_bool", BOOL, BOOL, _identity),
        _from("string_to_bool", STRING, BOOL, string_to_bool),
    ),
    function(
        "bytes",
        _from("bytes_to_bytes", BYTES, BYTES, _identity),
        Overload("string_to_bytes", (STRING,), BYTES, string_to_bytes, *_TO_BYTES),
    ),
    function(
        "double",
        _from("double_to_double", DOUBLE, DOUBLE, _identity),
        _from("int64_to_double", INT, DOUBLE, float),
        _from("string_to_double", STRING, DOUBLE, string_to_double),
        _from("uint64_to_double", UINT, DOUBLE, float),
    ),
    function(
        "duration",
        _from("duration_to_duration", DURATION, DURATION, _identity),
        _from("string_to_duration", STRING, DURATION, times.parse_duration),
    ),
    function(
        "int",
        _from("int64_to_int64", INT, INT, _identity),
        _from("double_to_int64", DOUBLE, INT, double_to_int),
        _from("duration_to_int64", DURATION, INT, duration_to_int),
        _from("string_to_int64", STRING, INT, string_to_int),
        _from("timestamp_to_int64", TIMESTAMP, INT, timestamp_to_int),
        _from("uint64_to_int64", UINT, INT, uint_to_int),
    ),
    function(
        "string",
        _from("string_to_string", STRING, STRING, _identity),
        _from("bool_to_string", BOOL, STRING, bool_to_string),
        Overload("bytes_to_string", (BYTES,), STRING, bytes_to_string, *_TO_STRING),
        _from("double_to_string", DOUBLE, STRING, text_format.double),
        _from("duration_to_string", DURATION, STRING, text_format.duration),
        _from("int64_to_string", INT, STRING, integer_to_string),
        _from("timestamp_to_string", TIMESTAMP, STRING, text_format.timestamp),
        _from("uint64_to_string", UINT, STRING, integer_to_string),
    ),
    function(
        "timestamp",
        _from("timestamp_to_timestamp", TIMESTAMP, TIMESTAMP, _identity),
        _from("int64_to_timestamp", INT, TIMESTAMP, int_to_timestamp),
        _from("string_to_timestamp", STRING, TIMESTAMP, times.parse_timestamp),
    ),
    function(
        "uint",
        _from("uint64_to_uint64", UINT, UINT, _identity),
        _from("double_to_uint64", DOUBLE, UINT, double_to_uint),
        _from("int64_to_uint64", INT, UINT, int_to_uint),
        _from("string_to_uint64", STRING, UINT, string_to_uint),
    ),
)
