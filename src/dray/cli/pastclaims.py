"""What claims were: every change that a server still remembers, as far back as it does.

Asked over the API, of any server that lists old revisions and replays changes after one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from dray.api import errors, kinds
from dray.api.exchange import JSON, Request
from dray.api.kinds import Kind
from dray.cli.connection import Session
from dray.client import verbs
from dray.client.verbs import ListPage

Object = dict[str, Any]

CLAIM = kinds.served("resource.k8s.io", "ResourceClaim")
LEASE = kinds.served("coordination.k8s.io", "Lease")
SILENCE_SECONDS = 1.0
"""A replay is over when nothing comes for so long; nothing marks its end on every server."""


class Change(NamedTuple):
    """A claim as it was written, or without the claim when it was deleted."""

    revision: int
    before: Object | None
    after: Object | None


class Past(NamedTuple):
    """What is remembered: the claims at the oldest revision, and what changed since."""

    oldest: int
    reaches_back_to: str
    """A time at which the oldest revision was already there; empty if nothing tells."""
    first: Sequence[Object]
    changes: Sequence[Change]


async def read(session: Session) -> Past:
    newest = int((await _page(session, CLAIM)).resource_version)
    oldest = await _oldest(session, newest)
    first = [msgspec.json.decode(item) for item in (await _page(session, CLAIM, oldest)).items]
    changes = [change async for change in _changes(session, first, oldest, newest)]
    return Past(oldest, await time_of(session, oldest), first, changes)


async def _page(session: Session, kind: Kind, revision: int = 0, limit: int = 0) -> ListPage:
    """All objects of a kind, at one revision if one is given."""
    query = [("resourceVersion", str(revision)), ("resourceVersionMatch", "Exact")]
    query = (query if revision else []) + ([("limit", str(limit))] if limit else [])
    path = verbs.collection_path(kind, "")
    response = await session.client.raw(Request("GET", path, tuple(query), {"accept": JSON}))
    if response.status >= 400:
        raise verbs.error_of(response)
    return msgspec.json.decode(response.body, type=ListPage)


async def _oldest(session: Session, newest: int) -> int:
    """The oldest revision that can be listed, found by halving."""
    forgotten, known = 0, newest
    while known - forgotten > 1:
        middle = (forgotten + known) // 2
        try:
            await _page(session, CLAIM, middle, limit=1)
            known = middle
        except errors.Expired:
            forgotten = middle
    return known


async def _changes(
    session: Session, first: Sequence[Object], oldest: int, newest: int
) -> AsyncIterator[Change]:
    """What was written to claims after the oldest revision, in order."""
    known = {_uid(claim): claim for claim in first}
    events = session.client.watch(CLAIM, resource_version=str(oldest))
    while True:
        try:
            event = await asyncio.wait_for(anext(events), SILENCE_SECONDS)
        except (TimeoutError, StopAsyncIteration):
            return
        claim = msgspec.json.decode(event.object)
        revision = int(claim["metadata"]["resourceVersion"])
        if event.type != "BOOKMARK":
            before = known.pop(_uid(claim), None)
            after = None if event.type == "DELETED" else claim
            if after is not None:
                known[_uid(claim)] = after
            yield Change(revision, before, after)
        if revision >= newest:
            return


async def time_of(session: Session, revision: int) -> str:
    """A time shortly before a revision was made; empty if nothing tells.

    Leases are renewed every few seconds: the latest renewal that the revision knows of.
    """
    try:
        page = await _page(session, LEASE, revision)
    except errors.StatusError:
        return ""
    leases = [msgspec.json.decode(item) for item in page.items]
    return max((_renewed(each.get("spec") or {}) for each in leases), default="")


def _renewed(spec: Mapping[str, Any]) -> str:
    return str(spec.get("renewTime") or "")


def _uid(claim: Object) -> str:
    return str(claim["metadata"].get("uid", ""))
