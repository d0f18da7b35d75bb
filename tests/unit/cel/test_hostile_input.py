"""Whatever the text, an expression compiles or gets a clear error; nothing else happens."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest

from dray.api.types import dra
from dray.cel import device
from dray.cel.device import Selector
from dray.cel.runtime.values import CostExceeded, EvaluationError

VIEW = device.view("d.com", dra.Device())


def nested(opening: str, inside: str, closing: str, depth: int) -> str:
    return opening * depth + inside + closing * depth


def compiled(text: str) -> Selector:
    return device.compile_selector(text, stored=True)


def detail(text: str) -> str:
    error = compiled(text).error
    assert error is not None
    return error.detail


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("(" * 10_240, id="parentheses"),
        pytest.param("[" * 10_240, id="brackets"),
        pytest.param("{" * 10_240, id="braces"),
        pytest.param("!" * 10_240, id="signs"),
        pytest.param("-" * 10_240, id="minus"),
        pytest.param("." * 10_240, id="dots"),
        pytest.param("?" * 10_240, id="question marks"),
        pytest.param("a[" * 5_000, id="open indexes"),
        pytest.param("f(" * 5_000, id="open calls"),
        pytest.param("\0" * 10_240, id="nul"),
        pytest.param("\\'''" * 2_500, id="quotes behind backslashes"),
        pytest.param('"' * 10_001, id="quotes"),
        pytest.param("#" * 10_240, id="unknown characters"),
        pytest.param("", id="nothing"),
        pytest.param("//" + "x" * 10_000, id="only a comment"),
    ],
)
def test_no_expression_is_a_compilation_error(text: str) -> None:
    assert detail(text).startswith("compilation failed: ERROR: <input>:")


def test_identifier_of_ten_kibibytes_is_undeclared() -> None:
    assert "undeclared reference to 'aaaa" in detail("a" * 10_240)


@pytest.mark.parametrize("text", ["9" * 10_000, "0x" + "f" * 10_000, "-" + "9" * 5_000])
def test_huge_integers_have_no_value(text: str) -> None:
    assert "invalid int literal" in detail(f"{text} == 1")


def test_half_characters_are_refused() -> None:
    expected = "expression is not valid Unicode: half a character at 2"
    assert detail("'\ud800'") == f"compilation failed: ERROR: <input>:-1:0: {expected}"


def test_nul_may_be_in_a_string() -> None:
    assert compiled("'\0'.size() == 1").matches(VIEW)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        pytest.param(nested("(", "true", ")", 249), True, id="parentheses"),
        pytest.param(nested("!(", "true", ")", 249), False, id="negations"),
        pytest.param(f"size({nested('[', '1', ']', 248)}) == 1", True, id="lists"),
        pytest.param(f"size({nested('{1: ', '1', '}', 248)}) == 1", True, id="maps"),
        pytest.param(nested("[0][", "0", "]", 248) + " == 0", True, id="indexes"),
        pytest.param("true ? true : " * 249 + "true", True, id="conditions"),
        pytest.param(nested("(true && (false || ", "true", "))", 120), True, id="and in or"),
        pytest.param(nested("(1 / 0 > 0 && (false || ", "false", "))", 80), False, id="errors"),
        pytest.param(" && ".join(["true"] * 1_400), True, id="many terms"),
        pytest.param(" || ".join(["1 / 0 == 1"] * 700) + " || true", True, id="many errors"),
        pytest.param("1" + "+1" * 249 + " == 250", True, id="sum"),
        pytest.param(nested("[1].all(x, ", "true", ")", 20), True, id="20 loops"),
        pytest.param(nested("[1].exists(x, ", "true", ")", 200), True, id="200 loops"),
        pytest.param(nested("cel.bind(x, ", "true", ", x)", 200), True, id="bindings"),
        pytest.param(nested("{'a': 1}.?a.orValue(", "1", ")", 240) + " == 1", True, id="optionals"),
        pytest.param("[" + ",".join(["1"] * 4_000) + "].size() == 4000", True, id="long list"),
    ],
)
def test_deep_and_long_expressions_run_in_both_forms(text: str, answer: bool) -> None:
    selector = compiled(text)
    assert selector.error is None
    assert selector.matches(VIEW) is answer
    assert selector.program.measure(VIEW.fields).value is answer


def test_250_levels_are_one_too_many() -> None:
    expected = "compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 250"
    assert detail(nested("(", "true", ")", 250)) == expected


def test_macros_cannot_grow_a_tree_without_limit() -> None:
    assert "expands to more than" in detail("optional.of(1)" + ".optMap(x, x)" * 700)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(nested("[1,2,3,4,5,6,7,8,9,10].all(x, ", "true", ")", 8), id="nested loops"),
        pytest.param(
            "".join(f"cel.bind(a{i + 1}, a{i} + a{i}, " for i in range(50))
            .replace("cel.bind(a1, a0 + a0, ", "cel.bind(a1, 'aaaaaaaa', ", 1)
            + "a50.size() == 1" + ")" * 50,
            id="doubling strings",
        ),
    ],
)  # fmt: skip
def test_work_beyond_the_limit_is_cancelled(text: str) -> None:
    selector = compiled(text)
    assert selector.code_form == "counted"
    with pytest.raises(CostExceeded, match="operation cancelled: actual cost limit exceeded"):
        selector.matches(VIEW)


@pytest.mark.parametrize(
    "pattern", ["(a*)*" * 500 + "b", "(" * 1_000 + ")" * 1_000, "a?" * 1_000 + "a{900}"]
)
def test_regular_expressions_take_linear_time(pattern: str) -> None:
    selector = compiled(f"'{'a' * 1_000}'.matches('{pattern}') || true")
    assert selector.error is not None or selector.matches(VIEW)


def at_depth(depth: int, action: Callable[[], Any]) -> Any:
    return action() if depth == 0 else at_depth(depth - 1, action)


def test_compiling_needs_few_frames_of_the_caller() -> None:
    text = nested("[1].all(x, (", "true", "))", 100) + " && true"
    room = sys.getrecursionlimit() - 150
    used = len(inspect.stack(0))
    assert at_depth(room - used, lambda: compiled(text).error) is None


def test_values_that_nest_too_deep_are_an_error() -> None:
    selector = compiled(nested("[1].all(x, ", "true", ")", 240))
    room = sys.getrecursionlimit() - len(inspect.stack(0)) - 100
    with pytest.raises(EvaluationError, match="too deep"):
        at_depth(room, lambda: selector.matches(VIEW))
