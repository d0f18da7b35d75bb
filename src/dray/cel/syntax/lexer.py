"""Text to tokens, as cel-go's grammar cuts them: always the longest match.

A character that starts no token is reported and skipped, and reading goes on behind it, as ANTLR's
lexers do: the parser then reports its own errors about what is left.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from dray.cel.issues import Issue

END = "<EOF>"
IDENTIFIER = "IDENTIFIER"
ESCAPED_IDENTIFIER = "ESC_IDENTIFIER"
INT = "NUM_INT"
UINT = "NUM_UINT"
DOUBLE = "NUM_FLOAT"
STRING = "STRING"
BYTES = "BYTES"

KEYWORDS = frozenset({"in", "true", "false", "null"})


class Token(NamedTuple):
    """`kind` is one of the names above or, for keywords and punctuation, the text itself."""

    kind: str
    text: str
    position: int


_ESCAPE = (
    r"""\\(?:[abfnrtv"'\\?`]|[0-3][0-7]{2}|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"""
)

# A literal that ends nowhere is cut off where the longest prefix of some string ends.
_STRING_PREFIX = re.compile(
    rf"""
      "(?:[^\\"\n\r]|{_ESCAPE})*
    | '(?:[^\\'\n\r]|{_ESCAPE})*
    | `[A-Za-z0-9_.\-/\ ]*
    | [&|=]
    """,
    re.VERBOSE,
)
_ESCAPE_PREFIX = re.compile(
    r"\\(?:[0-3][0-7]?|[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7})?"
)

_TOKEN = re.compile(
    rf"""
    (?:[\t\ \r\n\f]+|//[^\n]*)*
    (?:
      (?P<BYTES>[bB])?
      (?P<STRING>
          \"\"\"(?:[^\\]|{_ESCAPE})*?\"\"\"
        | '''(?:[^\\]|{_ESCAPE})*?'''
        | "(?:[^\\"\n\r]|{_ESCAPE})*"
        | '(?:[^\\'\n\r]|{_ESCAPE})*'
        | [rR](?: \"\"\"(?s:.*?)\"\"\" | '''(?s:.*?)''' | "[^"\n\r]*" | '[^'\n\r]*' )
      )
    | (?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<NUM_FLOAT>[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
    | (?P<NUM_UINT>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
    | (?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)
    | (?P<punctuation>==|!=|<=|>=|&&|\|\||[-<>\[\]{{}}().,!?:+*/%])
    | (?P<ESC_IDENTIFIER>`[A-Za-z0-9_.\-/\ ]+`)
    | (?P<end>\Z)
    )
    """,
    re.VERBOSE,
)
_BLANK = re.compile(r"(?:[\t \r\n\f]+|//[^\n]*)*")


def tokenize(text: str) -> tuple[list[Token], list[Issue]]:
    """Return the tokens, the last of kind END, and an issue for each unknown character."""
    tokens: list[Token] = []
    issues: list[Issue] = []
    offset = 0
    while True:
        match = _TOKEN.match(text, offset)
        if match is None:
            offset = _skip_unknown(text, offset, issues)
            continue
        group = match.lastgroup
        assert group is not None
        if group == "end":
            tokens.append(Token(END, END, len(text)))
            return tokens, issues
        tokens.append(_token(match, group))
        offset = match.end()


def _token(match: re.Match[str], group: str) -> Token:
    value = match[group]
    position = match.start(group)
    if group == "punctuation" or (group == IDENTIFIER and value in KEYWORDS):
        return Token(value, value, position)
    if group == STRING and match["BYTES"]:
        return Token(BYTES, match["BYTES"] + value, position - 1)
    return Token(group, value, position)


def _skip_unknown(text: str, offset: int, issues: list[Issue]) -> int:
    """Report characters that start no token. Returns the offset behind them."""
    blank = _BLANK.match(text, offset)
    start = failed = blank.end() if blank else offset
    if prefix := _STRING_PREFIX.match(text, start):
        failed = prefix.end()
        if escape := _ESCAPE_PREFIX.match(text, failed):
            failed = escape.end()
    seen = text[start : failed + 1]
    issues.append(Issue(start, f"Syntax error: token recognition error at: '{seen}'"))
    return min(failed + 1, len(text))
