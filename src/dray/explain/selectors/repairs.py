"""Repairs of selectors that do not compile: operators, names, quotes and brackets.

A repair is a guess about what was meant. It is returned only if it compiles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from dray.api.features import Features
from dray.explain.selectors import expressions, spelling, text_corrections
from dray.explain.selectors.expressions import ATTRIBUTES, CAPACITY, QUANTITY, SelectorSubject

_STRINGS = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""")
_OPERATORS = (
    (r"(?<![=!<>])===?(?!=)|(?<![=!<>])=(?![=<>])", "=="),
    (r"!==", "!="),
    (r"<>", "!="),
    (r"=>", ">="),
    (r"=<", "<="),
    (r"(?<!&)&(?!&)|\b(?:and|AND|And)\b", "&&"),
    (r"(?<!\|)\|(?!\|)|\b(?:or|OR|Or)\b", "||"),
    (r"\b(?:not|NOT|Not)\s+(?!in\b)", "!"),
    (r"\bTrue\b|\bTRUE\b", "true"),
    (r"\bFalse\b|\bFALSE\b", "false"),
    (r"\bNone\b|\bNULL\b", "null"),
)
_FUNCTIONS = (
    *("startsWith", "endsWith", "contains", "matches", "compareTo", "isGreaterThan", "isLessThan"),
    *("quantity", "semver", "has", "size", "orValue", "exists", "lowerAscii"),
)
_DEVICE_FIELDS = ("driver", ATTRIBUTES, CAPACITY, "allowMultipleAllocations")
_BRACKETS = {"(": ")", "[": "]", "{": "}"}

Repair = Callable[[str, frozenset[SelectorSubject]], str]


def repaired(text: str, published: Iterable[SelectorSubject], features: Features) -> str | None:
    """Return the selector with its mistakes repaired, or None if no repair makes it compile.

    `published` are the attributes and capacities of the devices.
    """
    names, original = frozenset(published), text
    for repair in _REPAIRS:
        text = repair(text, names)
        for candidate in (_with_quantities(text), text):
            if expressions.compiled(candidate, features).error is None:
                return candidate
    return _corrected(original, features)


def _corrected(text: str, features: Features) -> str | None:
    """Return the selector after up to two corrections of its text that make it compile."""
    current = [text]
    for _ in range(2):
        current = [found.text for one in current for found in text_corrections.corrections(one)]
        for candidate in current:
            if expressions.compiled(candidate, features).error is None:
                return candidate
    return None


def _outside_strings(text: str, change: Callable[[str], str]) -> str:
    """Return the text with `change` applied to everything that is not in quotes."""
    parts = _STRINGS.split(text)
    return "".join(part if number % 2 else change(part) for number, part in enumerate(parts))


def _unchanged(text: str, _: frozenset[SelectorSubject]) -> str:
    return text


def _plain_quotes(text: str, _: frozenset[SelectorSubject]) -> str:
    return re.sub("[\u201c\u201d\u201e]", '"', re.sub("[\u2018\u2019]", "'", text)).strip()


def _operators(text: str, _: frozenset[SelectorSubject]) -> str:
    def changed(part: str) -> str:
        for pattern, operator in _OPERATORS:
            part = re.sub(pattern, operator, part)
        return part

    return _outside_strings(text, changed)


def _keys(text: str, _: frozenset[SelectorSubject]) -> str:
    """Quote a domain in brackets, and write `["DOMAIN/NAME"]` as `["DOMAIN"].NAME`."""
    quoted = _outside_strings(
        text, lambda part: re.sub(r"\[([\w-]+(?:\.[\w/-]+)+)\]", r'["\1"]', part)
    )
    return re.sub(r"""(attributes|capacity)\[["']([^"'/]+)/(\w+)["']\]""", r'\1["\2"].\3', quoted)


def _device(text: str, _: frozenset[SelectorSubject]) -> str:
    """Write `device.` before its fields."""
    pattern = r"(?<![\w.])(attributes|capacity|driver)(?=[.\[ =])"
    return _outside_strings(text, lambda part: re.sub(pattern, r"device.\1", part))


def _values(text: str, _: frozenset[SelectorSubject]) -> str:
    """Quote quantities and words that are compared without quotation marks."""

    def changed(part: str) -> str:
        part = re.sub(r"(?<![\w.])(\d+(?:\.\d+)?(?:[KMGTPE]i?|k|m))\b", r'"\1"', part)
        return re.sub(
            r"([=!]=\s*)(?!(?:true|false|null|device)\b)([A-Za-z][\w-]*)(?![\w.(\[])",
            r'\1"\2"',
            part,
        )

    return _outside_strings(text, changed)


def _keys_closed(text: str, _: frozenset[SelectorSubject]) -> str:
    """Close the bracket of a domain before the name of the attribute."""
    return re.sub(r"""(\[(?:"[^"]*"|'[^']*'))(?=\.\w)""", r"\1]", text)


def _words(text: str, published: frozenset[SelectorSubject]) -> str:
    """Correct the spelling of functions and of the fields of `device`; add missing domains."""

    def function(match: re.Match[str]) -> str:
        name = match[1]
        close = [] if name in _FUNCTIONS else spelling.similar(name, _FUNCTIONS)
        return f"{close[0] if close else name}("

    def field(match: re.Match[str]) -> str:
        name = match[1]
        close = [] if name in _DEVICE_FIELDS else spelling.similar(name, _DEVICE_FIELDS)
        return f"device.{close[0] if close else name}"

    def changed(part: str) -> str:
        part = re.sub(r"\b([A-Za-z]\w*)\(", function, part)
        part = re.sub(r"\bdevice\.(\w+)", field, part)
        return re.sub(
            r"\bdevice\.(?:(attributes|capacity)\.)?(\w+)\b",
            lambda match: _located(match, published),
            part,
        )

    return _outside_strings(text, changed)


def _located(match: re.Match[str], published: frozenset[SelectorSubject]) -> str:
    """Return `device.NAME` and `device.attributes.NAME` with field and domain, if NAME exists."""
    field, name = match[1], match[2]
    if name in _DEVICE_FIELDS:
        return match[0]
    having = sorted(subject for subject in published if subject.name.casefold() == name.casefold())
    having.sort(key=lambda subject: subject.field != field)
    if not having:
        return match[0]
    found = having[0]
    return f'device.{found.field}["{found.domain}"].{found.name}'


def _brackets(text: str, _: frozenset[SelectorSubject]) -> str:
    """Close what is open at the end, and a quote that is open."""
    bare = _STRINGS.sub("", text)
    if bare.count('"') % 2:
        text += '"'
    expected: list[str] = []
    for character in _STRINGS.sub("", text):
        if character in _BRACKETS:
            expected.append(_BRACKETS[character])
        elif expected and character == expected[-1]:
            expected.pop()
    return text + "".join(reversed(expected))


def _with_quantities(text: str) -> str:
    """Return the text with capacities compared as quantities."""
    for number in range(len(expressions.comparisons(text))):
        compared = expressions.comparisons(text)[number]
        if compared.subject.field == CAPACITY and not (compared.form and compared.is_method):
            text = expressions.converted(text, compared, QUANTITY) or text
    return text


_REPAIRS: tuple[Repair, ...] = (
    *(_unchanged, _plain_quotes, _operators, _keys, _device, _values, _keys_closed, _brackets),
    _words,
)  # fmt: skip
