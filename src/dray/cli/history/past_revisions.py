"""Periods in which claims held devices, from the old revisions that a server still has."""

from __future__ import annotations

import asyncio
import datetime
import itertools
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from dray.api import errors, kinds
from dray.api.http_messages import JSON, Request
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.cli.command_errors import CommandError, ObjectNotFound
from dray.cli.history import times
from dray.cli.inputs import published_devices
from dray.cli.session import connection, progress
from dray.cli.session.connection import Session, Target
from dray.client import api_client
from dray.client.api_client import EVERYTHING, ListPage, ObjectSelection

SILENCE_SECONDS = 1.0
"""A watch from an old revision has no end mark on every server: it ends after this silence."""


class ClaimRevision(NamedTuple):
    """A claim at one revision, or None if that revision deleted it."""

    revision: int
    before: JsonObject | None
    after: JsonObject | None


class ClaimHistory(NamedTuple):
    """The claims at the oldest revision, and the changes since."""

    oldest: int
    reaches_back_to: str
    """A time at which the oldest revision existed, or "" if unknown."""
    first: Sequence[JsonObject]
    changes: Sequence[ClaimRevision]


async def read(session: Session) -> ClaimHistory:
    newest = int((await _page(session, kinds.RESOURCE_CLAIM)).resource_version)
    oldest = await _oldest(session, newest)
    page = await _page(session, kinds.RESOURCE_CLAIM, oldest)
    first = [msgspec.json.decode(item) for item in page.items]
    changes = [change async for change in _changes(session, first, oldest, newest)]
    return ClaimHistory(oldest, await time_of(session, oldest), first, changes)


async def _page(
    session: Session,
    kind: Kind,
    revision: int = 0,
    limit: int = 0,
    selection: ObjectSelection = EVERYTHING,
) -> ListPage:
    """List objects of a kind, at one revision if given."""
    query = [("resourceVersion", str(revision)), ("resourceVersionMatch", "Exact")]
    query = (query if revision else []) + ([("limit", str(limit))] if limit else [])
    query += selection.query()
    path = api_client.collection_path(kind, selection.namespace)
    response = await session.client.send(Request("GET", path, tuple(query), {"accept": JSON}))
    return msgspec.json.decode(response.body, type=ListPage)


async def _oldest(session: Session, newest: int) -> int:
    """Return the oldest revision that can be listed, by binary search."""
    forgotten, answered = 0, newest
    while answered - forgotten > 1:
        middle = (forgotten + answered) // 2
        try:
            await _page(session, kinds.RESOURCE_CLAIM, middle, limit=1)
            answered = middle
        except errors.Expired:
            forgotten = middle
    return answered


async def _changes(
    session: Session, first: Sequence[JsonObject], oldest: int, newest: int
) -> AsyncIterator[ClaimRevision]:
    """Yield the changes of claims after the oldest revision, in order."""
    by_uid = {_uid(claim): claim for claim in first}
    async for event, claim in _events(session, kinds.RESOURCE_CLAIM, oldest, newest):
        before = by_uid.pop(_uid(claim), None)
        after = None if event == "DELETED" else claim
        if after is not None:
            by_uid[_uid(claim)] = after
        yield ClaimRevision(_revision(claim), before, after)


async def _events(
    session: Session,
    kind: Kind,
    oldest: int,
    newest: int,
    selection: ObjectSelection = EVERYTHING,
) -> AsyncIterator[tuple[str, JsonObject]]:
    """Yield the type and the object of each event after one revision, up to another."""
    events = session.client.watch(kind, selection, resource_version=str(oldest))
    while True:
        try:
            event = await asyncio.wait_for(anext(events), SILENCE_SECONDS)
        except (TimeoutError, StopAsyncIteration):
            return
        found = msgspec.json.decode(event.object)
        if _revision(found) <= newest and event.type != "BOOKMARK":
            yield event.type, found
        if _revision(found) >= newest:
            return


async def time_of(session: Session, revision: int) -> str:
    """Return a time shortly before a revision, or "" if unknown.

    Leases are renewed every few seconds: this is the latest renewal at that revision.
    """
    try:
        page = await _page(session, kinds.LEASE, revision)
    except errors.StatusError:
        return ""
    specs = [msgspec.json.decode(item).get("spec") or {} for item in page.items]
    return max((str(spec.get("renewTime") or "") for spec in specs), default="")


