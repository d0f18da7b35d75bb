"""Values are equal, ordered and found as cel-go's are."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dray.api.formats import quantity, semver
from dray.cel import types
from dray.cel.runtime import values
from dray.cel.runtime.values import (
    ComputedQuantity,
    Concatenation,
    CostExceeded,
    Duration,
    EvaluationError,
    Optional,
    Timestamp,
    UInt,
)

HALF = quantity.parse("500m")
ONE_TWO_THREE = semver.parse("1.2.3")


def shared_list(levels: int) -> list[Any]:
    """A list with two to the power of `levels` elements, counting those of its parts."""
    nested: list[Any] = [1]
    for _ in range(levels):
        nested = [nested, nested]
    return nested


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, UInt(1)),
        (1, 1.0),
        (UInt(1), 1.0),
        (9007199254740993, 9007199254740992.0),
        ("a", "a"),
        (b"a", b"a"),
        (None, None),
        ([1, 2], (1.0, UInt(2))),
        (range(3), [0, 1, 2]),
        (Concatenation([1], [2]), [1, 2]),
        ({"a": 1}, {"a": 1.0}),
        ({1: "x"}, {values.map_key(UInt(1)): "x"}),
        (Optional(1), Optional(1.0)),
        (values.NONE, values.NONE),
        (Timestamp(5, 3600), Timestamp(5)),
        (quantity.parse("1Ki"), quantity.parse("1024")),
        (semver.parse("1.2.3+a"), ONE_TWO_THREE),
        (types.list_of(types.INT), types.list_of(types.DYN)),
        (ComputedQuantity(HALF.nano, HALF.format), HALF),
    ],
)
def test_equal_across_representations(left: Any, right: Any) -> None:
    assert values.equal(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (True, 1),
        (1, True),
        (False, 0.0),
        (math.nan, math.nan),
        ("1", 1),
        ("a", b"a"),
        (None, 0),
        (0, None),
        ([1], [True]),
        ([1], [1, 1]),
        ({"a": 1}, {"b": 1}),
        ({1: "x"}, {values.map_key(True): "x"}),
        (Optional(None), values.NONE),
        (values.NONE, None),
        (Duration(1), Timestamp(1)),
        ("1.2.3", ONE_TWO_THREE),
        (types.INT, types.UINT),
    ],
)
def test_not_equal(left: Any, right: Any) -> None:
    assert not values.equal(left, right)
    assert values.not_equal(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (ONE_TWO_THREE, "1.2.3"),
        (HALF, 0.5),
        (HALF, ComputedQuantity(HALF.nano, HALF.format)),
    ],
)
def test_equality_of_kubernetes_types_refuses_other_types(left: Any, right: Any) -> None:
    with pytest.raises(EvaluationError, match=r"^no such overload$"):
        values.equal(left, right)
    assert not values.is_equal(left, right)
    assert values.not_equal(left, right)


def test_a_refusal_inside_a_list_is_lost_unless_the_list_was_added() -> None:
    assert values.equal([ONE_TWO_THREE], ["x"])
    assert values.equal({"k": ONE_TWO_THREE}, {"k": "x"})
    assert not values.equal([ONE_TWO_THREE, 1], ["x", 2])
    with pytest.raises(EvaluationError):
        values.equal(Concatenation([ONE_TWO_THREE], [1]), ["x", 1])


def test_lists_that_share_their_parts_are_compared_part_by_part() -> None:
    assert values.equal(shared_list(100), shared_list(100))
    assert not values.equal(shared_list(100), [shared_list(99), shared_list(98)])


def test_lists_too_long_to_visit_are_not_compared() -> None:
    with pytest.raises(CostExceeded):
        values.equal(range(10_000_000), range(10_000_000))


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        (1, 2),
        (-1, UInt(0)),
        (1, 1.5),
        (UInt(2**64 - 1), math.inf),
        (False, True),
        ("Z", "a"),
        ("\ue000", "\U00010000"),
        (b"a", b"b"),
        (Duration(-1), Duration(0)),
        (Timestamp(0, 3600), Timestamp(1)),
    ],
)
def test_order(smaller: Any, larger: Any) -> None:
    assert values.compare(smaller, larger) == -1
    assert values.compare(larger, smaller) == 1
    assert values.compare(smaller, smaller) == 0


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (1, "a", "no such overload"),
        (True, 1, "no such overload"),
        (Duration(1), Timestamp(1), "no such overload"),
        (math.nan, 1.0, "NaN values cannot be ordered"),
        (1, math.nan, "NaN values cannot be ordered"),
    ],
)
def test_what_cannot_be_ordered(left: Any, right: Any, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        values.compare(left, right)
    assert str(caught.value) == message


def test_map_keys_of_different_types_do_not_collide() -> None:
    keys = [True, 1, UInt(1), 1.0, "1", b"1", None]
    entries = {values.map_key(key): repr(key) for key in keys}
    assert len(entries) == len(keys)
    assert list(map(repr, values.keys(entries))) == list(map(repr, keys))
    for key in keys:
        assert values.find(entries, key) == repr(key)


def test_numbers_find_keys_of_other_numeric_types() -> None:
    assert values.find({1: "int"}, UInt(1)) == "int"
    assert values.find({1: "int"}, 1.0) == "int"
    assert values.find({values.map_key(UInt(1)): "uint"}, 1) == "uint"
    assert values.find({values.map_key(UInt(1)): "uint"}, 1.0) == "uint"
    assert values.find({1: "int"}, 1.5, "missing") == "missing"
    assert values.find({1: "int"}, True, "missing") == "missing"
    assert values.find({values.map_key(1.0): "double"}, 1, "missing") == "missing"
    assert values.find({1: "int"}, [1], "missing") == "missing"


def test_a_list_is_a_key_that_nothing_finds() -> None:
    entries = {values.map_key([1]): "one", values.map_key([1]): "another"}
    assert list(values.keys(entries)) == [[1], [1]]
    assert values.find(entries, [1], "missing") == "missing"


def test_a_concatenation_is_a_list() -> None:
    joined = Concatenation(Concatenation([1, 2], [3]), (4, 5))
    assert len(joined) == 5
    assert list(joined) == [1, 2, 3, 4, 5]
    assert [joined[index] for index in range(5)] == [1, 2, 3, 4, 5]
    assert joined[1:4] == [2, 3, 4]
    assert values.type_of(joined) == types.list_of(types.DYN)


def test_concatenations_of_concatenations_take_no_space() -> None:
    joined: Any = [0, 1]
    for _ in range(60):
        joined = Concatenation(joined, joined)
    assert len(joined) == 2**61
    assert joined[2**61 - 1] == 1
    with pytest.raises(CostExceeded):
        values.bounded(joined)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null_type"),
        (True, "bool"),
        (1, "int"),
        (UInt(1), "uint"),
        (1.0, "double"),
        ("", "string"),
        (b"", "bytes"),
        ((), "list"),
        ({}, "map"),
        (Duration(0), "google.protobuf.Duration"),
        (Timestamp(0), "google.protobuf.Timestamp"),
        (values.NONE, "optional_type"),
        (types.INT, "type"),
        (HALF, "kubernetes.Quantity"),
        (ComputedQuantity(HALF.nano, HALF.format), "kubernetes.Quantity"),
        (ONE_TWO_THREE, "kubernetes.Semver"),
    ],
)
def test_type_names(value: Any, name: str) -> None:
    assert values.type_name(value) == name


def test_membership_uses_equality() -> None:
    assert values.contains((1, 2), 2.0)
    assert values.contains(("a", "b"), "b")
    assert not values.contains((1, 2), True)
    assert not values.contains(("x",), ONE_TWO_THREE)
    assert not values.contains((math.nan,), math.nan)
