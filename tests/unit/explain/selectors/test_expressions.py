"""Selectors as text."""

from __future__ import annotations

import pytest

from dray.api.features import DEFAULT
from dray.explain.selectors import expressions
from dray.explain.selectors.expressions import SelectorSubject

MODEL = SelectorSubject("attributes", "a.com", "model")
MEMORY = SelectorSubject("capacity", "a.com", "memory")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a && b", ["a", "b"], id="conjunction"),
        pytest.param("(a && (b || c))", ["a", "(b || c)"], id="parentheses-around-all"),
        pytest.param("(a) && (b)", ["(a)", "(b)"], id="parentheses-around-each"),
        pytest.param("a && b || c", ["a && b || c"], id="alternatives-are-one-clause"),
        pytest.param("a ? b && c : d", ["a ? b && c : d"], id="conditions-are-one-clause"),
        pytest.param("x.?y.orValue(1) > 0 && z", ["x.?y.orValue(1) > 0", "z"], id="optional"),
        pytest.param('x == "a && b"', ['x == "a && b"'], id="operators-in-strings-do-not-count"),
    ],
)
def test_clauses_of_a_conjunction(text: str, expected: list[str]) -> None:
    assert expressions.clauses(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            'device.attributes["a.com"].model == "x"', (MODEL, "==", "x", ""), id="operator"
        ),
        pytest.param(
            '3 < device.attributes["a.com"].model', (MODEL, ">", 3, ""), id="constant-first"
        ),
        pytest.param(
            'device.attributes["a.com"]["model"] == "x"', (MODEL, "==", "x", ""), id="index"
        ),
        pytest.param(
            'device.attributes["a.com"].?model.orValue("") != "x"',
            (MODEL, "!=", "x", ""),
            id="optional-with-default",
        ),
        pytest.param(
            'device.capacity["a.com"].memory.compareTo(quantity("1Gi")) >= 0',
            (MEMORY, ">=", "1Gi", "quantity"),
            id="compare-to",
        ),
        pytest.param(
            'device.capacity["a.com"].memory.isLessThan(quantity("1Gi"))',
            (MEMORY, "<", "1Gi", "quantity"),
            id="method",
        ),
        pytest.param(
            'device.attributes["a.com"].model.startsWith("x")',
            (MODEL, "startsWith", "x", ""),
            id="text-method",
        ),
    ],
)
def test_comparison_with_a_constant(text: str, expected: tuple[object, ...]) -> None:
    (found,) = expressions.comparisons(text)
    assert (found.subject, found.relation, found.constant, found.form) == expected


def test_every_member_of_a_list_is_compared() -> None:
    text = 'device.attributes["a.com"].model in ["x", "y"]'
    assert [comparison.constant for comparison in expressions.comparisons(text)] == ["x", "y"]


def test_text_that_does_not_parse_compares_nothing() -> None:
    assert expressions.comparisons("a = b") == ()
    assert expressions.subjects("a = b") == ()


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        pytest.param(
            'device.capacity["a.com"].memory >= "1Gi" && x',
            "quantity",
            'device.capacity["a.com"].memory.compareTo(quantity("1Gi")) >= 0 && x',
            id="operator-to-quantity",
        ),
        pytest.param(
            'device.capacity["a.com"].memory.compareTo("1Gi") > 0',
            "quantity",
            'device.capacity["a.com"].memory.compareTo(quantity("1Gi")) > 0',
            id="argument-to-quantity",
        ),
        pytest.param(
            'device.attributes["a.com"].model == "1.2.3"',
            "semver",
            'device.attributes["a.com"].model.compareTo(semver("1.2.3")) == 0',
            id="equality-to-version",
        ),
        pytest.param(
            'device.attributes["a.com"].model == "7"',
            "int",
            'device.attributes["a.com"].model == 7',
            id="text-to-integer",
        ),
        pytest.param(
            'device.attributes["a.com"].model == true',
            "string",
            'device.attributes["a.com"].model == "true"',
            id="bool-to-text",
        ),
        pytest.param(
            'device.attributes["a.com"].model == "seven"', "int", None, id="no-such-integer"
        ),
        pytest.param(
            'device.capacity["a.com"].memory.compareTo(quantity("1")) > 0',
            "quantity",
            None,
            id="right-already",
        ),
    ],
)
def test_constant_is_written_as_another_kind(text: str, kind: str, expected: str | None) -> None:
    (found,) = expressions.comparisons(text)
    assert expressions.converted(text, found, kind) == expected


def test_subject_is_renamed_wherever_it_stands() -> None:
    text = 'has(device.attributes["a.com"].model) && device.attributes["a.com"]["model"] == "model"'
    other = SelectorSubject("attributes", "b.com", "name")
    assert expressions.renamed(text, MODEL, other) == (
        'has(device.attributes["b.com"].name) && device.attributes["b.com"]["name"] == "model"'
    )


def test_subjects_of_other_domains_keep_their_names() -> None:
    text = 'device.attributes["c.com"].model == device.attributes["a.com"].model'
    other = SelectorSubject("attributes", "a.com", "name")
    assert expressions.renamed(text, MODEL, other) == (
        'device.attributes["c.com"].model == device.attributes["a.com"].name'
    )


def test_guard_is_false_where_the_attribute_is_absent() -> None:
    text = 'device.attributes["a.com"].model == "x" || device.driver == "y"'
    assert expressions.guarded(text, MODEL) == (
        f'has(device.attributes["a.com"].model) && ({text})'
    )


def test_guard_covers_both_branches_of_a_condition() -> None:
    text = 'device.attributes["a.com"].model == "x" ? false : true'
    guarded = expressions.guarded(text, MODEL)
    assert guarded == f'has(device.attributes["a.com"].model) && ({text})'


def test_guard_of_a_name_that_cel_reserves() -> None:
    subject = expressions.SelectorSubject("attributes", "a.com", "in")
    text = 'device.attributes["a.com"]["in"] == 3'
    guarded = expressions.guarded(text, subject)
    assert guarded == f'"in" in device.attributes["a.com"] && {text}'
    assert expressions.compiled(guarded, DEFAULT).error is None


def test_clause_is_left_out() -> None:
    assert expressions.without_clause("(a && b && c)", "b") == "a && c"
