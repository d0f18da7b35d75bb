"""The values of literal tokens: numbers within their ranges, strings without their escapes."""

from __future__ import annotations

import re

from dray.cel.runtime.values import MAXIMUM_INT, MAXIMUM_UINT, MINIMUM_INT, UInt
from dray.cel.syntax import lexer

_SIMPLE_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_ESCAPE = re.compile(r"\\(?:[xX](..)|u(.{4})|U(.{8})|([0-3][0-7]{2})|(.))", re.DOTALL)

# The longest decimal number that fits 64 bits; Python refuses to convert texts of thousands.
_MAX_DIGITS = 20


class InvalidLiteral(Exception):
    """The token has a literal's form and no value; `str()` is cel-go's text."""


def number(kind: str, text: str) -> int | UInt | float:
    """Return the value of a number token with its sign."""
    if kind == lexer.DOUBLE:
        return _double(text)
    if kind == lexer.UINT:
        value = _integer(text[:-1])
        if value is None or value > MAXIMUM_UINT:
            raise InvalidLiteral("invalid uint literal")
        return UInt(value)
    value = _integer(text)
    if value is None or not MINIMUM_INT <= value <= MAXIMUM_INT:
        raise InvalidLiteral("invalid int literal")
    return value


def _integer(text: str) -> int | None:
    digits = text.lstrip("-")
    base = 10
    if digits.startswith("0x"):
        digits, base = digits[2:], 16
    digits = digits.lstrip("0") or "0"
    if len(digits) > _MAX_DIGITS:
        return None
    value = int(digits, base)
    return -value if text.startswith("-") else value


def _double(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise InvalidLiteral("invalid double literal")
    return value


def text_or_bytes(kind: str, text: str) -> str | bytes:
    """Return the value of a STRING or BYTES token."""
    return _octets(text) if kind == lexer.BYTES else _string(text)


def _string(text: str) -> str:
    body, raw = _body(text)
    if raw or "\\" not in body:
        return body
    return _ESCAPE.sub(_character, body)


def _octets(text: str) -> bytes:
    """Decode escapes as single bytes and everything else as UTF-8."""
    body, raw = _body(text[1:])
    if raw or "\\" not in body:
        return body.encode()
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(body):
        parts += [body[end : match.start()].encode(), _octet(match)]
        end = match.end()
    return b"".join([*parts, body[end:].encode()])


def _body(text: str) -> tuple[str, bool]:
    """Return the text between the quotes, line ends as \\n, and whether it is raw."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    quoted = text[1:] if raw else text
    width = 3 if len(quoted) >= 6 and quoted[:3] in ("'''", '"""') else 1
    return quoted[width:-width], raw


def _code(match: re.Match[str]) -> int | None:
    hexadecimal = match[1] or match[2] or match[3]
    if hexadecimal:
        return int(hexadecimal, 16)
    return int(match[4], 8) if match[4] else None


def _character(match: re.Match[str]) -> str:
    code = _code(match)
    if code is None:
        return _SIMPLE_ESCAPES.get(match[5], match[5])
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise InvalidLiteral("invalid unicode code point")
    return chr(code)


def _octet(match: re.Match[str]) -> bytes:
    if match[2] or match[3]:
        raise InvalidLiteral("unable to unescape string")
    code = _code(match)
    if code is None:
        return _SIMPLE_ESCAPES.get(match[5], match[5]).encode()
    return bytes((code,))
