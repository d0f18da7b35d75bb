"""Syntax errors in the words of ANTLR, whose generated parser cel-go uses.

It mends some of them and reads on: one token too many, and one that is missing where the next one
would fit behind it (DefaultErrorStrategy, singleTokenDeletion and singleTokenInsertion).
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.cel.issues import Issue
from dray.cel.syntax import lexer
from dray.cel.syntax.lexer import Token

FIELD_NAMES = (lexer.IDENTIFIER, lexer.ESCAPED_IDENTIFIER)
# In the order of ANTLR's token types, which is the order of its messages.
_ORDER = (
    *("[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "true", "false", "null"),
    *(lexer.DOUBLE, lexer.INT, lexer.UINT, lexer.STRING, lexer.BYTES),
    *(lexer.IDENTIFIER, lexer.ESCAPED_IDENTIFIER, lexer.END),
)
_RANKS = {kind: rank for rank, kind in enumerate(_ORDER)}
EXPRESSION_START = frozenset(
    {"[", "{", "(", ".", "-", "!", "true", "false", "null", lexer.DOUBLE, lexer.INT, lexer.UINT}
    | {lexer.STRING, lexer.BYTES, lexer.IDENTIFIER}
)


class SyntaxFailure(Exception):
    """A token that cannot follow the ones before it, where reading ends."""

    def __init__(self, *issues: Issue) -> None:
        super().__init__(issues)
        self.issues = issues


def mismatched(token: Token, expected: Iterable[str]) -> Issue:
    return _issue(token, f"mismatched input {_quoted(token.text)} expecting {_listed(expected)}")


def extraneous(token: Token, expected: Iterable[str]) -> Issue:
    return _issue(token, f"extraneous input {_quoted(token.text)} expecting {_listed(expected)}")


def missing(kind: str, token: Token) -> Issue:
    return _issue(token, f"missing {_name(kind)} at {_quoted(token.text)}")


def no_alternative(text: str, first: Token, token: Token) -> Issue:
    """Return the error where none of several ways to go on behind `first` fits."""
    between = text[first.position + len(first.text) : token.position]
    # Characters that start no token are not part of what ANTLR has read.
    blank = "".join(character for character in between if character in " \t\r\n\f")
    read = first.text + blank + (token.text if token.kind != lexer.END else "")
    return _issue(token, f"no viable alternative at input {_quoted(read)}")


def _issue(token: Token, message: str) -> Issue:
    return Issue(token.position, f"Syntax error: {message}")


def _listed(kinds: Iterable[str]) -> str:
    names = [_name(kind) for kind in sorted(kinds, key=_RANKS.__getitem__)]
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


def _name(kind: str) -> str:
    """Return the name of a token class, or its text in quotes if it has only one."""
    return kind if kind[0].isupper() or kind == lexer.END else f"'{kind}'"
