"""`dray history device`: show which claims held a device, from old revisions."""

from __future__ import annotations

import asyncio
import datetime
import itertools
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import click
import msgspec

from dray.api import errors, kinds
from dray.api.http_messages import JSON, Request
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.cli.command_errors import CommandError, DrayCommand, ObjectNotFound, WrongUsage
from dray.cli.inputs import published_devices
from dray.cli.output import formats, tables
from dray.cli.output.formats import OutputFormat
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
TIME = "%Y-%m-%d %H:%M:%S"


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


class _History(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands and not args[0].startswith("-"):
            raise WrongUsage(f"{args[0]}: only devices have a history", _advice(args))
        return super().resolve_command(ctx, args)


def _advice(args: Sequence[str]) -> str:
    if kinds.by_name(args[0].partition("/")[0]) is None:
        return f"Write: dray history device {args[0]}"
    name = "/".join(args[:2])
    about = name if "/" in name else f"{name}/NAME"
    return f"Write: dray history device NODE/DEVICE; events of others: dray events --for {about}"


@click.group("history", cls=_History)
def history() -> None:
    """Show past allocations, as far back as the server keeps revisions."""


@history.command("device", cls=DrayCommand)
@click.argument("device")
@connection.options
@formats.option
@click.option(
    "--at", default="", metavar="TIME", help="Only at this time: 14:02, or 2026-11-15T14:02:00Z."
)
def device(target: Target, device: str, format: OutputFormat, at: str) -> None:
    """Show who used a device when: NODE/DEVICE, or DRIVER/POOL/DEVICE.

    How far back depends on the server: `dray up --history 24h` keeps a day, other clusters some
    minutes.
    """
    past, held = periods_of(target, device, at)
    if format.is_table:
        _show(device, held, past, at)
    else:
        formats.show_document(document(past, held), format)


def periods_of(target: Target, device: str, at: str = "") -> tuple[ClaimHistory, list[Period]]:
    """Return the history of claims, and the periods of one device, at one time if that is given."""
    instant = moment(at)
    with progress.shown("Reading past revisions"):
        past, held = connection.run(target, lambda session: _read(session, device))
    if instant:
        require_visible(past, instant, at)
        held = [period for period in held if period.since <= instant < (period.until or NEVER)]
    return past, held


def document(past: ClaimHistory, held: Sequence[Period]) -> dict[str, Any]:
    return {"reachesBackTo": past.reaches_back_to, "revision": past.oldest, "items": list(held)}


async def _read(session: Session, device: str) -> tuple[ClaimHistory, list[Period]]:
    try:
        past = await read(session)
    except errors.Expired as error:
        raise CommandError(f"the server does not keep old revisions: {error}") from error
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


def moment(text: str) -> str:
    """Return a time of the command line in UTC. Without a date it is today, in local time."""
    if not text:
        return ""
    now = datetime.datetime.now().astimezone()
    try:
        if "T" not in text and "-" not in text:
            text = f"{now.date()}T{text}"
        instant = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise WrongUsage(f"--at {text}: write 14:02, 14:02:30 or 2026-11-15T14:02:00Z") from error
    local = instant if instant.tzinfo else instant.replace(tzinfo=now.tzinfo)
    return local.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def require_visible(past: ClaimHistory, instant: str, at: str) -> None:
    if past.reaches_back_to and instant < past.reaches_back_to:
        raise ObjectNotFound(
            f"{at} is before the history of the server, which starts at "
            f"{_local(past.reaches_back_to)}",
            "To keep more from now on: dray up --history 24h",
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


def _show(name: str, held: Sequence[Period], past: ClaimHistory, at: str) -> None:
    if not held:
        click.echo(f"{name} was held by nobody{f' at {at}' if at else ''}.")
    else:
        tables.show([["SINCE", "UNTIL", "CLAIM", "USED BY"], *_rows(held)], has_header=True)
    since = _local(past.reaches_back_to) if past.reaches_back_to else f"revision {past.oldest}"
    start = "with the cluster" if past.oldest <= 1 else f"at {since}"
    click.echo(f"History starts {start}.", err=True)


def _rows(held: Iterable[Period]) -> Iterator[list[str]]:
    for period in held:
        until = _local(period.until) if period.until else "<now>"
        until = f"after {until}" if period.until_is_about else until
        users = ",".join(period.used_by) or "<none>"
        yield [_local(period.since), until, f"{period.namespace}/{period.claim}", users]


def _local(time: str) -> str:
    return datetime.datetime.fromisoformat(time).astimezone().strftime(TIME)
