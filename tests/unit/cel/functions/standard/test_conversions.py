"""Conversions between types."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dray.cel import types
from dray.cel.functions.standard.conversions import LIBRARY
from dray.cel.runtime.values import Duration, Timestamp, UInt
from tests.unit.cel.calling import call, cost, failure


@pytest.mark.parametrize(
    ("function", "value", "result"),
    [
        ("bool", "T", True),
        ("bool", "false", False),
        ("bytes", "é", b"\xc3\xa9"),
        ("double", 3, 3.0),
        ("double", "1_0.5e-1", 1.05),
        ("double", "0x1p-2", 0.25),
        ("double", "-Infinity", -math.inf),
        ("double", "1e-400", 0.0),
        ("duration", "1s", Duration(10**9)),
        ("int", 3.99, 3),
        ("int", -3.99, -3),
        ("int", "-0042", -42),
        ("int", "+5", 5),
        ("int", UInt(5), 5),
        ("int", Duration(1500), 1500),
        ("int", Timestamp(-1), -1),
        ("string", 1.0, "1"),
        ("string", UInt(7), "7"),
        ("string", b"abc", "abc"),
        ("string", True, "true"),
        ("string", Duration(1_500_000_000), "1.5s"),
        ("string", Timestamp(0), "1970-01-01T00:00:00Z"),
        ("timestamp", 1, Timestamp(10**9)),
        ("uint", 3.99, UInt(3)),
        ("uint", "18446744073709551615", UInt(2**64 - 1)),
        ("dyn", [1], [1]),
    ],
)
def test_conversions(function: str, value: Any, result: Any) -> None:
    found = call(LIBRARY, function, value)
    assert found == result
    assert found.__class__ is result.__class__


@pytest.mark.parametrize(
    ("function", "value", "message"),
    [
        ("bool", "yes", "type conversion error from 'string' to 'bool'"),
        ("double", "1e400", "type conversion error from 'string' to 'double'"),
        ("double", "", "type conversion error from 'string' to 'double'"),
        ("double", "1__0", "type conversion error from 'string' to 'double'"),
        ("double", " 1", "type conversion error from 'string' to 'double'"),
        ("double", "+nan", "type conversion error from 'string' to 'double'"),
        ("double", "٣", "type conversion error from 'string' to 'double'"),
        ("int", "", "type conversion error from 'string' to 'int'"),
        ("int", "-", "type conversion error from 'string' to 'int'"),
        ("int", "1_0", "type conversion error from 'string' to 'int'"),
        ("int", "9223372036854775808", "type conversion error from 'string' to 'int'"),
        ("int", "9" * 100_000, "type conversion error from 'string' to 'int'"),
        ("int", 9223372036854775807.0, "integer overflow"),
        ("int", math.nan, "integer overflow"),
        ("int", UInt(2**63), "integer overflow"),
        ("int", True, "no such overload: int(bool)"),
        ("string", b"\xff", "invalid UTF-8 in bytes, cannot convert to string"),
        ("string", [1], "no such overload: string(list)"),
        ("timestamp", 253402300800, "timestamp overflow"),
        ("uint", -1, "unsigned integer overflow"),
        ("uint", -0.5, "unsigned integer overflow"),
        ("uint", "+1", "type conversion error from 'string' to 'uint'"),
    ],
)
def test_conversion_errors(function: str, value: Any, message: str) -> None:
    assert failure(LIBRARY, function, value) == message


def test_type() -> None:
    assert call(LIBRARY, "type", UInt(1)) is types.UINT
    assert call(LIBRARY, "type", types.INT) is types.TYPE


def test_only_conversions_between_text_and_bytes_cost_more_than_one() -> None:
    assert cost(LIBRARY, "string_to_bytes", "a" * 25) == 3
    assert cost(LIBRARY, "bytes_to_string", b"a" * 25) == 3
    assert cost(LIBRARY, "int64_to_string", 10**18) == 1
