"""The estimate is cel-go's, for the sizes that `device` declares."""

from __future__ import annotations

import pytest

from dray.cel.checking import checker, cost_estimate, environment
from dray.cel.functions.overloads import UNBOUNDED, UNKNOWN, Range, scale
from dray.cel.syntax import parser

NEW = environment.device_environment(
    stored=False, consumable_capacity=True, list_type_attributes=False
)
STORED = environment.device_environment(
    stored=True, consumable_capacity=True, list_type_attributes=False
)
LONG = "'" + "x" * 100 + "'"


def estimate(text: str, known: environment.Environment = NEW) -> Range:
    return cost_estimate.estimate(checker.check(text, parser.parse(text), known), known)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 0),
        ("device", 1),
        ("int", 1),
        ("net.IP", 1),
        ("device.driver", 2),
        ("device.attributes['a'].b", 4),
        ("dyn(device).driver", 2),
        ("has(device.attributes.a)", 2),
        ("[1, 2]", 10),
        ("{'a': device}", 31),
        ("[]", 10),
        ("1 + 2", 1),
        ("dyn(1)", 1),
        ("device.?driver", 2),
        ("optional.of(1)", 1),
    ],
)
def test_each_kind_of_node_has_its_cost(text: str, expected: int) -> None:
    assert estimate(text) == Range(expected, expected)


def test_a_logical_operator_may_stop_after_its_left_side() -> None:
    assert estimate("device.allowMultipleAllocations || 1 + 1 == 2") == Range(2, 4)


def test_a_condition_costs_itself_and_one_branch() -> None:
    assert estimate("true ? 1 : 1 + 1") == Range(0, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"device.driver == {LONG}", 2 + 7),
        (f"device.attributes['a'].b == {LONG}", 4 + 7),
        (f"device.attributes['a']['b'] == {LONG}", 4 + 7),
        (f"(device.driver + device.driver) == {LONG}", 4 + 13 + 10),
        ("device.capacity['a']['b'] == quantity('1')", 4 + 1 + 1),
        ("device.allowMultipleAllocations == true", 2 + 1),
        ("device == device", 2),
    ],
)
def test_sizes_follow_the_fields_of_the_device(text: str, expected: int) -> None:
    assert estimate(text).high == expected


def test_the_size_below_an_unknown_domain_name_is_unknown() -> None:
    assert estimate("size(device.attributes.a) == device.attributes.a.size()").high == 9
    assert estimate("device.attributes.a == device.attributes.b").high > 10**18


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1, 2, 3].all(x, x > 0)", 10 + 3 * (3 + 2) + 1),
        ("device.attributes.exists(k, k == 'other.com')", 195),
        (f"device.attributes.all(k, k == {LONG})", 2 + 32 * (3 + 1 + 7) + 1),
        (f"device.attributes['a'].all(k, k == {LONG})", 3 + 32 * (3 + 1 + 4) + 1),
        (f"['{'y' * 50}'].all(x, x == {LONG})", 10 + (3 + 1 + 5) + 1),
        (f"{{'{'y' * 50}': 1}}.all(x, x == {LONG})", 30 + (3 + 1 + 5) + 1),
        ("[1, 2].map(x, x).all(y, y > 0)", 10 + 10 + 2 * (12 + 1) + 1 + 2 * (3 + 2) + 1),
    ],
)
def test_a_loop_costs_its_body_for_every_element(text: str, expected: int) -> None:
    assert estimate(text).high == expected


def test_an_unbounded_loop_is_unbounded() -> None:
    assert estimate("lists.range(int(device.driver)).all(x, true)").high == UNBOUNDED


def test_what_is_bound_keeps_its_size() -> None:
    assert estimate(f"cel.bind(d, device.driver, d == {LONG})").high == 10 + 2 + 1 + 7
    assert estimate("cel.bind(l, [1, 2], l.all(x, x > 0))").high == 10 + 10 + 1 + 2 * 5 + 1


def test_dyn_does_not_hide_a_size() -> None:
    assert estimate(f"dyn(device.driver) == {LONG}").high == 3 + 7


def test_a_condition_has_the_larger_size() -> None:
    assert estimate(f"(true ? 'abc' : device.driver) == {LONG}").high == 2 + 7


def test_both_branches_know_their_entries() -> None:
    text = f"(true ? ['{'a' * 20}'] : ['{'b' * 40}']).all(x, x == {LONG})"
    assert estimate(text).high == 10 + (3 + 1 + 4) + 1


def test_the_first_of_two_loop_variables_takes_the_size_of_the_second() -> None:
    """cel-go keeps paths in slices that share memory: the key's path ends as the value's."""
    assert estimate(f"device.attributes['a'].all(k, k == {LONG})").high == 260
    assert estimate(f"device.attributes['a'].all(k, v, k == {LONG})").high == 356


def test_a_selection_from_a_bound_map_changes_the_path_of_its_loop_variable() -> None:
    bound = "cel.bind(d, device.attributes['a'], d.all(k, {} == {}))"
    assert estimate(bound.format("k", LONG)).high == 271
    assert estimate(bound.format("d.x == d.x && k", LONG)).high == 719


def test_several_overloads_give_the_widest_range() -> None:
    assert estimate("dyn('a') + dyn('b')", STORED) == Range(3, 3)
    assert estimate(f"dyn({LONG}) + dyn({LONG})", STORED) == Range(3, 22)


def test_deep_trees_are_estimated() -> None:
    assert estimate("[" * 245 + "]" * 245).high == 2450
    assert estimate("1" + " + 1" * 240).high == 240


def test_ranges_saturate() -> None:
    assert UNKNOWN.add(Range(1, 1)) == Range(1, UNBOUNDED)
    assert UNKNOWN.multiply(Range(2, 2)) == UNKNOWN
    assert UNKNOWN.scale(2.0) == UNKNOWN
    assert Range(1, 3).union(Range(2, 9)) == Range(1, 9)


def test_scaling_rounds_up_with_the_error_of_floats() -> None:
    assert scale(1, 0.1) == 1
    assert scale(30, 0.1) == 3
    assert scale(UNBOUNDED, 0.1) == 1844674407370955264
