"""A cache of values that rules have found valid.

Most objects are made from a template or by the same program, and differ from one another in names
only: their specs are checked once. A value is recognised by its JSON, by a digest where that is
long; so what Python takes for equal though it reads differently (1 and true) is told apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping
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


class ValidMemberCache:
    """The members of maps, by name and value, that one rule has found valid.

    For maps of which most members, but not all, are the same in many objects. Members are frozen
    structs; two that are equal must be valid under the same circumstances.
    """

    def __init__(self) -> None:
        self._valid: set[tuple[str, Hashable]] = set()

    def check(
        self, members: Mapping[str, Any], rule: Callable[[Mapping[str, Any]], fields.Errors]
    ) -> fields.Errors:
        """Apply the rule to the members that were not valid before."""
        unknown = [member for member in members.items() if member not in self._valid]
        if not unknown:
            return iter(())
        errors = tuple(rule(dict(unknown)))
        if not errors:
            if len(self._valid) + len(unknown) > MAX_REMEMBERED:
                self._valid.clear()
            # Other rules may still refuse a member that this one accepts, for its size.
            self._valid.update(member for member in unknown if len(_encode(member)) <= _SHORT_BYTES)
        return iter(errors)


def _recognised(encoded: bytes) -> bytes:
    if len(encoded) <= _SHORT_BYTES:
        return encoded
    return hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).digest()
