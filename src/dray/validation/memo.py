"""A cache of values that rules have found valid.

Most objects are made from a template or by the same program, and differ from one another in names
only: their specs are checked once. A value is recognised by its JSON, by a digest where that is
long; so what Python takes for equal though it reads differently (1 and true) is told apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from typing import Any, Final

import msgspec

from dray.validation import fields

MAX_REMEMBERED: Final = 4096
_SHORT_BYTES: Final = 1024
_DIGEST_BYTES: Final = 32

_encode = msgspec.json.Encoder().encode


class ValidValueCache:
    """The sound values of one rule. Where they stand makes no difference, circumstances do."""

    def __init__(self) -> None:
        self._valid: set[tuple[bytes, Hashable]] = set()

    def check(
        self, value: Any, circumstances: Hashable, rule: Callable[[], fields.Errors]
    ) -> fields.Errors:
        """Apply the rule to a value unless an equal one was valid before."""
        key = (_recognised(_encode(value)), circumstances)
        if key in self._valid:
            return iter(())
        errors = tuple(rule())
        if not errors:
            if len(self._valid) >= MAX_REMEMBERED:
                self._valid.clear()
            self._valid.add(key)
        return iter(errors)


def _recognised(encoded: bytes) -> bytes:
    if len(encoded) <= _SHORT_BYTES:
        return encoded
    return hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).digest()
