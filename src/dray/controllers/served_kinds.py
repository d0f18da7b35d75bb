"""Finds which of dray's kinds a server has."""

from __future__ import annotations

import msgspec

from dray.api import kinds
from dray.api.http_messages import JSON, Request
from dray.api.kinds import Kind
from dray.client.api_client import Client, error_of


async def served_kinds(client: Client) -> list[Kind]:
    """Return the stored kinds that the server lists in the version dray uses."""
    groups = {(kind.group, kind.versions[0]) for kind in kinds.KINDS}
    plurals = {pair: await _plurals(client, *pair) for pair in sorted(groups)}
    return [
        kind
        for kind in kinds.KINDS
        if kind.is_stored and kind.plural in plurals[kind.group, kind.versions[0]]
    ]


async def _plurals(client: Client, group: str, version: str) -> set[str]:
    root = f"/apis/{group}" if group else "/api"
    response = await client.raw(Request("GET", f"{root}/{version}", headers={"accept": JSON}))
    if response.status == 404:
        return set()
    if response.status >= 400:
        raise error_of(response)
    document = msgspec.json.decode(response.body)
    return {resource["name"] for resource in document.get("resources") or ()}
