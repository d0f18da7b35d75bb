"""What calls may cost at most, from the sizes of their arguments."""

from __future__ import annotations

import pytest

from dray.cel import types
from dray.cel.functions.extensions import lists, sets
from dray.cel.functions.kubernetes import aggregates, ip_cidr, named_formats
from dray.cel.functions.overloads import (
    UNBOUNDED,
    CallEstimate,
    Library,
    Operand,
    Range,
)
from dray.cel.functions.standard import (
    arithmetic,
    comparisons,
    conversions,
    logic,
    regexes,
    strings,
)
from dray.cel.syntax.nodes import Constant, Identifier, Literal
from dray.cel.types import Type
from tests.unit.cel.calling import overload


def sized(low: int, high: int, type: Type = types.STRING) -> Operand:
    return Operand(Identifier(0, 0, "x"), type, Range(low, high))


def unsized(type: Type = types.STRING) -> Operand:
    return Operand(Identifier(0, 0, "x"), type, None)


def literal(value: Constant) -> Operand:
    return Operand(Literal(0, 0, value), types.INT, Range(1, 1))


def string_list(count: int, element_size: int | None) -> Operand:
    element = None if element_size is None else sized(0, element_size)
    type = types.list_of(types.STRING)
    return Operand(Identifier(0, 0, "x"), type, Range.exactly(count), element)


def estimated(library: Library, id: str, *operands: Operand) -> CallEstimate:
    estimate = overload(library, id).estimate
    assert estimate
    return estimate(operands)


TEXT = sized(1, 64)


@pytest.mark.parametrize(
    ("library", "id", "operands", "cost", "size"),
    [
        (arithmetic.LIBRARY, "add_string", (TEXT, TEXT), (1, 13), (2, 128)),
        (arithmetic.LIBRARY, "add_list", (TEXT, TEXT), (1, 1), (2, 128)),
        (comparisons.LIBRARY, "equals", (TEXT, sized(0, 9)), (1, 1), None),
        (comparisons.LIBRARY, "equals", (TEXT, unsized()), (1, 7), None),
        (comparisons.LIBRARY, "equals", (TEXT, sized(0, 0)), (0, 0), None),
        (comparisons.LIBRARY, "less_string", (TEXT, TEXT), (1, 7), None),
        (conversions.LIBRARY, "string_to_bytes", (TEXT,), (1, 7), (1, 256)),
        (conversions.LIBRARY, "bytes_to_string", (TEXT,), (1, 7), (0, 64)),
        (logic.LIBRARY, "in_list", (TEXT, string_list(9, 5)), (9, 9), None),
        (strings.LIBRARY, "contains_string", (TEXT, TEXT), (1, 49), None),
        (strings.LIBRARY, "starts_with_string", (unsized(), TEXT), (1, 7), None),
        (strings.LIBRARY, "string_lower_ascii", (TEXT,), (1, 7), (1, 64)),
        (strings.LIBRARY, "string_split_string", (TEXT, TEXT), (1, 13), (0, 64)),
        (
            strings.LIBRARY,
            "string_split_string_int",
            (TEXT, TEXT, literal(3)),
            (1, 13),
            (0, 3),
        ),
        (
            strings.LIBRARY,
            "string_split_string_int",
            (TEXT, TEXT, literal(-1)),
            (1, 13),
            (0, UNBOUNDED),
        ),
        (strings.LIBRARY, "strings_quote", (TEXT,), (1, 7), (3, 130)),
        (strings.LIBRARY, "strings_quote", (unsized(),), (0, 1844674407370955264), (2, 0)),
        (strings.LIBRARY, "list_join", (string_list(4, 10),), (0, 4), (0, 40)),
        (
            strings.LIBRARY,
            "list_join_string",
            (string_list(4, 10), sized(2, 2)),
            (1, 5),
            (6, 46),
        ),
        (regexes.LIBRARY, "matches_string", (TEXT, sized(8, 8)), (2, 14), None),
        (regexes.LIBRARY, "string_find_string", (TEXT, sized(8, 8)), (2, 14), (0, 64)),
        (lists.LIBRARY, "list_slice", (TEXT, literal(2), literal(5)), (14, 14), (3, 3)),
        (lists.LIBRARY, "lists_range", (literal(5),), (16, 16), (5, 5)),
        (lists.LIBRARY, "lists_range", (literal(-5),), (11, 11), (0, 0)),
        (lists.LIBRARY, "list_reverse", (string_list(4, 10),), (15, 15), (4, 4)),
        (lists.LIBRARY, "list_flatten_int", (TEXT, literal(3)), (14, 203), (1, 64)),
        (lists.LIBRARY, "list_distinct", (string_list(4, 10),), (43, 43), (16, 16)),
        (lists.LIBRARY, "list_string_sort", (string_list(4, 10),), (45, 45), (16, 16)),
        (sets.LIBRARY, "list_sets_equivalent_list", (TEXT, TEXT), (3, 8193), None),
        (aggregates.LIBRARY, "list_string_max_string", (string_list(4, 10),), (4, 8), None),
        (
            aggregates.LIBRARY,
            "list_string_max_string",
            (string_list(1, None),),
            (1, 1844674407370955265),
            None,
        ),
        (aggregates.LIBRARY, "list_a_index_of_int", (sized(0, 64), TEXT), (0, 7), None),
        (aggregates.INCLUDES, "list_includes_dyn_dyn", (sized(0, 64), TEXT), (0, 64), None),
        (ip_cidr.IP_LIBRARY, "ip_is_canonical", (TEXT,), (1, 13), None),
        (ip_cidr.CIDR_LIBRARY, "cidr_contains_ip_ip", (TEXT, TEXT), (1, 4), None),
        (ip_cidr.CIDR_LIBRARY, "cidr_contains_ip_string", (TEXT, TEXT), (2, 11), None),
        (ip_cidr.CIDR_LIBRARY, "cidr_contains_cidr", (TEXT, TEXT), (3, 7), None),
        (named_formats.LIBRARY, "format-validate", (TEXT, TEXT), (32, 224), None),
    ],
)
def test_estimates(
    library: Library,
    id: str,
    operands: tuple[Operand, ...],
    cost: tuple[int, int],
    size: tuple[int, int] | None,
) -> None:
    assert estimated(library, id, *operands) == (cost, size)


@pytest.mark.parametrize("type", [types.QUANTITY, types.SEMVER, types.IP, types.CIDR])
def test_equality_of_small_types_costs_one(type: Type) -> None:
    operand = unsized(type)
    assert estimated(comparisons.LIBRARY, "equals", operand, operand).cost == (1, 1)
    unequal = estimated(comparisons.LIBRARY, "equals", operand, unsized(types.DYN))
    assert unequal.cost.high > 10**18


@pytest.mark.parametrize(
    ("old", "new", "size"),
    [
        (sized(1, 1), sized(1, 1), (10, 20)),
        (sized(1, 1), sized(3, 3), (10, 60)),
        (sized(4, 4), sized(2, 2), (6, 20)),
        (sized(0, 0), sized(2, 2), (32, 62)),
        (sized(0, 5), sized(2, 2), (4, 62)),
    ],
)
def test_the_size_of_a_replacement(old: Operand, new: Operand, size: tuple[int, int]) -> None:
    found = estimated(strings.LIBRARY, "string_replace_string_string", sized(10, 20), old, new)
    assert found == ((2, 4), size)
