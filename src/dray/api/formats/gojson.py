"""JSON as Go reads and writes it: repeated keys are recorded, markup characters are escaped."""

from __future__ import annotations

import collections
import json
import math
import re
from typing import Any, NoReturn

import msgspec

_ESCAPED_BY_GO = tuple(
    (character.encode(), f"\\u{ord(character):04x}".encode()) for character in "<>&\u2028\u2029"
)


_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
"""An escape in a string of JSON; half of a surrogate pair alone is a `half`."""


class JsonSyntaxError(ValueError):
    """The text is not JSON; the message has the byte at which decoding failed."""


class ObjectWithDuplicateKeys(dict[str, Any]):
    """A JSON object in which some keys occurred more than once; the last value counts."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = collections.Counter(key for key, _ in pairs)
        self.repeated = {key for key, count in counts.items() if count > 1}


def decode(data: bytes) -> Any:
    """Decode a JSON text; an object with repeated keys becomes an `ObjectWithDuplicateKeys`.

    Raises JsonSyntaxError.
    """
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return _decode_with_care(data, error)
    return value if _has_every_key(value, data) else _decode_with_care(data)


def _has_every_key(value: Any, data: bytes) -> bool:
    """Return whether no key was lost: a key that occurs twice loses at least two quotes.

    The same quotes are escaped in both texts, unless one has the form `\\u0022`.
    """
    return b"\\u" not in data and data.count(b'"') == _encode(value).count(b'"')


def _decode_with_care(data: bytes, error: Exception | None = None) -> Any:
    """Decode with Python's much slower decoder.

    It finds repeated keys, and accepts what Go does and msgspec does not: invalid UTF-8, halves of
    surrogate pairs. `error` is msgspec's.
    """
    text = _without_half_pairs(data.decode("utf-8", "replace"))
    try:
        return _decoder.decode(text)
    except RecursionError:
        raise JsonSyntaxError("exceeded max depth") from None
    except ValueError as failure:
        raise JsonSyntaxError(str(error or failure)) from None


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    return plain if len(plain) == len(pairs) else ObjectWithDuplicateKeys(pairs)


def _without_half_pairs(text: str) -> str:
    """Replace halves of surrogate pairs, which no encoder of UTF-8 takes, as Go does."""
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda match: "\\ufffd" if match["half"] else match[0], text)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"json: cannot unmarshal number {text[:64]} into Go value of type float64")
    return value


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_encode = msgspec.json.Encoder().encode
_decoder = json.JSONDecoder(
    object_pairs_hook=_object_of, parse_constant=_refuse_constant, parse_float=_float
)


def escaped(json_text: bytes) -> bytes:
    """Escape the characters in JSON that Go escapes without need.

    Clients in Go compare parts of objects that have no type byte by byte with what they wrote.
    """
    for character, escape in _ESCAPED_BY_GO:
        if character[0] in json_text:
            json_text = json_text.replace(character, escape)
    return json_text
