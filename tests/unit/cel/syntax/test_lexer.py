from __future__ import annotations

import pytest

from dray.cel.syntax import lexer


def kinds(text: str) -> list[str]:
    return [token.kind for token in lexer.tokenize(text)[0]]


def texts(text: str) -> list[str]:
    return [token.text for token in lexer.tokenize(text)[0]][:-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("1.e3", ["NUM_INT", ".", "IDENTIFIER"], id="a fraction needs a digit"),
        pytest.param("1e3 .5 1.5e-2", ["NUM_FLOAT"] * 3, id="floats"),
        pytest.param("0x1F 12u 0xAu", ["NUM_INT", "NUM_UINT", "NUM_UINT"], id="integers"),
        pytest.param("0x", ["NUM_INT", "IDENTIFIER"], id="hexadecimal needs a digit"),
        pytest.param("in inner true", ["in", "IDENTIFIER", "true"], id="keywords"),
        pytest.param("r'a' b'a' bR'a'", ["STRING", "BYTES", "BYTES"], id="prefixes"),
        pytest.param("rb'a'", ["IDENTIFIER", "STRING"], id="prefixes have an order"),
        pytest.param("'''it's'''", ["STRING"], id="triple quotes"),
        pytest.param("a.`b-c/d e`", ["IDENTIFIER", ".", "ESC_IDENTIFIER"], id="escaped names"),
        pytest.param("a // b\n&& c", ["IDENTIFIER", "&&", "IDENTIFIER"], id="comments"),
    ],
)
def test_longest_match_wins(text: str, expected: list[str]) -> None:
    assert kinds(text) == [*expected, lexer.END]


def test_triple_quotes_end_at_the_first_three() -> None:
    assert texts("'''a'''x'''c'''") == ["'''a'''", "x", "'''c'''"]


def test_positions_count_code_points() -> None:
    tokens, _ = lexer.tokenize("'é😀' == x")
    assert [token.position for token in tokens] == [0, 5, 8, 9]


@pytest.mark.parametrize(
    ("text", "position", "seen", "rest"),
    [
        pytest.param("a # b", 2, "#", ["a", "b"], id="unknown character"),
        pytest.param("a = b", 2, "= ", ["a", "b"], id="the character behind is lost too"),
        pytest.param("'\\d x", 0, "'\\d", ["x"], id="unknown escape"),
        pytest.param('"abc', 0, '"abc', [], id="string without end"),
        pytest.param("'a\nb", 0, "'a\n", ["b"], id="string ends with its line"),
        pytest.param("`a", 0, "`a", [], id="name without end"),
        pytest.param("\0", 0, "\0", [], id="nul"),
    ],
)
def test_what_starts_no_token_is_reported_and_skipped(
    text: str, position: int, seen: str, rest: list[str]
) -> None:
    tokens, issues = lexer.tokenize(text)
    assert issues[0].position == position
    assert issues[0].message == f"Syntax error: token recognition error at: '{seen}'"
    assert [token.text for token in tokens[:-1]] == rest