async def _end_of_user(session: Session, claim: JsonObject, user: JsonObject, revision: int) -> str:
    """Return when a pod that used a claim ended, from its last version up to a revision.

    Returns "" if that is unknown, as for pods that are deleted by force.
    """
    fields = f"metadata.name={user['name']}"
    selection = ObjectSelection(claim["metadata"].get("namespace", ""), field_selector=fields)
    last: JsonObject = {}
    try:
        page = await _page(session, kinds.POD, revision, selection=selection)
        existing = [msgspec.json.decode(item) for item in page.items]
        last = next((pod for pod in existing if _uid(pod) == user["uid"]), {})
        if not last:
            since = _revision(claim)
            async for event, pod in _events(session, kinds.POD, since, revision, selection):
                last = pod if _uid(pod) == user["uid"] else last
                if event == "DELETED" and last is pod:
                    break
    except errors.StatusError:
        return ""
    has_ended = (last.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    requested = _deletion_request(last)
    return max(_last_written(last), requested) if has_ended or requested else ""


def _deletion_request(pod: JsonObject) -> str:
    """Return when the deletion of a pod was requested: its grace period ends later."""
    metadata = pod.get("metadata") or {}
    if not metadata.get("deletionTimestamp"):
        return ""
    grace = datetime.timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    end = datetime.datetime.fromisoformat(metadata["deletionTimestamp"])
    return (end - grace).strftime("%Y-%m-%dT%H:%M:%SZ")


def _uid(found: JsonObject) -> str:
    return str((found.get("metadata") or {}).get("uid", ""))


def _revision(found: JsonObject) -> int:
    return int(found["metadata"]["resourceVersion"])


NEVER = "9999"


class Period(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A time in which a claim held a device or a share of it; without `until` it still does.

    If neither a write nor the end of a pod records the release, `until` is some seconds early
    (`until_is_about`); the revision is exact.
    """

    device: str
    namespace: str
    claim: str
    since: str = ""
    until: str = ""
    until_is_about: bool = False
    until_revision: int = 0
    used_by: tuple[str, ...] = ()
    node: str = ""
    user: str = ""


def of_device(target: Target, device: str) -> tuple[ClaimHistory, list[Period]]:
    """Return the history of claims, and the periods of one device."""
    with progress.shown("Reading past revisions"):
        return connection.run(target, lambda session: _read_device(session, device))


def of_claim(target: Target, claim: str) -> tuple[ClaimHistory, list[Period]]:
    """Return the history of claims, and the periods of the claim NAMESPACE/NAME."""
    with progress.shown("Reading past revisions"):
        return connection.run(target, lambda session: _read_claim(session, claim))


def is_published(target: Target, device: str) -> bool:
    """Return whether a device of that name is published now."""
    published, _ = connection.run(target, published_devices.read)
    return any(_is_meant(f"{item.driver}/{item.label}", device) for item in published)


async def _read_past(session: Session) -> ClaimHistory:
    try:
        return await read(session)
    except errors.Expired as error:
        raise CommandError(f"the server does not keep old revisions: {error}") from error


async def _read_claim(session: Session, claim: str) -> tuple[ClaimHistory, list[Period]]:
    past = await _read_past(session)
    held = [item for item in periods(past) if f"{item.namespace}/{item.claim}" == claim]
    return past, [await _timed(session, item, past) for item in held]


async def _read_device(session: Session, device: str) -> tuple[ClaimHistory, list[Period]]:
    past = await _read_past(session)
    past_periods = [period for period in periods(past) if _is_meant(period.device, device)]
    if not past_periods:
        published, _ = await published_devices.read(session)
        if not any(_is_meant(f"{item.driver}/{item.label}", device) for item in published):
            message = f"no device {device} is published, and no claim had one"
            alike = [item.label for item in published if item.label.endswith(f"/{device}")]
            meant = f"Did you mean {alike[0]}? " if alike else ""
            raise ObjectNotFound(message, f"{meant}See: dray get devices")
    return past, [await _timed(session, item, past) for item in past_periods]


async def _timed(session: Session, period: Period, past: ClaimHistory) -> Period:
    """Look elsewhere for the end of a period whose claim does not have it.

    A claim is released when its last pod ends. Any other time, as that of a lease, is only one
    at which the device was still held.
    """
    if not period.until_is_about:
        return period
    revision = period.until_revision
    claim = next(change.before for change in past.changes if change.revision == revision) or {}
    users = ((claim.get("status") or {}).get("reservedFor")) or ()
    pods = [user for user in users if user["resource"] == "pods"]
    ends = [await _end_of_user(session, claim, user, revision) for user in pods]
    ended = max(ends, default="")
    still_held = max(period.until, await time_of(session, revision))
    # To the second: leases have fractions, other times have none.
    is_about = not ended or ended[:19] < still_held[:19]
    until = max(ended, still_held)
    return msgspec.structs.replace(period, until=until, until_is_about=is_about)


def require_visible(past: ClaimHistory, instant: str, at: str) -> None:
    if past.reaches_back_to and instant < past.reaches_back_to:
        raise ObjectNotFound(
            f"{at} is before the history of the server, which starts at "
            f"{times.local(past.reaches_back_to)}",
            "To keep more from now on: dray up --history 24h, or dray record --file FILE",
        )


def _is_meant(existing: str, requested: str) -> bool:
    """Return whether a name means `driver/pool/device`, with or without the driver."""
    return requested in (existing, existing.partition("/")[2])


def periods(past: ClaimHistory) -> list[Period]:
    """Return every period in which a claim held a device, the earliest first."""
    holding: dict[tuple[str, str], Period] = {}
    over: list[Period] = []
    changes = [*(ClaimRevision(past.oldest, None, claim) for claim in past.first), *past.changes]
    for number, change in enumerate(changes, start=1):
        _follow(change, itertools.islice(changes, number, None), holding, over)
    return sorted(
        [*over, *holding.values()], key=lambda period: (period.since, period.until or NEVER)
    )


def _follow(
    change: ClaimRevision,
    later: Iterable[ClaimRevision],
    holding: dict[tuple[str, str], Period],
    over: list[Period],
) -> None:
    """Begin and end periods according to one change of a claim."""
    claim = change.after or change.before
    if claim is None:
        return
    uid = _uid(claim)
    now_held = set(_devices(change.after))
    ended = [key for key in holding if key[0] == uid and key[1] not in now_held]
    end = _end(change, later) if ended else {}
    over += [msgspec.structs.replace(holding.pop(key), **end) for key in ended]
    for name in sorted(now_held):
        period = holding.get((uid, name)) or _begun(claim, name)
        users = dict.fromkeys([*period.used_by, *_users(claim)])
        holding[uid, name] = msgspec.structs.replace(period, used_by=tuple(users))


def _devices(claim: JsonObject | None) -> Iterator[str]:
    allocation = ((claim or {}).get("status") or {}).get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        yield f"{result['driver']}/{result['pool']}/{result['device']}"


def _users(claim: JsonObject) -> Iterator[str]:
    for consumer in (claim.get("status") or {}).get("reservedFor") or ():
        yield f"{consumer['resource']}/{consumer['name']}"


def _begun(claim: JsonObject, name: str) -> Period:
    metadata = claim["metadata"]
    allocated = claim["status"]["allocation"].get("allocationTimestamp")
    since = str(allocated or _last_written(claim))
    return Period(name, metadata.get("namespace", ""), metadata["name"], since)


def _end(change: ClaimRevision, later: Iterable[ClaimRevision]) -> dict[str, Any]:
    """Return when the claim released the device.

    Removed fields have no time of their own. But the claim's next change, of the finalizer,
    follows at once and has one.
    """
    before = change.before or {}
    following = (
        version.after
        for version in later
        if version.before and _uid(version.before) == _uid(before)
    )
    versions = (before, change.after, next(following, None))
    last_write = max(_last_reported(version or {}) for version in versions)
    is_about = last_write <= _last_written(before)
    return {"until": last_write, "until_is_about": is_about, "until_revision": change.revision}


def _last_reported(claim: JsonObject) -> str:
    deleted = (claim.get("metadata") or {}).get("deletionTimestamp")
    return max(_last_written(claim), str(deleted or ""))


def _last_written(claim: JsonObject) -> str:
    """Return the time of the last write in managedFields, or of the creation."""
    metadata = claim.get("metadata") or {}
    times = [str(field.get("time", "")) for field in metadata.get("managedFields") or ()]
    return max([*times, str(metadata.get("creationTimestamp", ""))])
