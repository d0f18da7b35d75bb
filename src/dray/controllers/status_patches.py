"""Decodes server responses into structs, and builds patches from the differences of two structs."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from dray.api.conversion import canonical
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject, ObjectMeta, Wire
from dray.client import object_writes
from dray.client.api_client import Client

T = TypeVar("T")


def decode(raw: JsonObject, type_: type[T]) -> T:
    """Decode a response of the server."""
    return msgspec.convert(canonical.prune_nulls(raw), type_)


def _difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return the merge patch from one object to another, empty if they are equal."""
    changed: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        current = before.get(name)
        if isinstance(value, dict) and isinstance(current, dict):
            if inner := _difference(current, value):
                changed[name] = inner
        elif value != current:
            changed[name] = value
    return changed


async def patch_status(
    client: Client, kind: Kind, metadata: ObjectMeta, old: Wire, new: Wire
) -> JsonObject | None:
    """Write the status if it changed. Returns the new object, or None if nothing changed.

    Raises Conflict if the object is not at the version that the status was computed from.
    """
    change = _difference(msgspec.to_builtins(old), msgspec.to_builtins(new))
    if not change:
        return None
    return await object_writes.patch_status(client, kind, metadata, change, at_version=True)
