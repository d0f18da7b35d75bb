"""The short hash that tells pod templates apart in names and labels."""

from __future__ import annotations

from typing import Any

import msgspec

_OFFSET, _PRIME, _MASK = 2166136261, 16777619, 2**32 - 1
_SAFE_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"

_encode = msgspec.json.Encoder(order="deterministic").encode


def template_hash(template: Any, collisions: int | None = None) -> str:
    """FNV-1a over the template as sorted JSON, in characters that spell no words.

    Kubernetes hashes its own dump of the Go structure, so the values differ; the form does not.
    """
    number = _fnv1a(_encode(template))
    if collisions:
        number = _fnv1a(str(collisions).encode(), number)
    return "".join(_SAFE_CHARACTERS[ord(digit) % len(_SAFE_CHARACTERS)] for digit in str(number))


def _fnv1a(data: bytes, number: int = _OFFSET) -> int:
    for byte in data:
        number = ((number ^ byte) * _PRIME) & _MASK
    return number
