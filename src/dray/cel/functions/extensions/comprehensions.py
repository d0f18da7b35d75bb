"""`cel.@mapInsert`, with which the macros transformMap and transformMapEntry build maps."""

from __future__ import annotations

from typing import Any

from dray.cel import types
from dray.cel.functions import dispatching
from dray.cel.functions.overloads import Library, Overload
from dray.cel.runtime import operations, values

_K, _V = types.parameter("K"), types.parameter("V")
_MAP = types.map_of(_K, _V)


def insert(entries: values.CelMap, key: Any, entry: Any) -> values.CelMap:
    """Return a copy of the map with one more entry."""
    copy = dict(entries)
    operations.insert(copy, key, entry)
    return copy


def insert_all(entries: values.CelMap, others: values.CelMap) -> values.CelMap:
    copy = dict(entries)
    operations.insert_all(copy, others)
    return copy


LIBRARY: Library = (
    dispatching.function(
        "cel.@mapInsert",
        Overload("@mapInsert_map_map", (_MAP, _MAP), _MAP, insert_all),
        Overload("@mapInsert_map_key_value", (_MAP, _K, _V), _MAP, insert),
    ),
)
