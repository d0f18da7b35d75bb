"""`dray history device`: show which claims held a device, from old revisions."""

from __future__ import annotations

import asyncio
import datetime
import itertools
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click
import msgspec

from dray.api import errors, kinds
from dray.api.http_messages import JSON, Request
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.cli.command_errors import Command, CommandError, NotFound, WrongUsage
from dray.cli.output import formats, tables
from dray.cli.output.formats import Format
from dray.cli.session import connection, progress
from dray.cli.session.connection import Session, Target
from dray.cli.verbs import devices
from dray.client import api_client
from dray.client.api_client import ListPage

SILENCE_SECONDS = 1.0
"""A replay is over when nothing comes for so long; nothing marks its end on every server."""


class ClaimRevision(NamedTuple):
    """A claim as it was written, or without the claim when it was deleted."""

    revision: int
    before: JsonObject | None
    after: JsonObject | None


class ClaimHistory(NamedTuple):
    """What is remembered: the claims at the oldest revision, and what changed since."""

    oldest: int
    reaches_back_to: str
    """A time at which the oldest revision was already there; empty if nothing tells."""
    first: Sequence[JsonObject]
    changes: Sequence[ClaimRevision]


async def read(session: Session) -> ClaimHistory:
    newest = int((await _page(session, kinds.RESOURCE_CLAIM)).resource_version)
    oldest = await _oldest(session, newest)
    first = [
        msgspec.json.decode(item)
        for item in (await _page(session, kinds.RESOURCE_CLAIM, oldest)).items
    ]
    changes = [change async for change in _changes(session, first, oldest, newest)]
    return ClaimHistory(oldest, await time_of(session, oldest), first, changes)


async def _page(session: Session, kind: Kind, revision: int = 0, limit: int = 0) -> ListPage:
    """All objects of a kind, at one revision if one is given."""
    query = [("resourceVersion", str(revision)), ("resourceVersionMatch", "Exact")]
    query = (query if revision else []) + ([("limit", str(limit))] if limit else [])
    path = api_client.collection_path(kind, "")
    response = await session.client.raw(Request("GET", path, tuple(query), {"accept": JSON}))
    if response.status >= 400:
        raise api_client.error_of(response)
    return msgspec.json.decode(response.body, type=ListPage)


async def _oldest(session: Session, newest: int) -> int:
    """The oldest revision that can be listed, found by halving."""
    forgotten, known = 0, newest
    while known - forgotten > 1:
        middle = (forgotten + known) // 2
        try:
            await _page(session, kinds.RESOURCE_CLAIM, middle, limit=1)
            known = middle
        except errors.Expired:
            forgotten = middle
    return known


async def _changes(
    session: Session, first: Sequence[JsonObject], oldest: int, newest: int
) -> AsyncIterator[ClaimRevision]:
    """What was written to claims after the oldest revision, in order."""
    known = {_uid(claim): claim for claim in first}
    events = session.client.watch(kinds.RESOURCE_CLAIM, resource_version=str(oldest))
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
            yield ClaimRevision(revision, before, after)
        if revision >= newest:
            return


async def time_of(session: Session, revision: int) -> str:
    """A time shortly before a revision was made; empty if nothing tells.

    Leases are renewed every few seconds: the latest renewal that the revision knows of.
    """
    try:
        page = await _page(session, kinds.LEASE, revision)
    except errors.StatusError:
        return ""
    leases = [msgspec.json.decode(item) for item in page.items]
    return max((_renewed(lease.get("spec") or {}) for lease in leases), default="")


def _renewed(spec: Mapping[str, Any]) -> str:
    return str(spec.get("renewTime") or "")


def _uid(claim: JsonObject) -> str:
    return str((claim.get("metadata") or {}).get("uid", ""))


NEVER = "9999"
TIME = "%Y-%m-%d %H:%M:%S"


