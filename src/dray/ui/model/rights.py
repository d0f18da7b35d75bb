"""The rights of a person to read a cluster, found by reading one object of each kind.

Only GET requests are sent: a right that is asked for with a review would be a POST, which a
reading user need not have. The answers of the API server decide, whatever its authorizer is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from dray.api import errors, kinds
from dray.api.http_messages import JSON, Request
from dray.api.kinds import Kind
from dray.client.api_client import Client, collection_path

FOLLOWED: Final = (
    kinds.NODE,
    kinds.RESOURCE_SLICE,
    kinds.DEVICE_CLASS,
    kinds.RESOURCE_CLAIM,
    kinds.POD,
    kinds.RESOURCE_CLAIM_TEMPLATE,
    kinds.RESOURCE_QUOTA,
    kinds.NAMESPACE,
    kinds.EVENT,
)
"""The kinds that the dashboard reads on every server. All but events are followed."""
NAMESPACES_TRIED: Final = 200
"""In how many namespaces a kind is tried that may not be read in all of them."""
TRIED_AT_ONCE: Final = 16
EVERYWHERE: Final = ("",)


class Rights(msgspec.Struct, frozen=True):
    """By kind, the namespaces in which it may be read: `EVERYWHERE`, some, or none.

    People with equal rights see the same, and share one model.
    """

    namespaces: tuple[tuple[Kind, tuple[str, ...]], ...]

    def of(self, kind: Kind) -> Sequence[str]:
        """Return the namespaces in which a kind may be read."""
        return dict(self.namespaces).get(kind, ())

    @property
    def unread(self) -> dict[str, str]:
        """Return the kinds that may not be read anywhere, in words for each."""
        return {
            kind.kind: f"you may not read {kind.plural}"
            for kind, namespaces in self.namespaces
            if not namespaces
        }

    @property
    def partly_read(self) -> dict[str, str]:
        """Return the kinds that may be read in some namespaces, in words for each."""
        return {
            kind.kind: f"you may read {kind.plural} of {_some(namespaces)} only"
            for kind, namespaces in self.namespaces
            if namespaces and namespaces != EVERYWHERE
        }


def _some(namespaces: Sequence[str]) -> str:
    if len(namespaces) == 1:
        return f"namespace {namespaces[0]}"
    return f"{len(namespaces)} namespaces"


async def rights_of(
    client: Client, followed: Iterable[Kind], candidates: Sequence[str] = ()
) -> Rights:
    """Find out what may be read. `candidates` are namespaces to try besides those that exist.

    Raises the errors of the server that are not about rights.
    """
    gate = asyncio.Semaphore(TRIED_AT_ONCE)
    tried = list(followed)

    async def may_read(kind: Kind, namespace: str) -> bool:
        async with gate:
            try:
                await _read_one(client, kind, namespace)
            except (errors.Forbidden, errors.NotFound):
                return False
        return True

    everywhere = dict(
        zip(tried, await asyncio.gather(*(may_read(kind, "") for kind in tried)), strict=True)
    )
    found: Mapping[Kind, tuple[str, ...]] = {
        kind: EVERYWHERE if is_readable else () for kind, is_readable in everywhere.items()
    }
    partly = [kind for kind in tried if kind.namespaced and not everywhere[kind]]
    if partly:
        names = await _namespaces(client, candidates, is_listed=everywhere.get(kinds.NAMESPACE))
        for kind in partly:
            readable = await asyncio.gather(*(may_read(kind, name) for name in names))
            own = (name for name, is_readable in zip(names, readable, strict=True) if is_readable)
            found = {**found, kind: tuple(own)}
    return Rights(tuple((kind, found[kind]) for kind in tried))


async def _namespaces(
    client: Client, candidates: Sequence[str], *, is_listed: bool | None
) -> list[str]:
    names = list(candidates)
    if is_listed:
        page = await client.list(kinds.NAMESPACE)
        names += [msgspec.json.decode(item)["metadata"]["name"] for item in page.items]
    return sorted(dict.fromkeys(filter(None, names)))[:NAMESPACES_TRIED]


async def _read_one(client: Client, kind: Kind, namespace: str) -> None:
    path = collection_path(kind, namespace)
    await client.send(Request("GET", path, (("limit", "1"),), {"accept": JSON}))
