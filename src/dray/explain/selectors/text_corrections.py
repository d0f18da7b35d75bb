"""Small corrections of what people commonly write in selectors, made from the text alone.

Each is a guess: who uses one compiles it, and tries it on devices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from dray.explain.selectors import spelling

_STRING = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_FUNCTIONS = (
    *("startsWith", "endsWith", "contains", "matches", "compareTo", "isGreaterThan", "isLessThan"),
    *("quantity", "semver", "has", "size", "exists", "all", "lowerAscii", "upperAscii", "orValue"),
)
_OTHER_NAMES = {
    "equalsIgnoreCase": "matches",
    "includes": "contains",
    "len": "size",
    "length": "size",
    "lower": "lowerAscii",
    "regex": "matches",
    "test": "matches",
    "toLowerCase": "lowerAscii",
}
"""What other languages call functions of CEL."""
_OPERATOR_ON_VALUE = re.compile(
    r"(device\.\w+\[[^\]]+\]\.\w+)\s*(==|!=|<=|>=|<|>)\s*((?:semver|quantity)\([^)]*\))"
)
_WORDS = {"and": "&&", "or": "||", "not": "!", "AND": "&&", "OR": "||", "NOT": "!"}
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class Correction(NamedTuple):
    """A corrected selector, and what was wrong."""

    text: str
    reason: str


def corrections(text: str) -> Iterator[Correction]:
    """Yield small corrections of a selector, the likeliest first."""
    for correction in _CORRECTIONS:
        yield from correction(text)


def with_domain(text: str, domain: str) -> Iterator[Correction]:
    """Add the domain to attributes and capacities that are written without one."""
    new = re.sub(
        r"device\.(attributes|capacity)\.(\w+)(?=\s*(?:[=!<>]|in\b|\.\w+\(|$))",
        rf'device.\1["{domain}"].\2',
        text,
    )
    if new != text:
        yield Correction(new, "An attribute is named with its domain.")


def _outside_strings(text: str, pattern: str, replacement: str) -> str:
    """Return the text with a pattern replaced, except in string literals."""
    parts: list[str] = []
    end = 0
    for match in _STRING.finditer(text):
        parts += [re.sub(pattern, replacement, text[end : match.start()]), match[0]]
        end = match.end()
    return "".join([*parts, re.sub(pattern, replacement, text[end:])])


def _quotes(text: str) -> Iterator[Correction]:
    plain = text.translate({0x201C: '"', 0x201D: '"', 0x2018: "'", 0x2019: "'"})
    if plain != text:
        yield Correction(plain, "Typographic quotation marks are not CEL.")
    inner = text.strip()
    if len(inner) > 1 and inner[0] == inner[-1] and inner[0] in "\"'" and "device" in inner:
        yield Correction(inner[1:-1], "The expression is in quotation marks twice.")


def _equals_sign(text: str) -> Iterator[Correction]:
    yield from _changed(text, r"(?<![=!<>])=(?![=~])", "==", "Equality is `==` in CEL.")
    yield from _changed(text, r"===", "==", "Equality is `==` in CEL.")
    yield from _changed(text, r"<>", "!=", "Inequality is `!=` in CEL.")
    match = re.search(r"([^\s&|]+)\s*=~\s*((?:\"[^\"]*\")|(?:'[^']*'))", text)
    if match:
        new = f"{text[: match.start()]}{match[1]}.matches({match[2]}){text[match.end() :]}"
        yield Correction(new, "A regular expression is tested with matches().")


def _operators(text: str) -> Iterator[Correction]:
    joined = text
    for word, operator in _WORDS.items():
        joined = _outside_strings(
            joined, rf"\b{word}\b ?", f"{operator} " if operator != "!" else "!"
        )
    if joined != text:
        yield Correction(joined, "And, or and not are `&&`, `||` and `!` in CEL.")
    yield from _changed(text, r"(?<!&)&(?!&)", "&&", "And is `&&` in CEL.")
    yield from _changed(text, r"(?<!\|)\|(?!\|)", "||", "Or is `||` in CEL.")
    trailing = re.sub(r"\s*(?:&&|\|\|)\s*$", "", text)
    if trailing != text:
        yield Correction(trailing, "Nothing follows the last operator.")
    yield from _changed(text, r"\bTrue\b", "true", "CEL writes true and false in lower case.")
    yield from _changed(text, r"\bFalse\b", "false", "CEL writes true and false in lower case.")


def _changed(text: str, pattern: str, new: str, reason: str) -> Iterator[Correction]:
    changed = _outside_strings(text, pattern, new)
    if changed != text:
        yield Correction(changed, reason)


def _device(text: str) -> Iterator[Correction]:
    """Correct what is read of the device."""
    reason = "A selector reads `device`."
    yield from _changed(
        text, r"(?<![\w.])(attributes|capacity|driver)(?=[.\[ =])", r"device.\1", reason
    )
    yield from _changed(text, r"\bdevices\.", "device.", reason)
    yield from _changed(
        text, r"\bdevice\.attribute\b", "device.attributes", "The field is attributes."
    )
    yield from _changed(
        text, r"\bdevice\.capacities\b", "device.capacity", "The field is capacity."
    )
    joined = re.sub(
        r"device\.(attributes|capacity)\[(['\"])([\w.-]+)/(\w+)\2\]", r'device.\1["\3"].\4', text
    )
    if joined != text:
        yield Correction(joined, "The domain is the key and the name a field of it.")
    yield from dotted_domain(text)
    unquoted = re.sub(
        r"device\.(attributes|capacity)\[([a-z0-9-]+(?:\.[a-z0-9-]+)+)\]", r'device.\1["\2"]', text
    )
    if unquoted != text:
        yield Correction(unquoted, "A domain is text in quotation marks.")


def dotted_domain(text: str) -> Iterator[Correction]:
    """Write a domain that is separated by dots as a key in brackets."""
    dotted = re.sub(
        r"device\.(attributes|capacity)\.([a-z0-9-]+(?:\.[a-z0-9-]+)+)\.(\w+)(?=\W)",
        r'device.\1["\2"].\3',
        text,
    )
    if dotted != text:
        yield Correction(dotted, "A domain is a key in brackets.")


def _functions(text: str) -> Iterator[Correction]:
    """Correct the names of functions, and text and quantities without quotation marks."""
    for match in re.finditer(r"\b([A-Za-z_]+)\(", _STRING.sub('""', text)):
        others = [_OTHER_NAMES[match[1]]] if match[1] in _OTHER_NAMES else []
        close = others or spelling.similar(match[1], _FUNCTIONS)
        close = close if match[1] not in _FUNCTIONS else []
        if close:
            new = re.sub(rf"\b{match[1]}\(", f"{close[0]}(", text)
            yield Correction(new, f"The function is {close[0]}().")
    unit = r"(?<![\w\"'.])(\d+(?:\.\d+)?(?:[KMGTPE]i?|k|m)[bB]?)\b"
    yield from _changed(text, unit, r'"\1"', "A quantity is text in quotation marks.")
    bare = r"(==|!=) *([A-Za-z][\w-]*)(?![\w.(\[\"'])"
    for match in re.finditer(bare, _STRING.sub(lambda found: "_" * len(found[0]), text)):
        if match[2] not in ("true", "false", "device", "null"):
            new = f'{text[: match.start(2)]}"{match[2]}"{text[match.end(2) :]}'
            yield Correction(new, "Text is written in quotation marks.")
    units = re.sub(r"(quantity\(['\"])([\d.]+)\s*([KMGTPE])(i?)[bB](['\"]\))", r"\1\2\3i\5", text)
    if units != text:
        yield Correction(units, "Units of quantities have no B: Gi (powers of 1024) or G.")
    versions = re.sub(
        r"semver\((['\"])v?(\d+)(\.\d+)?(['\"])\)",
        lambda found: f"semver({found[1]}{found[2]}{found[3] or '.0'}.0{found[4]})",
        text,
    )
    if versions != text:
        yield Correction(versions, "A semantic version has three numbers.")


def _membership(text: str) -> Iterator[Correction]:
    """Compare with one text by `==`, and search for a part of a text with contains()."""
    single = re.sub(r"\bin\s+(\"[^\"]*\"|'[^']*')", r"== \1", text)
    if single != text:
        yield Correction(single, "`in` is for lists; one text is compared with `==`.")
    part = re.sub(r"\.matches\((['\"])\*([^*'\"]+)\*?\1\)", r".contains(\1\2\1)", text)
    if part != text:
        yield Correction(part, "`*` is no wildcard; a part of a text is found with contains().")


def _compared_values(text: str) -> Iterator[Correction]:
    """Compare versions and quantities with compareTo()."""
    new = _OPERATOR_ON_VALUE.sub(r"\1.compareTo(\3) \2 0", text)
    if new != text:
        yield Correction(new, "Versions and quantities are compared with compareTo().")


def _brackets(text: str) -> Iterator[Correction]:
    """Close brackets and quotation marks that are open."""
    plain = _STRING.sub(lambda found: "_" * len(found[0]), text)
    open_brackets: list[str] = []
    for number, character in enumerate(plain):
        if character in _CLOSING:
            open_brackets.append(character)
        elif character in _CLOSING.values():
            if open_brackets and _CLOSING[open_brackets[-1]] == character:
                open_brackets.pop()
            else:
                reason = f"One `{character}` is too many."
                yield Correction(text[:number] + text[number + 1 :], reason)
    if not open_brackets:
        return
    closing = _CLOSING[open_brackets[-1]]
    ends = [match.end() for match in _STRING.finditer(text)]
    numbers = [match.end() for match in re.finditer(r"\w\b", plain)]
    for position in dict.fromkeys([*ends, len(text.rstrip()), *numbers]):
        fixed = text[:position] + closing + text[position:]
        yield Correction(fixed, f"A `{open_brackets[-1]}` is not closed.")


_CORRECTIONS: tuple[Callable[[str], Iterable[Correction]], ...] = (
    _quotes,
    _equals_sign,
    _operators,
    _device,
    _functions,
    _membership,
    _compared_values,
    _brackets,
)
