"""Field selectors: parse, match and write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dray.api.selectors.label_selectors import SelectorError


class FieldTerm(NamedTuple):
    field: str
    value: str
    is_negated: bool = False

    def __str__(self) -> str:
        operator = "!=" if self.is_negated else "="
        return f"{self.field}{operator}{escape_field_value(self.value)}"


class FieldSelector(NamedTuple):
    """All of some terms on fields of an object; none at all match everything."""

    terms: tuple[FieldTerm, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return whether an object with these fields is selected; a field not given is empty."""
        return all(
            (fields.get(term.field, "") == term.value) != term.is_negated for term in self.terms
        )

    def required_value(self, field: str) -> str | None:
        """Return the only value the selector allows for a field, or None."""
        for term in self.terms:
            if term.field == field and not term.is_negated:
                return term.value
        return None

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


_SPECIAL_IN_FIELD_VALUE = re.compile(r"[\\,=]")


_FIELD_OPERATOR = re.compile("!=|==|=")


def escape_field_value(value: str) -> str:
    return _SPECIAL_IN_FIELD_VALUE.sub(r"\\\g<0>", value)


def parse_fields(text: str) -> FieldSelector:
    """Parse a field selector of a query: `metadata.name=x,status.phase!=Failed`."""
    terms = []
    for part in sorted(filter(None, _split_terms(text))):
        operator = _FIELD_OPERATOR.search(part)
        if operator is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        value = _unescape_field_value(part[operator.end() :])
        terms.append(FieldTerm(part[: operator.start()], value, operator.group() == "!="))
    return FieldSelector(tuple(terms))


def _split_terms(text: str) -> Iterator[str]:
    start, is_escaped = 0, False
    for index, character in enumerate(text):
        if is_escaped:
            is_escaped = False
        elif character == "\\":
            is_escaped = True
        elif character == ",":
            yield text[start:index]
            start = index + 1
    yield text[start:]


def _unescape_field_value(text: str) -> str:
    literal = []
    characters = iter(text)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped not in ("\\", ",", "="):
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            literal.append(escaped)
        elif character in ",=":
            # The number of the character, not the character: Go prints a rune so.
            raise SelectorError(
                f"invalid field selector: unescaped character in value: {ord(character)}"
            )
        else:
            literal.append(character)
    return "".join(literal)
