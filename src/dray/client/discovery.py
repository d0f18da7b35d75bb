"""Finds which kinds a server has, and in which versions."""

from __future__ import annotations

import asyncio
import dataclasses
import logging

import msgspec

from dray.api import errors
from dray.api.http_messages import JSON, Request
from dray.api.kinds import Kind
from dray.client.api_client import Client, error_of
from dray.client.cache import MAX_RETRY_SECONDS, RETRY_SECONDS

log = logging.getLogger(__name__)


async def plurals(client: Client, group: str, version: str) -> set[str]:
    """Return the plurals of the kinds that a server has in a version of a group."""
    root = f"/apis/{group}" if group else "/api"
    response = await client.raw(Request("GET", f"{root}/{version}", headers={"accept": JSON}))
    if response.status == 404:
        return set()
    if response.status >= 400:
        raise error_of(response)
    document = msgspec.json.decode(response.body)
    return {resource["name"] for resource in document.get("resources") or ()}


async def as_served(client: Client, kind: Kind) -> Kind | None:
    """Return a kind in the newest version that the server has; None if it does not have it.

    Alpha versions are left out: older ones have fields that would be misunderstood. Errors of the
    server are retried with back-off, as caches do.
    """
    delay = RETRY_SECONDS
    while True:
        try:
            for version in (name for name in kind.versions if "alpha" not in name):
                if kind.plural in await plurals(client, kind.group, version):
                    return dataclasses.replace(kind, versions=(version,))
            return None
        except errors.StatusError as error:
            log.warning("cannot find out whether the server has %s: %s", kind.plural, error)
            await asyncio.sleep(delay)
            delay = min(delay * 2, MAX_RETRY_SECONDS)
