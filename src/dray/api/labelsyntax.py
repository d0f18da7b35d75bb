"""Label selectors as text: `a in (b,c),!d,e!=f,g>1`.

The grammar, with the same errors in the same places, is that of apimachinery, labels, Parse:
words such as `in` are operators only where an operator may stand, values may be empty, and
requirements are sorted by key.
"""

from __future__ import annotations

import re

from dray.api import selectors
from dray.api.selectors import Requirement, Selector, SelectorError

_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+)")
_SYMBOLS = frozenset(("==", "!=", "=", "!", "(", ")", ",", "<", ">"))
_END = ""

_OPERATORS = {
    "in": selectors.IN,
    "notin": selectors.NOT_IN,
    "=": selectors.EQUALS,
    "==": selectors.DOUBLE_EQUALS,
    "!=": selectors.NOT_EQUALS,
    ">": selectors.GREATER,
    "<": selectors.LESS,
}
_OPERATORS_LISTED = "in, notin, =, ==, !=, gt, lt"


def parse(text: str) -> Selector:
    """The selector that `text` stands for; raises SelectorError."""
    return Selector(_Parser(text).parse())


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = [match.group(1) for match in _TOKEN.finditer(text)]
        self._position = 0

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while (token := self._peek()) != _END:
            if not _starts_requirement(token):
                raise SelectorError(f"found '{token}', expected: !, identifier, or 'end of string'")
            requirements.append(self._requirement())
            self._separator()
        return requirements

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else _END

    def _next(self) -> str:
        token = self._peek()
        self._position += 1
        return token

    def _separator(self) -> None:
        token = self._next()
        if token not in (_END, ","):
            raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
        following = self._peek()
        if token == "," and not _starts_requirement(following):
            raise SelectorError(f"found '{following}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        try:
            requirement = self._unchecked_requirement()
            selectors.check_requirement(requirement)
        except SelectorError as error:
            raise SelectorError(f"unable to parse requirement: {error}") from None
        return requirement

    def _unchecked_requirement(self) -> Requirement:
        is_negated = self._peek() == "!"
        if is_negated:
            self._next()
        key = self._key()
        if is_negated:
            return Requirement(key, selectors.DOES_NOT_EXIST)
        if self._peek() in (_END, ","):
            return Requirement(key, selectors.EXISTS)
        operator = self._operator()
        values = self._set() if operator in (selectors.IN, selectors.NOT_IN) else self._value()
        return Requirement(key, operator, tuple(sorted(values)))

    def _key(self) -> str:
        token = self._next()
        if not _is_word(token):
            raise SelectorError(f"found '{token}', expected: identifier")
        if error := selectors.key_error(token, "<nil>"):
            raise SelectorError(error)
        return token

    def _operator(self) -> str:
        token = self._next()
        if token not in _OPERATORS:
            raise SelectorError(f"found '{token}', expected: {_OPERATORS_LISTED}")
        return _OPERATORS[token]

    def _value(self) -> set[str]:
        if self._peek() in (_END, ","):
            return {""}
        token = self._next()
        if not _is_word(token):
            raise SelectorError(f"found '{token}', expected: identifier")
        return {token}

    def _set(self) -> set[str]:
        token = self._next()
        if token != "(":
            raise SelectorError(f"found '{token}' expected: '('")
        first = self._peek()
        if first != ")" and first != "," and not _is_word(first):
            raise SelectorError(f"found '{first}', expected: ',', ')' or identifier")
        values = self._members()
        self._next()
        return values

    def _members(self) -> set[str]:
        """The values before the closing parenthesis; between two commas stands an empty one."""
        values: set[str] = set()
        is_value_expected = True
        while (token := self._peek()) != ")":
            self._next()
            if token == ",":
                if is_value_expected:
                    values.add("")
                is_value_expected = True
            elif not _is_word(token):
                raise SelectorError(f"found '{token}', expected: ',', or identifier")
            else:
                values.add(token)
                is_value_expected = False
                if self._peek() not in (",", ")"):
                    raise SelectorError(f"found '{self._peek()}', expected: ',' or ')'")
        return values | {""} if is_value_expected else values


def _is_word(token: str) -> bool:
    return token != _END and token not in _SYMBOLS


def _starts_requirement(token: str) -> bool:
    return token == "!" or _is_word(token)