class Period(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A claim had a device, or a share of it. Without `until` it still has.

    Where nothing notes when a claim let go, `until` is some seconds early; the revision is exact.
    """

    device: str
    namespace: str
    claim: str
    since: str = ""
    until: str = ""
    until_is_about: bool = False
    until_revision: int = 0
    used_by: tuple[str, ...] = ()


@click.group("history")
def history() -> None:
    """Say what was, from the revisions that the server still has."""


@history.command("device", cls=Command)
@click.argument("device")
@connection.options
@formats.option
@click.option("--at", default="", metavar="TIME", help="Only then: 14:02, or 2026-11-15T14:02:00Z.")
def device(target: Target, device: str, format: Format, at: str) -> None:
    """Say who had a device when: NODE/DEVICE, or DRIVER/POOL/DEVICE.

    How far back can be seen depends on the server: `dray up --history 24h` keeps a day, other
    clusters some minutes.
    """
    instant = moment(at)
    with progress.shown("Reading what was"):
        past, found = connection.run(target, lambda session: _read(session, device))
    if instant:
        require_visible(past, instant, at)
        found = [each for each in found if each.since <= instant < (each.until or NEVER)]
    if format.is_table:
        _show(device, found, past, at)
    else:
        document = {"reachesBackTo": past.reaches_back_to, "revision": past.oldest}
        formats.show_document({**document, "items": found}, format)


async def _read(session: Session, device: str) -> tuple[ClaimHistory, list[Period]]:
    try:
        past = await read(session)
    except errors.Expired as error:
        raise CommandError(f"this server does not replay what was: {error}") from error
    found = [period for period in periods(past) if _is_meant(period.device, device)]
    if not found:
        every = await devices.published_devices(session)
        if not any(_is_meant(f"{each.driver}/{each.label}", device) for each in every):
            message = f"no device {device} is published, and no claim had one"
            raise NotFound(message, "See: dray get devices")
    return past, [await _timed(session, each) for each in found]


async def _timed(session: Session, period: Period) -> Period:
    if not period.until_is_about:
        return period
    latest = await time_of(session, period.until_revision)
    return msgspec.structs.replace(period, until=max(period.until, latest))


def moment(text: str) -> str:
    """A time on the command line in UTC; one without a date is today's, in local time."""
    if not text:
        return ""
    now = datetime.datetime.now().astimezone()
    try:
        if "T" not in text and "-" not in text:
            text = f"{now.date()}T{text}"
        found = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise WrongUsage(f"--at {text}: write 14:02, 14:02:30 or 2026-11-15T14:02:00Z") from error
    local = found if found.tzinfo else found.replace(tzinfo=now.tzinfo)
    return local.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def require_visible(past: ClaimHistory, instant: str, at: str) -> None:
    if past.reaches_back_to and instant < past.reaches_back_to:
        raise NotFound(
            f"{at} is before what the server remembers, which is from "
            f"{_local(past.reaches_back_to)} on",
            "To remember longer from now on: dray up --history 24h",
        )


def _is_meant(known: str, asked: str) -> bool:
    """`driver/pool/device` by its whole name or without the driver."""
    return asked in (known, known.partition("/")[2])


def periods(past: ClaimHistory) -> list[Period]:
    """Every time that a claim had a device, the earliest first."""
    holding: dict[tuple[str, str], Period] = {}
    over: list[Period] = []
    changes = [*(ClaimRevision(past.oldest, None, claim) for claim in past.first), *past.changes]
    for number, change in enumerate(changes, start=1):
        _follow(change, itertools.islice(changes, number, None), holding, over)
    return sorted([*over, *holding.values()], key=lambda each: (each.since, each.until or NEVER))


def _follow(
    change: ClaimRevision,
    later: Iterable[ClaimRevision],
    holding: dict[tuple[str, str], Period],
    over: list[Period],
) -> None:
    """Begin and end periods as one change of a claim says."""
    claim = change.after or change.before
    if claim is None:
        return
    uid = _uid(claim)
    now_held = set(_devices(change.after))
    ended = [key for key in holding if key[0] == uid and key[1] not in now_held]
    end = _end(change, later) if ended else {}
    over += [msgspec.structs.replace(holding.pop(key), **end) for key in ended]
    for name in sorted(now_held):
        known = holding.get((uid, name)) or _begun(claim, name)
        users = dict.fromkeys([*known.used_by, *_users(claim)])
        holding[uid, name] = msgspec.structs.replace(known, used_by=tuple(users))


def _devices(claim: JsonObject | None) -> Iterator[str]:
    allocation = ((claim or {}).get("status") or {}).get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        yield f"{result['driver']}/{result['pool']}/{result['device']}"


def _users(claim: JsonObject) -> Iterator[str]:
    for each in (claim.get("status") or {}).get("reservedFor") or ():
        yield f"{each['resource']}/{each['name']}"


def _begun(claim: JsonObject, name: str) -> Period:
    metadata = claim["metadata"]
    allocated = claim["status"]["allocation"].get("allocationTimestamp")
    since = str(allocated or _last_written(claim))
    return Period(name, metadata.get("namespace", ""), metadata["name"], since)


def _end(change: ClaimRevision, later: Iterable[ClaimRevision]) -> dict[str, Any]:
    """When the claim let go. No time is noted with fields that were only removed; but then the
    claim's next change, of the finalizer, comes at once and has one."""
    before = change.before or {}
    following = (each.after for each in later if each.before and _uid(each.before) == _uid(before))
    told = max(_last_told(each or {}) for each in (before, change.after, next(following, None)))
    is_about = told <= _last_written(before)
    return {"until": told, "until_is_about": is_about, "until_revision": change.revision}


def _last_told(claim: JsonObject) -> str:
    deleted = (claim.get("metadata") or {}).get("deletionTimestamp")
    return max(_last_written(claim), str(deleted or ""))


def _last_written(claim: JsonObject) -> str:
    """The server notes the time of each write with the fields that were written."""
    metadata = claim.get("metadata") or {}
    times = [str(field.get("time", "")) for field in metadata.get("managedFields") or ()]
    return max([*times, str(metadata.get("creationTimestamp", ""))])


def _show(name: str, found: Sequence[Period], past: ClaimHistory, at: str) -> None:
    if not found:
        click.echo(f"{name} was held by nobody{f' at {at}' if at else ''}.")
    else:
        tables.show([["SINCE", "UNTIL", "CLAIM", "USED BY"], *_rows(found)], has_header=True)
    since = _local(past.reaches_back_to) if past.reaches_back_to else f"revision {past.oldest}"
    since = "its beginning" if past.oldest <= 1 else since
    click.echo(f"The server remembers what was since {since}.", err=True)


def _rows(found: Iterable[Period]) -> Iterator[list[str]]:
    for each in found:
        until = _local(each.until) if each.until else "<now>"
        until = f"about {until}" if each.until_is_about else until
        users = ",".join(each.used_by) or "<none>"
        yield [_local(each.since), until, f"{each.namespace}/{each.claim}", users]


def _local(time: str) -> str:
    return datetime.datetime.fromisoformat(time).astimezone().strftime(TIME)
