"""Types fit, variables are bound, and failures leave no trace."""

from __future__ import annotations

import itertools

import pytest

from dray.cel import types
from dray.cel.checking import inference
from dray.cel.checking.inference import Inference, TypeTooComplex
from dray.cel.types import Type, list_of, map_of, optional_of, parameter


@pytest.fixture
def known() -> Inference:
    return Inference()


@pytest.mark.parametrize(
    ("target", "source"),
    [
        (types.INT, types.INT),
        (types.DYN, types.STRING),
        (types.STRING, types.ANY),
        (types.ERROR, types.INT),
        (list_of(types.DYN), list_of(types.INT)),
        (types.QUANTITY, types.NULL),
        (types.NULL, types.DURATION),
        (types.type_of(types.INT), types.type_of(types.STRING)),
        (types.opaque("net.IP"), types.IP),
    ],
)
def test_types_that_fit(target: Type, source: Type, known: Inference) -> None:
    assert known.is_assignable(target, source)
    assert known.is_assignable(source, target)


@pytest.mark.parametrize(
    ("target", "source"),
    [
        (types.INT, types.UINT),
        (types.INT, types.NULL),
        (list_of(types.INT), types.NULL),
        (list_of(types.INT), list_of(types.STRING)),
        (types.IP, types.CIDR),
        (types.QUANTITY, types.SEMVER),
        (optional_of(types.INT), types.INT),
        (map_of(types.STRING, types.INT), map_of(types.STRING, types.STRING)),
    ],
)
def test_types_that_do_not_fit(target: Type, source: Type, known: Inference) -> None:
    assert not known.is_assignable(target, source)
    assert not known.is_assignable(source, target)


def test_a_variable_stands_for_what_it_was_matched_with(known: Inference) -> None:
    variable = known.new_variable()
    assert known.is_assignable(list_of(types.INT), list_of(variable))
    assert known.substitute(variable) == types.INT
    assert not known.is_assignable(variable, types.STRING)


def test_a_variable_keeps_the_most_general_type(known: Inference) -> None:
    variable = known.new_variable()
    assert known.are_assignable([types.INT, types.DYN], [variable, variable])
    assert known.substitute(variable) == types.DYN


def test_a_free_variable_stays_until_the_end(known: Inference) -> None:
    variable = known.new_variable()
    assert known.substitute(list_of(variable)) == list_of(variable)
    assert known.close([list_of(variable)]) == [list_of(types.DYN)]


def test_a_variable_does_not_stand_for_a_type_that_contains_it(known: Inference) -> None:
    variable = known.new_variable()
    assert not known.is_assignable(variable, list_of(variable))
    assert known.is_assignable(variable, variable)


def test_a_failed_match_binds_nothing(known: Inference) -> None:
    variable = known.new_variable()
    assert not known.are_assignable([types.INT, types.INT], [variable, types.STRING])
    assert known.substitute(variable) == variable


def test_lists_of_different_lengths_do_not_match(known: Inference) -> None:
    assert not known.are_assignable([types.INT], [])


def test_each_use_of_a_signature_has_variables_of_its_own(known: Inference) -> None:
    signature = (list_of(parameter("A")), parameter("A"))
    first, second = known.instantiate(signature), known.instantiate(signature)
    assert first[0].parameters[0] == first[1]
    assert first[1] != second[1]


def test_a_signature_passed_over_uses_up_its_numbers(known: Inference) -> None:
    known.pass_over((parameter("A"), map_of(parameter("A"), parameter("B"))))
    assert known.new_variable().name == "_var2"


def test_the_quick_look_rejects_only_what_cannot_fit() -> None:
    assert not inference.may_fit([types.INT], [types.STRING])
    assert not inference.may_fit([types.INT], [])
    assert inference.may_fit([types.INT], [parameter("A")])
    assert inference.may_fit([types.NULL], [types.DURATION])
    assert inference.may_fit([list_of(types.INT)], [list_of(types.STRING)])


def test_a_type_nested_too_deeply_is_given_up(known: Inference) -> None:
    deep = types.INT
    for _ in range(inference.MAX_DEPTH):
        deep = list_of(deep)
    with pytest.raises(TypeTooComplex):
        inference.limited(deep)


def test_a_chain_of_variables_too_long_is_given_up(known: Inference) -> None:
    variables = [known.new_variable() for _ in range(inference.MAX_DEPTH)]
    for outer, inner in itertools.pairwise(variables):
        assert known.is_assignable(outer, list_of(inner))
    with pytest.raises(TypeTooComplex):
        known.substitute(variables[0])
