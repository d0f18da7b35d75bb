"""Writes to an object that was read, guarded by its uid or its resource version.

A guarded write raises Conflict if another object has the name by now, or if the object changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from dray.api import errors, http_messages
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject, ObjectMeta
from dray.client.api_client import Client

EDIT_ATTEMPTS: Final = 10
"""Controllers write objects too, but not so often while one command runs."""

T = TypeVar("T")


async def repeated(edit: Callable[[], Awaitable[T]]) -> T:
    """Read and write an object; begin again where others changed it in between."""
    for _ in range(EDIT_ATTEMPTS - 1):
        try:
            return await edit()
        except errors.Conflict:
            continue
    return await edit()


async def patch_status(
    client: Client,
    kind: Kind,
    metadata: ObjectMeta,
    status: dict[str, Any],
    *,
    at_version: bool = False,
    merges_lists: bool = False,
) -> JsonObject:
    """Patch the status of this very object, with `at_version` only as it was read.

    With `merges_lists`, conditions of other types stay as they are.
    """
    guard = {"resourceVersion": metadata.resource_version} if at_version else {"uid": metadata.uid}
    return await client.patch(
        kind,
        metadata.name,
        {"metadata": guard, "status": status},
        metadata.namespace,
        subresource="status",
        patch_type=(
            http_messages.STRATEGIC_MERGE_PATCH if merges_lists else http_messages.MERGE_PATCH
        ),
    )


async def merge_status(
    client: Client, kind: Kind, name: str, patch: JsonObject, namespace: str = ""
) -> None:
    """Patch the status strategically: entries that others own stay. `patch` carries its guard."""
    strategic = http_messages.STRATEGIC_MERGE_PATCH
    await client.patch(kind, name, patch, namespace, subresource="status", patch_type=strategic)


async def patch_metadata(
    client: Client, kind: Kind, metadata: ObjectMeta, change: dict[str, Any]
) -> JsonObject:
    """Patch metadata of the object as it was read. Raises Conflict if it changed since."""
    patch = {"metadata": {"resourceVersion": metadata.resource_version, **change}}
    return await client.patch(kind, metadata.name, patch, metadata.namespace)


async def remove_finalizer(
    client: Client, kind: Kind, metadata: ObjectMeta, finalizer: str
) -> JsonObject:
    """Remove a finalizer of the object as it was read. Raises Conflict if it changed since."""
    kept = [name for name in metadata.finalizers if name != finalizer]
    return await patch_metadata(client, kind, metadata, {"finalizers": kept or None})


async def delete(client: Client, kind: Kind, metadata: ObjectMeta, **options: Any) -> JsonObject:
    """Delete this very object, with the further `options` of the request."""
    options = {"preconditions": {"uid": metadata.uid}, **options}
    return await client.delete(kind, metadata.name, metadata.namespace, options)
