"""The list libraries of cel-go and Kubernetes, and sets."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dray.api.formats import semver
from dray.cel.functions.extensions import lists, sets
from dray.cel.functions.kubernetes import aggregates
from dray.cel.runtime import values
from dray.cel.runtime.values import Concatenation, CostExceeded, Duration, EvaluationError, UInt
from tests.unit.cel.calling import call, cost, failure, overload

VERSION = semver.parse("1.2.3")


@pytest.mark.parametrize(
    ("function", "arguments", "result"),
    [
        ("slice", ([1, 2, 3, 4], 1, 3), [2, 3]),
        ("slice", (Concatenation([1, 2], [3, 4]), 1, 3), [2, 3]),
        ("slice", ([], 0, 0), []),
        ("flatten", ([[1], [[2]], 3],), [1, [2], 3]),
        ("flatten", ([[1], [[2, [3]]]], 2), [1, 2, [3]]),
        ("flatten", ([[1]], 0), [[1]]),
        ("sort", ([3, 1, 2],), [1, 2, 3]),
        ("sort", (["b", "a"],), ["a", "b"]),
        ("sort", ([],), []),
        ("@sortByAssociatedKeys", (["a", "b", "c"], [3, 1, 2]), ["b", "c", "a"]),
        ("lists.range", (3,), [0, 1, 2]),
        ("reverse", ([1, 2],), [2, 1]),
        ("distinct", ([1, 1.0, "1", 1, [2], [2]],), [1, "1", [2]]),
    ],
)
def test_list_functions(function: str, arguments: tuple[Any, ...], result: list[Any]) -> None:
    assert list(call(lists.LIBRARY, function, *arguments)) == result


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("slice", ([1], -1, 0), "cannot slice(-1, 0), negative indexes not supported"),
        (
            "slice",
            ([1], 1, 0),
            "cannot slice(1, 0), start index must be less than or equal to end index",
        ),
        ("slice", ([1], 0, 9), "cannot slice(0, 9), list is length 1"),
        ("flatten", ([1], -1), "level must be non-negative"),
        ("flatten", (5,), "no such overload: int.flatten()"),
        ("flatten", ([1], "a"), "no such overload: list(dyn).flatten(string)"),
        ("sort", ([1, "a"],), "list elements must have the same type"),
        ("sort", ([[1]],), "list elements must be comparable"),
        ("sort", (5,), "no such overload: sort"),
        ("lists.range", (-1,), "lists.range: size must be non-negative, got -1"),
        (
            "lists.range",
            (10_000_001,),
            "lists.range: size 10000001 exceeds maximum allowed (10000000)",
        ),
        ("reverse", ("ab",), "no such overload: reverse(string)"),
    ],
)
def test_list_errors(function: str, arguments: tuple[Any, ...], message: str) -> None:
    assert failure(lists.LIBRARY, function, *arguments) == message


def test_sorting_keeps_what_cannot_be_ordered() -> None:
    assert call(lists.LIBRARY, "sort", [2.0, 1.0]) == [1.0, 2.0]
    assert len(call(lists.LIBRARY, "sort", [2.0, math.nan, 1.0])) == 3


def test_a_long_range_takes_no_space() -> None:
    assert len(call(lists.LIBRARY, "lists.range", 10_000_000)) == 10_000_000


def shared_list(levels: int) -> list[Any]:
    nested: list[Any] = [1]
    for _ in range(levels):
        nested = [nested, nested]
    return nested


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("sort", (range(2000),)),
        ("distinct", (range(2000),)),
        ("reverse", (range(2_000_000),)),
        ("slice", (range(2_000_000), 0, 1_500_000)),
        ("flatten", ([range(200_000)],)),
        ("flatten", (shared_list(100), 200)),
    ],
)
def test_work_beyond_the_cost_limit_is_not_begun(function: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(CostExceeded):
        call(lists.LIBRARY, function, *arguments)


def test_run_time_costs_of_list_functions() -> None:
    assert cost(lists.LIBRARY, "list_slice", [1, 2, 3], 0, 2) == 13
    assert cost(lists.LIBRARY, "lists_range", 5) == 16
    assert cost(lists.LIBRARY, "list_reverse", [1, 2, 3]) == 14
    assert cost(lists.LIBRARY, "list_flatten", [[1], [2]]) == 13
    assert cost(lists.LIBRARY, "list_flatten_int", [[1], [2]], 3) == 17
    assert cost(lists.LIBRARY, "list_distinct", [1, 2, 3]) == 29
    assert cost(lists.LIBRARY, "list_string_sort", ["a", "b", "c"]) == 29
    assert cost(lists.LIBRARY, "list_int_sort", [1, 2, 3]) == 29
    assert cost(lists.LIBRARY, "list_int_sortByAssociatedKeys", ["a", "b"], [2, 1]) == 19


def test_costs_are_known_where_an_argument_failed() -> None:
    problem = EvaluationError("no such key: x")
    for id in ("list_distinct", "list_int_sort", "list_flatten", "list_slice", "lists_range"):
        chosen = overload(lists.LIBRARY, id)
        assert chosen.cost
        arguments = [problem] * len(chosen.arguments)
        assert chosen.cost(arguments, problem) >= 11


@pytest.mark.parametrize(
    ("function", "elements", "result"),
    [
        ("isSorted", [1, 1, 2], True),
        ("isSorted", ["b", "a"], False),
        ("isSorted", [], True),
        ("isSorted", [2.0, math.nan, 1.0], True),
        ("sum", [1, 2], 3),
        ("sum", [], 0),
        ("sum", [0.5, 0.5], 1.0),
        ("sum", [UInt(1), UInt(2)], UInt(3)),
        ("sum", [Duration(1), Duration(2)], Duration(3)),
        ("min", [3, 1, 2], 1),
        ("max", ["a", "c", "b"], "c"),
        ("max", [False, True], True),
    ],
)
def test_aggregates(function: str, elements: list[Any], result: Any) -> None:
    assert call(aggregates.LIBRARY, function, elements) == result


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("min", ([],), "min called on empty list"),
        ("max", ([],), "max called on empty list"),
        ("sum", ([2**63 - 1, 1],), "integer overflow"),
        ("sum", ([1, True],), "no such overload"),
        ("isSorted", ([1, [2]],), "no such overload"),
        ("isSorted", ("abc",), "no such overload: isSorted(string)"),
        ("sum", (["a"],), "no such overload: sum(list)"),
    ],
)
def test_aggregate_errors(function: str, arguments: tuple[Any, ...], message: str) -> None:
    assert failure(aggregates.LIBRARY, function, *arguments) == message


def test_positions_of_elements() -> None:
    assert call(aggregates.LIBRARY, "indexOf", [1, 2.0, 2], 2) == 1
    assert call(aggregates.LIBRARY, "lastIndexOf", [1, 2.0, 2], 2) == 2
    assert call(aggregates.LIBRARY, "indexOf", [VERSION], "x") == -1
    assert call(aggregates.LIBRARY, "lastIndexOf", [], 1) == -1


def test_includes_is_membership_or_equality() -> None:
    assert call(aggregates.INCLUDES, "includes", ("a", "b"), "b")
    assert call(aggregates.INCLUDES, "includes", (1, 2), 2.0)
    assert call(aggregates.INCLUDES, "includes", "a", "a")
    assert not call(aggregates.INCLUDES, "includes", VERSION, "1.2.3")
    assert not call(aggregates.INCLUDES, "includes", (VERSION,), "1.2.3")


def test_aggregates_cost_a_traversal() -> None:
    assert cost(aggregates.LIBRARY, "list_int_sum_int", [1, 2, 3]) == 3
    assert cost(aggregates.LIBRARY, "list_string_max_string", ["a" * 19, "é" * 10]) == 3
    assert cost(aggregates.INCLUDES, "list_includes_dyn_dyn", "abc", "abc") == 0
    assert cost(aggregates.INCLUDES, "list_includes_dyn_dyn", 5, 5) == 1
    assert cost(aggregates.LIBRARY, "list_a_index_of_int", [{"a" * 10: 1}], 5) == 2


def test_sets() -> None:
    assert call(sets.LIBRARY, "sets.contains", [1, 2], [2.0])
    assert not call(sets.LIBRARY, "sets.contains", [1], [1, 2])
    assert call(sets.LIBRARY, "sets.contains", [], [])
    assert call(sets.LIBRARY, "sets.equivalent", [1], [UInt(1), 1.0])
    assert not call(sets.LIBRARY, "sets.equivalent", [1, 2], [1])
    assert call(sets.LIBRARY, "sets.intersects", [1, 2], [2, 3])
    assert not call(sets.LIBRARY, "sets.intersects", [], [1])
    assert not call(sets.LIBRARY, "sets.contains", ["x"], [VERSION])


def test_sets_cost_the_product_of_their_sizes() -> None:
    assert cost(sets.LIBRARY, "list_sets_contains_list", [1, 2], [1, 2, 3]) == 7
    assert cost(sets.LIBRARY, "list_sets_equivalent_list", [1, 2], [1, 2, 3]) == 13
    with pytest.raises(CostExceeded):
        call(sets.LIBRARY, "sets.intersects", range(2000), values.Concatenation([-1], [-2] * 1000))
