"""Whole numbers as Go's strconv reads them: 64 bits, ASCII digits, and Go's words for the rest.

Python's `int` also reads spaces, underscores and digits of other scripts, and fails for thousands
of digits.
"""

from __future__ import annotations

import re

_SIGNED = re.compile("[+-]?[0-9]+", re.ASCII)
_UNSIGNED = re.compile("[0-9]+", re.ASCII)
_SHOWN = 256
"""Characters of a number that an error repeats."""


class NumberError(ValueError):
    """A text that Go does not read as a number of this type."""


def int64(text: str) -> int:
    return _number(text, "ParseInt", _SIGNED, -(2**63), 2**63)


def uint64(text: str) -> int:
    return _number(text, "ParseUint", _UNSIGNED, 0, 2**64)


def uint16(text: str) -> int:
    return _number(text, "ParseUint", _UNSIGNED, 0, 2**16)


def int64_or_none(text: str) -> int | None:
    """Return the number, or None for a text that is none or has more than 64 bits."""
    try:
        return int64(text)
    except NumberError:
        return None


def _number(text: str, function: str, form: re.Pattern[str], least: int, limit: int) -> int:
    if not form.fullmatch(text):
        raise NumberError(f'strconv.{function}: parsing "{text[:_SHOWN]}": invalid syntax')
    sign, digits = text[:1].strip("0123456789"), text.lstrip("+-").lstrip("0")
    value = int(f"{sign}{digits or 0}") if len(digits) < 21 else limit
    if not least <= value < limit:
        raise NumberError(f'strconv.{function}: parsing "{text[:_SHOWN]}": value out of range')
    return value
