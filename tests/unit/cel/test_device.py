"""Selectors and derived attributes on devices."""

from __future__ import annotations

import pytest

from dray.api.types import dra
from dray.cel import device
from dray.cel.device import DeviceView
from dray.cel.runtime.values import EvaluationError

Attribute = dra.DeviceAttribute


def view(driver: str = "d.com", **attributes: Attribute) -> DeviceView:
    named = {name.replace("__", "/").replace("_", "."): each for name, each in attributes.items()}
    return device.view(driver, dra.Device(attributes=named))


def selector(expression: str) -> device.Selector:
    compiled = device.compile_selector(expression, stored=True)
    assert compiled.error is None
    return compiled


def test_names_without_a_domain_belong_to_the_driver() -> None:
    seen = view(a=Attribute(int_value=1), d_com__b=Attribute(int_value=2))
    expression = "device.attributes['d.com'].a == 1 && device.attributes['d.com'].b == 2"
    assert selector(expression).matches(seen)
    assert selector("size(device.attributes) == 1").matches(seen)


@pytest.mark.parametrize(
    ("attribute", "problem"),
    [
        (
            Attribute(version_value="1"),
            "attribute a: parse semantic version: No Major.Minor.Patch elements found",
        ),
        (Attribute(), "attribute a: unsupported attribute value"),
    ],
)
def test_a_broken_attribute_fails_every_selector(attribute: Attribute, problem: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        selector("true").matches(view(a=attribute))
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("attribute", "type_name", "problem"),
    [
        (Attribute(int_value=1), "int", "unsupported type conversion from 'int' to bool"),
        (
            Attribute(string_value=""),
            "string",
            "unsupported native conversion from string to 'bool'",
        ),
        (
            Attribute(version_value="1.0.0"),
            "kubernetes.Semver",
            "type conversion error from 'Semver' to 'bool'",
        ),
    ],
)
def test_an_answer_must_be_a_bool(attribute: Attribute, type_name: str, problem: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        selector("device.attributes['d.com'].a").matches(view(a=attribute))
    expected = f"CEL result of type {type_name} could not be converted to bool: {problem}"
    assert str(caught.value) == expected


def test_devices_that_agree_on_what_is_read_have_one_shape() -> None:
    reads_a = selector("device.attributes['d.com'].a == 'x'")
    first = view(a=Attribute(string_value="x"), b=Attribute(int_value=1))
    second = view(a=Attribute(string_value="x"), b=Attribute(int_value=2))
    assert reads_a.shape(first) == reads_a.shape(second)
    assert hash(reads_a.shape(first)) == hash(reads_a.shape(second))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(Attribute(int_value=1), Attribute(bool_value=True), id="1 and true"),
        pytest.param(
            Attribute(string_value="1.0.0"), Attribute(version_value="1.0.0"), id="version"
        ),
        pytest.param(Attribute(int_values=(1,)), Attribute(bool_values=(True,)), id="lists"),
        pytest.param(Attribute(int_value=1), None, id="absent"),
        pytest.param(Attribute(int_value=1), Attribute(version_value="1"), id="broken"),
    ],
)
def test_shapes_differ_where_answers_may(one: Attribute, other: Attribute | None) -> None:
    for expression in ("device.attributes['d.com'].a == 1", "'a' in device.attributes['d.com']"):
        reads_a = selector(expression)
        first = view(a=one)
        second = view(a=other) if other else view()
        assert reads_a.shape(first) != reads_a.shape(second)


def test_a_broken_device_has_a_shape_of_its_own_even_if_nothing_is_read() -> None:
    nothing = selector("true")
    assert nothing.shape(view()) == nothing.shape(view(driver="other.com"))
    assert nothing.shape(view()) != nothing.shape(view(a=Attribute()))


def test_shapes_do_not_depend_on_what_was_asked_before() -> None:
    seen, fresh = (view(a=Attribute(int_value=1), b=Attribute(string_value="x")) for _ in range(2))
    for expression in ("size(device.attributes) == 1", "'a' in device.attributes['d.com']"):
        selector(expression).matches(seen)
        hash(selector(expression).shape(seen))
    everything = selector("size(dyn(device)) == 4")
    assert everything.shape(seen) == everything.shape(fresh)


def test_reads_name_attributes_not_what_is_inside_them() -> None:
    compiled = selector("device.attributes['d.com'].a.b == 1")
    assert compiled.reads == {("attributes", "d.com", "a")}


def test_new_expressions_know_less_than_stored_ones() -> None:
    expression = "device.allowMultipleAllocations"
    without = device.compile_selector(expression, stored=False, consumable_capacity=False)
    assert without.error is not None
    assert without.error.kind == "Invalid"
    assert without.estimated_cost == device.UNKNOWN_COST
    assert device.compile_selector(expression, stored=True, consumable_capacity=False).error is None


def test_folding_problems_are_internal_errors() -> None:
    compiled = device.compile_selector("int('x') == 1", stored=True)
    assert compiled.error == (
        "InternalError",
        "program instantiation failed: type conversion error from 'string' to 'int'",
    )


def test_compiled_expressions_are_remembered() -> None:
    assert device.compile_selector("true", stored=True) is device.compile_selector(
        "true", stored=True
    )


def test_derived_attributes() -> None:
    derived = device.compile_derived_attribute("[semver('1.2.3')]", stored=True)
    assert derived.evaluate(view()) == Attribute(version_values=("1.2.3",))
    measured = derived.program.measure(view().fields)
    assert (list(map(str, measured.value)), measured.cost) == (["1.2.3"], 11)


def test_derived_lists_hold_one_type() -> None:
    derived = device.compile_derived_attribute("[dyn(1), dyn('a')]", stored=True)
    with pytest.raises(
        EvaluationError, match="expected list element at index 1 to be int, got string"
    ):
        derived.evaluate(view())


@pytest.mark.parametrize(
    "expression",
    [
        'device.attributes["d.com"].model == "a"',
        'device.attributes["d.com"].model == "a" && device.driver == "d.com"',
        'device.attributes["d.com"].ring == "east"',
        'device.attributes["other.com"].model == "a"',
        'has(device.attributes["d.com"].ring) || device.attributes["d.com"].index > 0',
        'device.attributes["d.com"].?ring.orValue("none") == "none"',
        '"other.com" in device.attributes',
        "device.allowMultipleAllocations",
    ],
)
@pytest.mark.parametrize("name", ["model", "d.com/model", "other.com/model"])
def test_a_narrow_view_is_matched_as_the_whole_device(expression: str, name: str) -> None:
    published = dra.Device(
        attributes={
            name: dra.DeviceAttribute(string_value="a"),
            "index": dra.DeviceAttribute(int_value=1),
        }
    )
    compiled = selector(expression)
    whole, narrow = (
        device.view("d.com", published),
        compiled.narrow_view("d.com", published) or device.view("d.com", published),
    )
    assert _outcome(compiled, narrow) == _outcome(compiled, whole)


def test_what_a_device_publishes_twice_is_not_viewed_narrowly() -> None:
    one, other = (dra.DeviceAttribute(string_value=text) for text in "ab")
    published = dra.Device(attributes={"model": one, "d.com/model": other})
    compiled = selector('device.attributes["d.com"].model == "a"')
    assert compiled.narrow_view("d.com", published) is None


def _outcome(compiled: device.Selector, seen: DeviceView) -> bool | str:
    try:
        return compiled.matches(seen)
    except EvaluationError as problem:
        return str(problem)
