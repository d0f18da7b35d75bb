"""Templates of `format` come apart as cel-go takes them apart."""

import pytest

from dray.cel.functions.extensions.string_format import (
    UNEXPECTED_END,
    Clause,
    refusal,
    template_parts,
)


def problem(template: str) -> str | None:
    last = list(template_parts(template))[-1]
    assert isinstance(last, Clause)
    return last.problem


def test_text_and_clauses_alternate() -> None:
    assert list(template_parts("a %s, %.3f%%")) == [
        "a ",
        Clause("s"),
        ", ",
        Clause("f", 3),
        "",
        "%",
        "",
    ]


def test_nothing_follows_a_clause_that_cannot_be_read() -> None:
    found = list(template_parts("%q %s"))
    assert len(found) == 2


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("%", UNEXPECTED_END),
        ("%q", 'could not parse formatting clause: unrecognized formatting clause "q"'),
        ("%é", 'could not parse formatting clause: unrecognized formatting clause "Ã"'),
        (
            "%.",
            "could not parse formatting clause: error while parsing precision:"
            " could not find end of precision specifier",
        ),
        (
            "%.f",
            "could not parse formatting clause: error while parsing precision: error while"
            ' converting precision to integer: strconv.Atoi: parsing "": invalid syntax',
        ),
        (
            "%.99999999999999999999f",
            "could not parse formatting clause: error while parsing precision: error while"
            " converting precision to integer: strconv.Atoi: parsing"
            ' "99999999999999999999": value out of range',
        ),
    ],
)
def test_what_is_wrong_with_a_clause_is_said(template: str, expected: str) -> None:
    assert problem(template) == expected


def test_leading_zeros_do_not_make_a_precision_large() -> None:
    assert list(template_parts("%.000000000000000000000005f"))[1] == Clause("f", 5)


def test_a_refusal_names_the_type() -> None:
    assert refusal("o", "string") == (
        "error during formatting: octal clause can only be used on integers, was given string"
    )
