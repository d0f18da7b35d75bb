"""Compiled expressions: what both forms of code answer, and what the counted one charges."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.types import dra
from dray.cel import device, program
from dray.cel.checking import environment
from dray.cel.checking.constant_folding import InstantiationFailed
from dray.cel.program import Program
from dray.cel.runtime.values import EvaluationError, UInt

STORED = environment.device_environment(
    stored=True, consumable_capacity=True, list_type_attributes=False
)
DEVICE = dra.Device(
    attributes={
        "text": dra.DeviceAttribute(string_value="abc"),
        "number": dra.DeviceAttribute(int_value=5),
        "flag": dra.DeviceAttribute(bool_value=True),
        "numbers": dra.DeviceAttribute(int_values=(1, 2, 3)),
        "other.com/text": dra.DeviceAttribute(string_value="xyz"),
    },
    capacity={"memory": dra.DeviceCapacity(value="10Gi")},
)
HERE = 'device.attributes["here.com"]'


def compiled(text: str) -> Program:
    return Program(program.check(text, STORED), STORED)


def answer(text: str) -> Any:
    """What an expression gives, in both forms."""
    fields = device.view("here.com", DEVICE).fields
    ready = compiled(text)
    measured = ready.measure(fields)
    if measured.error is not None:
        with pytest.raises(type(measured.error)) as caught:
            ready.evaluate(fields)
        assert str(caught.value) == str(measured.error)
        raise measured.error
    value = ready.evaluate(fields)
    assert value == measured.value
    return value


def failure(text: str) -> str:
    with pytest.raises(EvaluationError) as caught:
        answer(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f"{HERE}.nope || true", True, id="or absorbs on the left"),
        pytest.param(f"true || {HERE}.nope", True, id="or absorbs on the right"),
        pytest.param(f"{HERE}.nope && false", False, id="and absorbs"),
        pytest.param(f"{HERE}.number && false", False, id="what is no bool is an error too"),
        pytest.param(f"({HERE}.nope || 1 / 0 > 0 || true) && true", True, id="nested"),
        pytest.param("[1, 0, 2].exists(x, 2 / x == 1)", True, id="exists absorbs"),
        pytest.param("![0, 1].all(x, 1 / x == 2)", True, id="all absorbs"),
        pytest.param("true ? 1 : 1 / 0", 1, id="the other branch is not evaluated"),
        pytest.param("cel.bind(x, 1 / 0, true || x > 0)", True, id="bindings are found when read"),
        pytest.param("optional.of(1).orValue(1 / 0)", 1, id="orValue"),
        pytest.param("optional.none().or(optional.of(2)).value()", 2, id="or"),
        pytest.param(f"{HERE}.?nope.orValue('x')", "x", id="missing"),
        pytest.param(f"{HERE}.?text.hasValue()", True, id="present"),
        pytest.param(f"has({HERE}.nope) || has({HERE}.text)", True, id="has"),
        pytest.param(f"has({HERE}.text.deeper)", False, id="has below a string"),
        pytest.param("{'a': {'b': 1}}.?a.?b.value()", 1, id="optional chain"),
        pytest.param("{'a': dyn(null)}.?a.b.hasValue()", False, id="optional chain through null"),
        pytest.param("[optional.of({'a': 1})].map(o, o.a.value())", [1], id="optional start"),
        pytest.param("[1, ?optional.none(), ?optional.of(3)]", [1, 3], id="optional elements"),
        pytest.param("{?'a': optional.none(), 'b': 1}", {"b": 1}, id="optional entries"),
        pytest.param("[3, 1, 2].filter(x, x > 1).map(y, y * 2)", [6, 4], id="filter and map"),
        pytest.param("[1, 2, 3].map(x, x > 1, x * x)", [4, 9], id="map with a predicate"),
        pytest.param("[1, 2, 3].exists_one(x, x > 2)", True, id="exists one"),
        pytest.param("[5, 6].transformList(i, v, i + v)", [5, 7], id="two variables"),
        pytest.param("{'a': 1}.transformMap(k, v, v + 1)", {"a": 2}, id="transform map"),
        pytest.param("{'a': 'b'}.transformMapEntry(k, v, {v: k})", {"b": "a"}, id="entries"),
        pytest.param("[1, 2].map(x, [3].map(y, x + y))", [[4], [5]], id="inner loops see outer"),
        pytest.param("[1].map(device, device)", [1], id="a loop variable hides the device"),
        pytest.param("[1].map(device, .device.driver)", ["here.com"], id="a dot finds it again"),
        pytest.param("dyn(1u) == 1 && dyn(1.0) == 1u", True, id="numbers of all types are equal"),
        pytest.param(f"{HERE}.number in [1, 5]", True, id="membership"),
        pytest.param("dyn('a') in [1, 2]", False, id="membership across types"),
        pytest.param("1u + 2u", UInt(3), id="unsigned"),
        pytest.param("device.attributes.size()", 2, id="only real domains count"),
        pytest.param("has(device.attributes.nope)", True, id="every domain is there"),
        pytest.param("size(dyn(device))", 4, id="the device as a map"),
        pytest.param("type(device) == map", True, id="type of the device"),
    ],
)
def test_answers(text: str, expected: Any) -> None:
    found = answer(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f"{HERE}.nope && 1 / 0 > 0", "no such key: nope", id="first error of a chain"),
        pytest.param(f"{HERE}.number || false", "no such overload", id="no bool"),
        pytest.param(f"{HERE}.number ? 1 : 2", "no such overload", id="no bool to choose by"),
        pytest.param("[1, 0].map(x, 1 / x)", "division by zero", id="map keeps the first error"),
        pytest.param(
            "[0, 1].filter(x, x == 0 ? 1 / x > 0 : [1][5] > 0)",
            "index out of bounds: 5",
            id="filter keeps the last error of its predicate",
        ),
        pytest.param(
            "[0, 1].exists_one(x, x == 0 ? 1 / x > 0 : [1][5] > 0)",
            "index out of bounds: 5",
            id="exists one keeps the last error",
        ),
        pytest.param(
            "[0, 1].all(x, x == 0 ? 1 / x > 0 : [1][5] > 0)",
            "division by zero",
            id="all keeps the first error",
        ),
        pytest.param(
            "[1, 2].transformMapEntry(i, v, {'a': v})",
            "insert failed: key a already exists",
            id="entries must differ",
        ),
        pytest.param(f"{HERE}.numbers['a']", "unsupported index type 'string' in list", id="index"),
        pytest.param(f"{HERE}.text.deeper", "no such key: deeper", id="below a string"),
        pytest.param(
            f"[1].exists(x, {HERE}.number.all(y, true))",
            "got 'types.Int', expected iterable type",
            id="no range",
        ),
        pytest.param(
            f"{HERE}.text.all(k, v, true)",
            "unsupported comprehension range type: types.String",
            id="no range for two",
        ),
        pytest.param(
            f"[1][{HERE}.numbers]", "invalid qualifier type: *types.baseList", id="no key"
        ),
        pytest.param("device.attributes['a'].b.c == 1", "no such key: b", id="unknown domain"),
    ],
)
def test_errors(text: str, expected: str) -> None:
    assert failure(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("[1, 2, 3] == [1, 2, 3]", 1, id="constants are free"),
        pytest.param("int('1') == 1", 1, id="conversions of constants are free"),
        pytest.param("1 in [1, 2, 3]", 0, id="membership in constants is free"),
        pytest.param("device.driver == 'x'", 3, id="name, field, equality"),
        pytest.param(f"has({HERE}.text)", 3, id="a test costs its steps"),
        pytest.param(f"{HERE}.?nope.hasValue()", 4, id="a step that finds nothing is free"),
        pytest.param(f"true ? {HERE}.flag : false", 3, id="a name in a branch is free"),
        pytest.param("[1, 2].all(x, x > 0)", 11, id="all"),
        pytest.param("[1, 2].filter(x, x > 1)", 18, id="what is filtered out costs less"),
        pytest.param("cel.bind(x, device.driver, x == x)", 5, id="a binding is charged once"),
        pytest.param(f"{HERE}.nope.matches('a')", 4, id="a call that stops early is free"),
        pytest.param(f"{HERE}.nope.startsWith('a')", 5, id="a call that does not is charged"),
    ],
)
def test_costs(text: str, expected: int) -> None:
    fields = device.view("here.com", DEVICE).fields
    assert compiled(text).measure(fields).cost == expected


def test_limit_is_passed_by_the_first_step_beyond_it() -> None:
    ready = Program(program.check("[1, 2, 3].all(x, x > 0)", STORED), STORED, limit=10)
    measured = ready.measure({})
    assert ready.code_form == program.COUNTED
    assert str(measured.error) == "operation cancelled: actual cost limit exceeded"
    assert measured.cost == 11


def test_estimate_decides_on_the_form() -> None:
    assert compiled("device.driver == 'x'").code_form == program.PLAIN
    assert compiled("type(device.driver) == string").code_form == program.COUNTED


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("int('x') == 1", "type conversion error from 'string' to 'int'"),
        ("uint(-1) == 1u", "unsigned integer overflow"),
        ("'a'.find('(') == ''", "error parsing regexp: missing closing ): `(`"),
        ("{'a': 1}[dyn(null)] == 1", "invalid qualifier type: types.Null"),
    ],
)
def test_errors_among_constants_make_a_program_impossible(text: str, problem: str) -> None:
    with pytest.raises(InstantiationFailed) as caught:
        compiled(text)
    assert str(caught.value) == problem


def test_source_holds_no_text_of_the_user() -> None:
    ready = compiled(
        "device.attributes['__import__'].evil == 'os.system' && ['x'].all(lambda_, true)"
    )
    code = ready.evaluate.__code__
    assert not {"__import__", "evil", "lambda_", "os.system"} & {
        *code.co_names,
        *code.co_varnames,
        *map(str, code.co_consts),
    }
    assert ready.evaluate.__globals__["__builtins__"] == {}
