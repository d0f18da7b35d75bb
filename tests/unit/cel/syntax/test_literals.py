from __future__ import annotations

import pytest

from dray.cel.runtime.values import UInt
from dray.cel.syntax import lexer, literals


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (lexer.INT, "9223372036854775807", 2**63 - 1),
        (lexer.INT, "-9223372036854775808", -(2**63)),
        (lexer.INT, "-0x10", -16),
        (lexer.INT, "0007", 7),
        (lexer.UINT, "18446744073709551615u", UInt(2**64 - 1)),
        (lexer.UINT, "0xFFu", UInt(255)),
        (lexer.DOUBLE, "-.5e1", -5.0),
    ],
)
def test_numbers(kind: str, text: str, value: float) -> None:
    found = literals.number(kind, text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        (lexer.INT, "9223372036854775808", "invalid int literal"),
        (lexer.INT, "-9223372036854775809", "invalid int literal"),
        (lexer.INT, "9" * 10_000, "invalid int literal"),
        (lexer.UINT, "18446744073709551616u", "invalid uint literal"),
        (lexer.DOUBLE, "1e400", "invalid double literal"),
    ],
)
def test_numbers_out_of_range(kind: str, text: str, problem: str) -> None:
    with pytest.raises(literals.InvalidLiteral, match=problem):
        literals.number(kind, text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a'", "a"),
        ('"""a"b"""', 'a"b'),
        ("''", ""),
        (r"'\a\b\f\n\r\t\v\\\'\"\`\?'", "\a\b\f\n\r\t\v\\'\"`?"),
        (r"'\x41\101\u00e9\U0001F600'", "AAé😀"),
        (r"r'\n'", r"\n"),
        ("'''a\r\nb\rc'''", "a\nb\nc"),
    ],
)
def test_strings(text: str, value: str) -> None:
    assert literals.text_or_bytes(lexer.STRING, text) == value


def test_escapes_in_bytes_are_single_bytes() -> None:
    assert literals.text_or_bytes(lexer.BYTES, r"b'\xff\303é'") == b"\xff\xc3\xc3\xa9"


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        (lexer.STRING, r"'\ud800'", "invalid unicode code point"),
        (lexer.STRING, r"'\U00110000'", "invalid unicode code point"),
        (lexer.BYTES, r"b'\u00e9'", "unable to unescape string"),
    ],
)
def test_escapes_without_a_value(kind: str, text: str, problem: str) -> None:
    with pytest.raises(literals.InvalidLiteral, match=problem):
        literals.text_or_bytes(kind, text)
