"""`cel.@mapInsert`, with which the macros transformMap and transformMapEntry build maps."""

from __future__ import annotations

from typing import Any

from dray.cel import texts, types, values
from dray.cel.functions import dispatching
from dray.cel.functions.overloads import Library, Overload
from dray.cel.values import EvaluationError

_K, _V = types.parameter("K"), types.parameter("V")
_MAP = types.map_of(_K, _V)


def insert(entries: values.CelMap, key: Any, entry: Any) -> values.CelMap:
    """A copy of the map with one more entry."""
    copy = dict(entries)
    insert_into(copy, key, entry)
    return copy


def insert_all(entries: values.CelMap, others: values.CelMap) -> values.CelMap:
    copy = dict(entries)
    for key, entry in others.items():
        insert_into(copy, values.key_value(key), entry)
    return copy


def insert_into(entries: values.CelMap, key: Any, entry: Any) -> None:
    """Adds an entry to a map that nobody else holds."""
    if values.find(entries, key, values.MISSING) is not values.MISSING:
        raise EvaluationError(f"insert failed: key {texts.printed(key)} already exists")
    entries[values.map_key(key)] = entry


LIBRARY = Library(
    "maps",
    (
        dispatching.function(
            "cel.@mapInsert",
            Overload("@mapInsert_map_map", (_MAP, _MAP), _MAP, insert_all),
            Overload("@mapInsert_map_key_value", (_MAP, _K, _V), _MAP, insert),
        ),
    ),
)
