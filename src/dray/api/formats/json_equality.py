"""Equality of JSON, in which 1, 1.0 and true are different values. Python calls them equal."""

from __future__ import annotations

from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="sorted").encode


def are_equal(one: Any, other: Any) -> bool:
    """Return whether two values are written as the same JSON, apart from the order of members."""
    return bool(one == other) and _encode(one) == _encode(other)
