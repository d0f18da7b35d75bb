"""Writes the status of objects as strategic merge patches: entries that others own stay."""

from __future__ import annotations

from dray.api import http_messages
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.client.api_client import Client


async def patch_status(
    client: Client, kind: Kind, name: str, patch: JsonObject, namespace: str = ""
) -> None:
    strategic = http_messages.STRATEGIC_MERGE_PATCH
    await client.patch(kind, name, patch, namespace, subresource="status", patch_type=strategic)
