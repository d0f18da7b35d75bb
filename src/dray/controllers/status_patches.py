"""Between structs and what is sent: decoded answers, and patches that say what changed."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from dray.api.conversion import canonical
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject, ObjectMeta, Wire
from dray.client.api_client import Client

T = TypeVar("T")


def decode(raw: JsonObject, type_: type[T]) -> T:
    """An answer of the server as a struct."""
    return msgspec.convert(canonical.prune_nulls(raw), type_)


def difference(old: Wire, new: Wire) -> dict[str, Any]:
    """The merge patch from one struct to another; empty when they are equal."""
    return _difference(msgspec.to_builtins(old), msgspec.to_builtins(new))


def _difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
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
    """Write the status where it changed, guarded by the version it was computed from."""
    change = difference(old, new)
    if not change:
        return None
    patch = {"metadata": {"resourceVersion": metadata.resource_version}, "status": change}
    return await client.patch(kind, metadata.name, patch, metadata.namespace, subresource="status")


async def patch_metadata(
    client: Client, kind: Kind, metadata: ObjectMeta, change: dict[str, Any]
) -> JsonObject:
    """Change metadata of the object as it was read, or raise Conflict."""
    patch = {"metadata": {"resourceVersion": metadata.resource_version, **change}}
    return await client.patch(kind, metadata.name, patch, metadata.namespace)
