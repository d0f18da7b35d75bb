"""JSON as Go reads and writes it.

Repeated keys are remembered, syntax errors have Go's words, and what could be markup is escaped.
"""

from __future__ import annotations

import collections
import json
import re
from typing import Any, NoReturn

import msgspec

from dray.api.formats import gotext

_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING_CONTENT = re.compile(rb'(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_HEXADECIMAL = re.compile(rb"[0-9a-fA-F]{0,4}")
_DIGITS = re.compile(rb"[0-9]*")
_WHOLE_NUMBER = re.compile(rb"0|[1-9][0-9]*")
_EXPONENT_SIGN = re.compile(rb"[+-]?")

_ESCAPED_BY_GO = tuple(
    (character.encode(), f"\\u{ord(character):04x}".encode()) for character in "<>&\u2028\u2029"
)

_LITERALS = {b"t": b"true", b"f": b"false", b"n": b"null"}
_CLOSING = {b"{": b"}", b"[": b"]"}


class JsonSyntaxError(ValueError):
    """The text is not JSON; the message is that of Go's encoding/json."""


class ObjectWithDuplicateKeys(dict[str, Any]):
    """A JSON object in which some keys occurred more than once; the last value counts."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = collections.Counter(key for key, _ in pairs)
        self.repeated = {key for key, count in counts.items() if count > 1}


def decode(data: bytes) -> Any:
    """The value of a JSON text; an object with repeated keys is a `RepeatingObject`."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _decode_with_care(data)
    return value if _has_every_key(value, data) else _decode_with_care(data)


def _has_every_key(value: Any, data: bytes) -> bool:
    """Whether nothing was lost: with a key that is there twice, at least two quotes are missing.

    The same quotes are escaped in both texts, unless one has the form `\\u0022`.
    """
    return b"\\u" not in data and data.count(b'"') == _encode(value).count(b'"')


def _decode_with_care(data: bytes) -> Any:
    """Slower by far, but knows what is wrong and what is there more than once."""
    try:
        return _decoder.decode(data.decode("utf-8", "replace"))
    except RecursionError:
        raise JsonSyntaxError("exceeded max depth") from None
    except ValueError as error:
        raise JsonSyntaxError(syntax_error_message(data) or str(error)) from None


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    return plain if len(plain) == len(pairs) else ObjectWithDuplicateKeys(pairs)


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_encode = msgspec.json.Encoder().encode
_decoder = json.JSONDecoder(object_pairs_hook=_object_of, parse_constant=_refuse_constant)


def escaped(json_text: bytes) -> bytes:
    """JSON with the characters escaped that Go escapes, though it need not.

    Clients in Go compare parts of objects that have no type byte by byte with what they wrote.
    """
    for character, escape in _ESCAPED_BY_GO:
        if character[0] in json_text:
            json_text = json_text.replace(character, escape)
    return json_text


def syntax_error_message(data: bytes) -> str:
    """Go's words for the first thing that keeps `data` from being JSON; empty if nothing does."""
    try:
        _Scanner(data).scan()
    except JsonSyntaxError as problem:
        return str(problem)
    return ""


class _Scanner:
    """Walks a text to its first syntax error. As encoding/json, scanner.go, without recursion."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._open: list[bytes] = []

    def scan(self) -> None:
        self._value()
        while self._open:
            self._after_value()
        if self._peek() or self._at < len(self._data):
            raise self._unexpected("after top-level value")

    def _value(self) -> None:
        """One value, or the start of one: what opens an object or a list stays open."""
        match self._peek():
            case b"{" | b"[" as opening:
                self._open_container(opening)
            case b'"':
                self._string()
            case b"t" | b"f" | b"n" as first:
                self._literal(_LITERALS[first])
            case first if first and first in b"-0123456789":
                self._number()
            case _:
                raise self._unexpected("looking for beginning of value")

    def _open_container(self, opening: bytes) -> None:
        self._at += 1
        if self._peek() == _CLOSING[opening]:
            self._at += 1
            return
        self._open.append(opening)
        self._member()

    def _member(self) -> None:
        """The next member of the innermost container: of an object, its key first."""
        if self._open[-1] == b"{":
            if self._peek() != b'"':
                raise self._unexpected("looking for beginning of object key string")
            self._string()
            if self._peek() != b":":
                raise self._unexpected("after object key")
            self._at += 1
        self._value()

    def _after_value(self) -> None:
        opening = self._open[-1]
        following = self._peek()
        if following == b",":
            self._at += 1
            self._member()
        elif following == _CLOSING[opening]:
            self._at += 1
            self._open.pop()
        else:
            member = "object key:value pair" if opening == b"{" else "array element"
            raise self._unexpected(f"after {member}")

    def _string(self) -> None:
        self._at += 1
        self._skip(_STRING_CONTENT)
        following = self._character()
        if following == b"\\":
            self._at += 1
            if self._character() != b"u":
                raise self._unexpected("in string escape code")
            self._at += 1
            self._skip(_HEXADECIMAL)
            raise self._unexpected("in \\u hexadecimal character escape")
        if following != b'"':
            raise self._unexpected("in string literal")
        self._at += 1

    def _number(self) -> None:
        if self._character() == b"-":
            self._at += 1
        self._require(_WHOLE_NUMBER, "in numeric literal")
        if self._character() == b".":
            self._at += 1
            self._require(_DIGITS, "after decimal point in numeric literal")
        if self._character() in (b"e", b"E"):
            self._at += 1
            self._skip(_EXPONENT_SIGN)
            self._require(_DIGITS, "in exponent of numeric literal")

    def _literal(self, word: bytes) -> None:
        for expected in word.decode():
            if self._character() != expected.encode():
                raise self._unexpected(f"in literal {word.decode()} (expecting '{expected}')")
            self._at += 1

    def _peek(self) -> bytes:
        self._skip(_SPACE)
        return self._character()

    def _character(self) -> bytes:
        return self._data[self._at : self._at + 1]

    def _skip(self, pattern: re.Pattern[bytes]) -> bool:
        match = pattern.match(self._data, self._at)
        if match:
            self._at = match.end()
        return bool(match and match[0])

    def _require(self, pattern: re.Pattern[bytes], context: str) -> None:
        if not self._skip(pattern):
            raise self._unexpected(context)

    def _unexpected(self, context: str) -> JsonSyntaxError:
        character = self._character()
        if not character:
            return JsonSyntaxError("unexpected end of JSON input")
        return JsonSyntaxError(f"invalid character {_quote(chr(character[0]))} {context}")


def _quote(character: str) -> str:
    if character in "'\"":
        return "'\\''" if character == "'" else "'\"'"
    return f"'{gotext.quote(character)[1:-1]}'"
