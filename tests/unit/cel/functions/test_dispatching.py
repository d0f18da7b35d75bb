"""Overloads are chosen by the values of a call."""

from __future__ import annotations

from typing import Any

import pytest

from dray.cel import types
from dray.cel.functions import dispatching
from dray.cel.functions.kubernetes import ip_cidr
from dray.cel.functions.overloads import Overload
from dray.cel.functions.standard import conversions, strings
from dray.cel.runtime.values import EvaluationError, UInt
from tests.unit.cel.calling import function, overload


def describing(*arguments: types.Type) -> Overload:
    """An overload that answers with its signature."""
    signature = ", ".join(map(str, arguments))
    return Overload(signature, arguments, types.STRING, lambda *values: signature)


def chosen(overloads: list[Overload], *arguments: Any) -> str:
    return str(dispatching.dispatcher("f", overloads)(*arguments))


def test_the_class_of_a_value_decides() -> None:
    overloads = [describing(types.BOOL), describing(types.INT), describing(types.UINT)]
    assert chosen(overloads, True) == "bool"
    assert chosen(overloads, 1) == "int"
    assert chosen(overloads, UInt(1)) == "uint"


def test_the_number_of_arguments_decides() -> None:
    overloads = [describing(types.INT), describing(types.INT, types.DYN)]
    assert chosen(overloads, 1) == "int"
    assert chosen(overloads, 1, "a") == "int, dyn"


def test_of_a_container_the_first_entry_decides() -> None:
    strings_by_name = types.map_of(types.STRING, types.STRING)
    overloads = [
        describing(types.list_of(types.INT)),
        describing(types.list_of(types.STRING)),
        describing(strings_by_name),
    ]
    assert chosen(overloads, ["a", 1]) == "list(string)"
    assert chosen(overloads, []) == "list(int)"
    assert chosen(overloads, {"a": "b"}) == "map(string, string)"
    with pytest.raises(EvaluationError, match=r"^no such overload: f\(map\)$"):
        chosen(overloads, {"a": 1})


def test_a_parameter_takes_anything() -> None:
    element = types.parameter("A")
    assert chosen([describing(types.list_of(element), element)], [1], "a") == "list(<A>), <A>"


@pytest.mark.parametrize(
    ("overloads", "arguments", "message"),
    [
        ([(types.BOOL,)], (None,), "no such overload: f(null_type)"),
        ([(types.BOOL, types.INT)], (True, "a"), "no such overload: f(bool, string)"),
        ([(types.BOOL,), (types.BOOL, types.INT)], (1, 2), "no such overload: f(int, int)"),
    ],
)
def test_no_overload_fits(
    overloads: list[tuple[types.Type, ...]], arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(EvaluationError) as caught:
        chosen([describing(*each) for each in overloads], *arguments)
    assert str(caught.value) == message


def test_a_guarded_overload_takes_only_its_own_types() -> None:
    conversion = function(conversions.LIBRARY, "int")
    from_text = dispatching.guarded(conversion, overload(conversions.LIBRARY, "string_to_int64"))
    assert from_text("5") == 5
    with pytest.raises(EvaluationError, match=r"^no such overload: int\(double\)$"):
        from_text(5.0)


def test_a_function_that_is_bound_once_guards_itself() -> None:
    test = function(strings.LIBRARY, "contains")
    guarded = dispatching.guarded(test, overload(strings.LIBRARY, "contains_string"))
    assert guarded is test.dispatch
    with pytest.raises(EvaluationError, match=r"^no such overload$"):
        guarded(5, "a")


def test_a_member_is_not_mistaken_for_a_function_of_that_name() -> None:
    member = function(ip_cidr.CIDR_LIBRARY, "ip")
    guarded = dispatching.guarded(member, overload(ip_cidr.CIDR_LIBRARY, "cidr_ip"))
    with pytest.raises(EvaluationError, match=r"^no such overload: ip\(string\)$"):
        guarded("10.0.0.1")
