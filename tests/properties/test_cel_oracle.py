"""dray's CEL against Google's C++ implementation, on generated expressions and values.

Expressions are generated well typed, in the part of the language that both have. Where the two are
known to differ on purpose (see docs/decisions/001-own-cel-compiler.md) nothing is generated.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from cel_expr_python import cel
from cel_expr_python.ext import ext_strings
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from dray.api.types import dra
from dray.cel import device, program
from dray.cel.checking import environment
from dray.cel.checking.constant_folding import InstantiationFailed
from dray.cel.issues import CompilationFailed
from dray.cel.runtime import values
from tests import rounds

DRIVER = "d.example.com"
OURS = environment.device_environment(
    stored=True, consumable_capacity=True, list_type_attributes=True
)
THEIRS = cel.NewEnv(
    variables={"device": cel.Type.Map(cel.Type.STRING, cel.Type.DYN)},
    extensions=[ext_strings.ExtStrings()],
)
MIN_INT, MAX_INT = -(2**63), 2**63 - 1

Expression = st.SearchStrategy[str]

characters = st.sampled_from("abcXYZ 019.-_/é漢𝒳")
texts = st.text(characters, max_size=6)
small = st.integers(-5, 20)
integers = (
    small
    | st.sampled_from([MIN_INT, MIN_INT + 1, MAX_INT - 1, MAX_INT])
    | st.integers(-(2**40), 2**40)
)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def int_literal(number: int) -> str:
    return str(number) if number >= 0 else f"({number})"


@st.composite
def int_expression(draw: st.DrawFn, depth: int = 3) -> str:
    leaves = st.one_of(
        integers.map(int_literal),
        st.just(f"int(device.attributes['{DRIVER}'].i)"),
        st.just(f"device.attributes['{DRIVER}'].i"),
    )
    if depth == 0:
        return draw(leaves.filter(lambda text: "device" not in text or text.startswith("int(")))
    kind = draw(st.sampled_from(["leaf", "sum", "size", "index", "choose", "convert", "search"]))
    inner = int_expression(depth=depth - 1)
    match kind:
        case "sum":
            operator = draw(st.sampled_from("+-*/%"))
            return f"({draw(inner)} {operator} {draw(inner)})"
        case "size":
            sized = string_expression(depth - 1) | list_expression(depth - 1)
            return f"size({draw(sized)})"
        case "index":
            return f"{draw(list_expression(depth - 1))}[{draw(small)}]"
        case "choose":
            return f"({draw(bool_expression(depth - 1))} ? {draw(inner)} : {draw(inner)})"
        case "convert":
            # The C++ engine forgives blanks around a number; Go does not.
            return f"int({draw(string_expression(depth - 1))}.trim())"
        case "search":
            both = string_expression(depth - 1)
            return f"{draw(both)}.indexOf({draw(both)})"
    return draw(leaves.filter(lambda text: not text.startswith("device")))


@st.composite
def string_expression(draw: st.DrawFn, depth: int = 3) -> str:
    leaves = texts.map(quoted) | st.just(f"string(device.attributes['{DRIVER}'].s)")
    if depth == 0:
        return draw(leaves)
    inner = string_expression(depth - 1)
    kind = draw(st.sampled_from(["leaf", "add", "case", "replace", "convert", "trim", "char"]))
    match kind:
        case "add":
            return f"({draw(inner)} + {draw(inner)})"
        case "case":
            return f"{draw(inner)}.{draw(st.sampled_from(['lowerAscii', 'upperAscii']))}()"
        case "replace":
            return f"{draw(inner)}.replace({draw(inner)}, {draw(inner)})"
        case "convert":
            return f"string({draw(int_expression(depth - 1))})"
        case "trim":
            return f"{draw(inner)}.trim()"
        case "char":
            return f"{draw(inner)}.charAt({draw(small)})"
    return draw(leaves)


@st.composite
def list_expression(draw: st.DrawFn, depth: int = 2) -> str:
    depth = max(depth, 0)
    if depth == 0:
        return (
            "[" + ", ".join(map(int_literal, draw(st.lists(small, min_size=1, max_size=4)))) + "]"
        )
    inner = list_expression(depth - 1)
    element = int_expression(depth=depth - 1)
    kind = draw(st.sampled_from(["literal", "add", "map", "filter"]))
    match kind:
        case "add":
            return f"({draw(inner)} + {draw(inner)})"
        case "map":
            return f"{draw(inner)}.map(x, x {draw(st.sampled_from('+-*'))} {draw(element)})"
        case "filter":
            return f"{draw(inner)}.filter(x, x {draw(comparisons)} {draw(element)})"
    return "[" + ", ".join(draw(st.lists(element, min_size=1, max_size=3))) + "]"


comparisons = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


@st.composite
def bool_expression(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0:
        return draw(st.sampled_from(["true", "false", f"bool(device.attributes['{DRIVER}'].b)"]))
    inner = bool_expression(depth - 1)
    kind = draw(
        st.sampled_from(["compare", "text", "logic", "not", "macro", "member", "has", "map"])
    )
    match kind:
        case "compare":
            number = int_expression(depth=depth - 1)
            return f"({draw(number)} {draw(comparisons)} {draw(number)})"
        case "text":
            both = string_expression(depth - 1)
            name = draw(st.sampled_from(["startsWith", "endsWith", "contains"]))
            return f"{draw(both)}.{name}({draw(both)})"
        case "logic":
            return f"({draw(inner)} {draw(st.sampled_from(['&&', '||']))} {draw(inner)})"
        case "not":
            return f"!{draw(inner)}"
        case "macro":
            name = draw(st.sampled_from(["all", "exists", "exists_one"]))
            body = f"x {draw(comparisons)} {draw(int_expression(depth=depth - 1))}"
            return f"{draw(list_expression(depth - 1))}.{name}(x, {body})"
        case "member":
            return (
                f"({draw(int_expression(depth=depth - 1))} in {draw(list_expression(depth - 1))})"
            )
        case "has":
            field = draw(st.sampled_from(["i", "s", "b", "nope"]))
            return f"has(device.attributes['{DRIVER}'].{field})"
    keys = draw(st.lists(texts, min_size=1, max_size=3, unique=True))
    entries = ", ".join(f"{quoted(key)}: {number}" for number, key in enumerate(keys))
    return f"({draw(string_expression(depth - 1))} in {{{entries}}})"


class Answer(str):
    """A value, written so that 1, true and 1.0 differ; all errors are alike."""


def answer(value: Any) -> Answer:
    if value.__class__ in values.LIST_CLASSES:
        return Answer(f"[{', '.join(answer(each) for each in value)}]")
    if isinstance(value, float) and math.isnan(value):
        return Answer("nan")
    return Answer(f"{type(value).__name__}:{value!r}")


ERROR = Answer("error")


def our_answer(text: str, view: device.DeviceView) -> Answer | None:
    """None where it does not compile. cel-go fails early where folding a constant fails."""
    try:
        compiled = program.Program(program.check(text, OURS), OURS)
    except CompilationFailed:
        return None
    except InstantiationFailed:
        reject()
    plain, counted = run(compiled.evaluate, view), compiled.measure(view.fields)
    assert plain == (ERROR if counted.error else answer(counted.value)), "the two code forms differ"
    return plain


def run(evaluate: Any, view: device.DeviceView) -> Answer:
    try:
        return answer(evaluate(view.fields))
    except (values.EvaluationError, values.CostExceeded):
        return ERROR


def their_answer(text: str, attributes: dict[str, Any]) -> Answer | None:
    try:
        compiled = THEIRS.compile(text)
    except RuntimeError:
        return None
    data = {"device": {"driver": DRIVER, "attributes": {DRIVER: attributes}, "capacity": {}}}
    result = compiled.eval(data=data)
    return ERROR if result.type() == cel.Type.ERROR else answer(result.plain_value())


@pytest.mark.slow
@rounds.examples(2000, long=100_000)
@given(
    text=bool_expression() | int_expression() | string_expression() | list_expression(),
    number=integers,
    words=texts,
    flag=st.booleans(),
)
def test_same_value_as_the_oracle(text: str, number: int, words: str, flag: bool) -> None:
    attributes = {
        "i": dra.DeviceAttribute(int_value=number),
        "s": dra.DeviceAttribute(string_value=words),
        "b": dra.DeviceAttribute(bool_value=flag),
    }
    view = device.view(DRIVER, dra.Device(name="d", attributes=attributes))
    theirs = their_answer(text, {"i": number, "s": words, "b": flag})
    assume(theirs is not None)
    assert our_answer(text, view) == theirs
