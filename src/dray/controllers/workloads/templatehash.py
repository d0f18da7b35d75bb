"""The short hash that tells pod templates, and revisions of them, apart in names and labels."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api import gojson

_OFFSET, _PRIME, _MASK = 2166136261, 16777619, 2**32 - 1
_SAFE_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"

_encode = msgspec.json.Encoder(order="deterministic").encode


def short_hash(data: Any, collisions: int | None) -> str:
    """FNV-1 over the data as sorted JSON, in characters that spell no words.

    For the data of a StatefulSet's revision it is the value that Kubernetes computes
    (pkg/controller/history, HashControllerRevision). Templates it hashes by a dump of the Go
    structure: there the values differ, the form does not.
    """
    number = _OFFSET
    for byte in gojson.escaped(_encode(data)) + b"%d" % (collisions or 0):
        number = ((number * _PRIME) & _MASK) ^ byte
    return "".join(_SAFE_CHARACTERS[ord(digit) % len(_SAFE_CHARACTERS)] for digit in str(number))
