"""Finds which of dray's kinds a server has."""

from __future__ import annotations

from dray.api import kinds
from dray.api.kinds import Kind
from dray.client import discovery
from dray.client.api_client import Client


async def served_kinds(client: Client) -> list[Kind]:
    """Return the stored kinds that the server lists in the version dray uses."""
    groups = {(kind.group, kind.versions[0]) for kind in kinds.KINDS}
    plurals = {pair: await discovery.plurals(client, *pair) for pair in sorted(groups)}
    return [
        kind
        for kind in kinds.KINDS
        if kind.is_stored and kind.plural in plurals[kind.group, kind.versions[0]]
    ]
