"""Syntax errors: ANTLR reports several, after guessing how to go on.

The first six texts and their errors were recorded from Kubernetes.
"""

from __future__ import annotations

import pytest

from dray.cel.syntax import error_recovery, lexer

EXPRESSION = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, "
    "BYTES, IDENTIFIER}"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 +", [(3, f"mismatched input '<EOF>' expecting {EXPRESSION}")]),
        ("'a' 'b'", [(4, "extraneous input ''b'' expecting <EOF>")]),
        ("'a'()", [(3, "mismatched input '(' expecting <EOF>")]),
        (
            "in + 1",
            [
                (0, f"mismatched input 'in' expecting {EXPRESSION}"),
                (3, f"extraneous input '+' expecting {EXPRESSION}"),
            ],
        ),
        (
            "a.in == 1",
            [
                (2, "no viable alternative at input '.in'"),
                (5, f"extraneous input '==' expecting {EXPRESSION}"),
            ],
        ),
        ("a.null == 1", [(2, "mismatched input 'null' expecting IDENTIFIER")]),
        ("(a", [(2, "missing ')' at '<EOF>'")]),
    ],
)
def test_errors_of_antlr(text: str, expected: list[tuple[int, str]]) -> None:
    tokens, _ = lexer.tokenize(text)
    found = [(issue.position, issue.message) for issue in error_recovery.syntax_errors(tokens)]
    assert found == [(position, f"Syntax error: {message}") for position, message in expected]


@pytest.mark.parametrize(
    "text", ["(((", "[1, )", "{1 2}", "a ? b", "a.(b)", "f(,)", "a[", "- - +", "!"]
)
def test_every_broken_text_has_an_error(text: str) -> None:
    tokens, _ = lexer.tokenize(text)
    issues = error_recovery.syntax_errors(tokens)
    assert issues
    assert all(issue.message.startswith("Syntax error: ") for issue in issues)


def test_recovery_gives_up_after_thirty_attempts() -> None:
    tokens, _ = lexer.tokenize(" ".join(["a ? )"] * 100))
    last = error_recovery.syntax_errors(tokens)[-1]
    assert "limit exceeded" in last.message
