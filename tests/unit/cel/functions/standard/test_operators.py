"""Arithmetic, comparison, membership, indexing and size."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dray.cel.functions.standard import arithmetic, comparisons, logic
from dray.cel.runtime import values
from dray.cel.runtime.values import (
    CostExceeded,
    Duration,
    EvaluationError,
    Optional,
    Timestamp,
    UInt,
)
from tests.unit.cel.calling import call, cost, failure

MAXIMUM, MINIMUM = 2**63 - 1, -(2**63)
YEAR_ONE, YEAR_9999 = Timestamp(-62135596800 * 10**9), Timestamp(253402300799 * 10**9)


@pytest.mark.parametrize(
    ("operator", "left", "right", "result"),
    [
        ("_+_", 1, 2, 3),
        ("_+_", UInt(1), UInt(2), UInt(3)),
        ("_+_", 0.5, 0.25, 0.75),
        ("_+_", "a", "b", "ab"),
        ("_+_", b"a", b"b", b"ab"),
        ("_+_", Duration(1), Duration(2), Duration(3)),
        ("_+_", Duration(1), Timestamp(2), Timestamp(3)),
        ("_-_", Timestamp(5), Timestamp(3), Duration(2)),
        ("_-_", Timestamp(5), Duration(3), Timestamp(2)),
        ("_*_", -3, 4, -12),
        ("_/_", -7, 2, -3),
        ("_/_", 7, -2, -3),
        ("_%_", -7, 2, -1),
        ("_%_", 7, -2, 1),
        ("_/_", UInt(7), UInt(2), UInt(3)),
        ("_%_", UInt(7), UInt(2), UInt(1)),
        ("_/_", 1.0, 0.0, math.inf),
        ("_/_", 1.0, -0.0, -math.inf),
        ("_*_", 1e308, 10.0, math.inf),
    ],
)
def test_arithmetic(operator: str, left: Any, right: Any, result: Any) -> None:
    found = call(arithmetic.LIBRARY, operator, left, right)
    assert found == result
    assert found.__class__ is result.__class__


def test_zero_divided_by_zero_is_not_a_number() -> None:
    assert math.isnan(call(arithmetic.LIBRARY, "_/_", 0.0, 0.0))


@pytest.mark.parametrize(
    ("operator", "left", "right", "message"),
    [
        ("_+_", MAXIMUM, 1, "integer overflow"),
        ("_-_", MINIMUM, 1, "integer overflow"),
        ("_*_", MAXIMUM, 2, "integer overflow"),
        ("_/_", MINIMUM, -1, "integer overflow"),
        ("_%_", MINIMUM, -1, "integer overflow"),
        ("_/_", 1, 0, "division by zero"),
        ("_/_", UInt(1), UInt(0), "division by zero"),
        ("_%_", 1, 0, "modulus by zero"),
        ("_-_", UInt(0), UInt(1), "unsigned integer overflow"),
        ("_+_", UInt(2**64 - 1), UInt(1), "unsigned integer overflow"),
        ("_+_", Duration(MAXIMUM), Duration(1), "integer overflow"),
        ("_+_", YEAR_9999, Duration(10**9), "timestamp overflow"),
        ("_-_", YEAR_ONE, Duration(1), "timestamp overflow"),
        ("_-_", YEAR_9999, YEAR_ONE, "integer overflow"),
        ("_+_", 1, UInt(1), "no such overload"),
        ("_+_", 1, 1.0, "no such overload"),
        ("_+_", "a", 1, "no such overload"),
        ("_+_", True, True, "no such overload: _+_"),
        ("_+_", {}, {}, "no such overload: _+_"),
        ("_-_", "a", "b", "no such overload"),
        ("_-_", [1], [1], "no such overload: _-_"),
        ("_*_", Duration(1), 2, "no such overload"),
        ("_%_", 1.0, 1.0, "no such overload: _%_"),
    ],
)
def test_arithmetic_errors(operator: str, left: Any, right: Any, message: str) -> None:
    assert failure(arithmetic.LIBRARY, operator, left, right) == message


def test_negation() -> None:
    assert call(arithmetic.LIBRARY, "-_", 5) == -5
    assert call(arithmetic.LIBRARY, "-_", 0.5) == -0.5
    assert call(arithmetic.LIBRARY, "-_", Duration(1)) == Duration(-1)
    assert failure(arithmetic.LIBRARY, "-_", MINIMUM) == "integer overflow"
    assert failure(arithmetic.LIBRARY, "-_", True) == "no such overload"
    assert failure(arithmetic.LIBRARY, "-_", "a") == "no such overload"
    assert failure(arithmetic.LIBRARY, "-_", UInt(1)) == "no such overload: -_"


def test_adding_lists_copies_neither() -> None:
    joined = call(arithmetic.LIBRARY, "_+_", [1], (2,))
    assert list(joined) == [1, 2]
    assert call(arithmetic.LIBRARY, "_+_", [], joined) is joined
    assert call(arithmetic.LIBRARY, "_+_", joined, ()) is joined


def test_lists_cannot_outgrow_64_bits() -> None:
    joined: Any = [1]
    for _ in range(62):
        joined = call(arithmetic.LIBRARY, "_+_", joined, joined)
    with pytest.raises(CostExceeded):
        call(arithmetic.LIBRARY, "_+_", joined, joined)


def test_concatenation_costs_a_tenth_of_its_size() -> None:
    assert cost(arithmetic.LIBRARY, "add_string", "a" * 11, "b" * 10) == 3
    assert cost(arithmetic.LIBRARY, "add_int64", 1, 2) == 1
    assert cost(arithmetic.LIBRARY, "add_list", [1], [2]) == 1


@pytest.mark.parametrize(
    ("operator", "left", "right", "result"),
    [
        ("_<_", 1, 2.5, True),
        ("_<_", "a", "b", True),
        ("_<=_", UInt(2), 2, True),
        ("_>_", True, False, True),
        ("_>=_", Timestamp(1), Timestamp(1), True),
        ("_<_", b"b", b"a", False),
    ],
)
def test_order(operator: str, left: Any, right: Any, result: bool) -> None:
    assert call(comparisons.LIBRARY, operator, left, right) is result


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (1, "a", "no such overload"),
        ("a", 1, "no such overload"),
        ([1], [2], "no such overload: _<_"),
        (None, 1, "no such overload: _<_"),
        (math.nan, math.nan, "NaN values cannot be ordered"),
    ],
)
def test_order_errors(left: Any, right: Any, message: str) -> None:
    assert failure(comparisons.LIBRARY, "_<_", left, right) == message


def test_typed_comparisons_of_doubles_refuse_nan() -> None:
    with pytest.raises(EvaluationError, match="NaN values cannot be ordered"):
        cost(comparisons.LIBRARY, "less_double_int64", math.nan, 1)


def test_equality_costs_a_tenth_of_the_shorter_operand() -> None:
    assert cost(comparisons.LIBRARY, "equals", "a" * 30, "b" * 11) == 2
    assert cost(comparisons.LIBRARY, "equals", "", "b") == 0
    assert cost(comparisons.LIBRARY, "equals", 1, 1) == 1
    assert cost(comparisons.LIBRARY, "not_equals", list(range(40)), list(range(21))) == 3
    assert cost(comparisons.LIBRARY, "equals", Optional("a" * 21), Optional("a" * 30)) == 3


def test_membership() -> None:
    assert call(logic.LIBRARY, "@in", 1.0, [2, 1])
    assert call(logic.LIBRARY, "@in", "a", {"a": None})
    assert not call(logic.LIBRARY, "@in", "b", {"a": 1})
    assert not call(logic.LIBRARY, "@in", True, {1: 1})
    assert failure(logic.LIBRARY, "@in", 1, "a") == "no such overload"
    assert cost(logic.LIBRARY, "in_list", 1, [1, 2, 3]) == 3
    assert cost(logic.LIBRARY, "in_map", 1, {1: 1, 2: 2}) == 1


def test_membership_in_a_list_too_long_to_visit() -> None:
    with pytest.raises(CostExceeded):
        call(logic.LIBRARY, "@in", 5, range(10_000_000))


def test_logical_not() -> None:
    assert call(logic.LIBRARY, "!_", False) is True
    assert failure(logic.LIBRARY, "!_", 0) == "no such overload"
    assert call(logic.LIBRARY, "@not_strictly_false", EvaluationError("x")) is True
    assert call(logic.LIBRARY, "@not_strictly_false", False) is False


@pytest.mark.parametrize(("value", "size"), [("aé😀", 3), (b"\xff\x00", 2), ((), 0), ({"a": 1}, 1)])
def test_size(value: Any, size: int) -> None:
    assert call(logic.LIBRARY, "size", value) == size


def test_size_of_what_has_none() -> None:
    assert failure(logic.LIBRARY, "size", 5) == "no such overload: size"
    assert failure(logic.LIBRARY, "size", Duration(5)) == "no such overload"


def test_index() -> None:
    assert call(logic.LIBRARY, "_[_]", [10, 20], 1.0) == 20
    assert call(logic.LIBRARY, "_[_]", {"a": 1}, "a") == 1
    assert values.equal(call(logic.LIBRARY, "_[_]", Optional([10]), 0), Optional(10))
    assert failure(logic.LIBRARY, "_[_]", [1], 5) == "index out of bounds: 5"
    assert failure(logic.LIBRARY, "_[_]", [1], "a") == "unsupported index type 'string' in list"
    assert failure(logic.LIBRARY, "_[_]", {}, "a") == "no such key: a"
    assert failure(logic.LIBRARY, "_[_]", "text", "a") == "no such key: a"


@pytest.mark.parametrize(
    ("number", "printed"),
    [(0.5, "0.5"), (math.nan, "NaN"), (math.inf, "+Inf"), (-math.inf, "-Inf"), (1e300, "1e+300")],
)
def test_index_that_is_no_integer(number: float, printed: str) -> None:
    expected = f"unsupported index value {printed} in list"
    assert failure(logic.LIBRARY, "_[_]", [1], number) == expected
    assert values.find({}, number) is None


def test_optional_index() -> None:
    assert values.equal(call(logic.LIBRARY, "_[?_]", [10], 0), Optional(10))
    assert call(logic.LIBRARY, "_[?_]", [10], 1) is values.NONE
    assert call(logic.LIBRARY, "_?._", Optional({}), "a") is values.NONE
    assert call(logic.LIBRARY, "_?._", values.NONE, "a") is values.NONE
