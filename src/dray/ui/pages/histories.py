"""The holders of devices in the past, from the file of a recorder, as far as a person may know.

A history has the names of everybody. What a person may not read now is not shown of the past
either: claims, pods and users of namespaces whose claims may not be read are left out.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from dray.allocator import device_states, device_values
from dray.allocator.device_states import DeviceState
from dray.api import kinds
from dray.api.formats import gotime
from dray.api.ids import DeviceId, PoolId
from dray.api.semantics import pools
from dray.api.types.dra import Device, ResourceSlice
from dray.clock import utc_now
from dray.history.file_format import HistoryUnusable
from dray.history.periods import DeviceHolder, HeldPeriod, HistorySpan, MarkPeriod, Moment
from dray.history.queries import ClassesOf, DeviceHistory
from dray.ui.model.cells import FULL, HIDDEN, TAINTED, UNHEALTHY
from dray.ui.model.entries import Part
from dray.ui.model.followed_cluster import FollowedCluster
from dray.ui.pages.objects import device_page
from dray.ui.pages.page_errors import PageError
from dray.ui.pages.viewer import PageQuestion, Viewer

AT_ONCE: Final = 4
MOST_BUCKETS: Final = 1000
BUCKETS: Final = 100
DEFAULT_TIME: Final = datetime.timedelta(days=1)
PERIODS_SHOWN: Final = 5000
EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
T = TypeVar("T")


class PastCell(msgspec.Struct, frozen=True, omit_defaults=True):
    """A device as it was at a time, with the partitions that were held; the others were free."""

    st: str
    f: int = 0
    m: tuple[str, ...] = ()
    h: tuple[str, ...] = ()
    u: tuple[str, ...] = ()
    p: tuple[Part, ...] = ()


class Histories:
    """Answers from one file; a file that does not exist yet is opened when it does."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._history: DeviceHistory | None = None
        self._gate = asyncio.Semaphore(AT_ONCE)

    def close(self) -> None:
        if self._history is not None:
            self._history.close()

    async def about(self) -> dict[str, Any]:
        """Return what the session document says: since when there is a history, and its gaps."""
        try:
            span = await self._ask(DeviceHistory.span)
        except PageError:
            return {"since": None, "gaps": []}
        return {"since": _time(span.first), "gaps": _gaps(span)}

    async def answer(self, viewer: Viewer, question: PageQuestion) -> Any:
        """Return the answer to a question about the past. Raises PageError."""
        if not viewer.model.rights.of(kinds.RESOURCE_SLICE):
            raise PageError(403, "you may not read devices, so you may not read their history")
        match question.parts[1:]:
            case ("span",):
                return _span(await self._ask(DeviceHistory.span))
            case ("at",):
                return await self._at(viewer, _asked_time(question.parameter("time")))
            case ("device",):
                return await self._device(viewer, question)
            case ("usage",):
                if not viewer.model.rights.of(kinds.DEVICE_CLASS):
                    raise PageError(403, "you may not read classes, so not their use either")
                return await self._usage(viewer, question)
        raise PageError(404, "there is no such page")

    async def _at(self, viewer: Viewer, time: datetime.datetime) -> dict[str, Any]:
        moment = await self._ask(lambda history: history.at(time))
        slices = list(viewer.model.objects(kinds.RESOURCE_SLICE))
        return await asyncio.to_thread(_moment, moment, slices, _sees(viewer.model))

    async def _device(self, viewer: Viewer, question: PageQuestion) -> dict[str, Any]:
        device = device_page.device_id(question.parameter("key"))
        since, until = _times(question)
        sees = _sees(viewer.model)

        def read(history: DeviceHistory) -> tuple[list[HeldPeriod], list[MarkPeriod], HistorySpan]:
            held = history.periods(device=device, since=since, until=until)
            return held, history.marks(device, since, until), history.span()

        held, marks, span = await self._ask(read)
        return {
            "periods": [_period(period, sees(period.claim)) for period in held[-PERIODS_SHOWN:]],
            "marks": [_mark(mark) for mark in marks],
            "gaps": _gaps(span),
        }

    async def _usage(self, viewer: Viewer, question: PageQuestion) -> dict[str, Any]:
        since, until = _times(question)
        classes_of = _classes_of(viewer.model)
        buckets = question.number("buckets", BUCKETS, 1, MOST_BUCKETS)
        found, span = await self._ask(
            lambda history: (
                history.usage(since, until, buckets, classes_of),
                history.span(),
            )
        )
        sees_pods = "" in viewer.model.rights.of(kinds.POD)
        classes: dict[str, list[dict[str, Any]]] = {}
        for bucket in found:
            classes.setdefault(bucket.device_class, []).append(
                {
                    "time": _time(bucket.since),
                    "total": bucket.total,
                    "held": bucket.held,
                    "waiting": bucket.waiting if sees_pods else None,
                }
            )
        return {"classes": classes, "gaps": _gaps(span)}

    async def _ask(self, question: Callable[[DeviceHistory], T]) -> T:
        """Ask the file, in a thread. Raises PageError if there is none."""
        path = self._path
        if path is None:
            raise PageError(404, "no history is recorded", "Record one: dray ui --record FILE")

        def answer() -> T:
            if self._history is None:
                self._history = DeviceHistory(path)
            return question(self._history)

        async with self._gate:
            try:
                return await asyncio.to_thread(answer)
            except HistoryUnusable as error:
                raise PageError(503, f"the history cannot be read: {error}") from error


def _sees(model: FollowedCluster) -> Callable[[str], bool]:
    """Return whether a claim NAMESPACE/NAME may be read."""
    namespaces = frozenset(model.rights.of(kinds.RESOURCE_CLAIM))
    return lambda claim: "" in namespaces or claim.partition("/")[0] in namespaces


def _classes_of(model: FollowedCluster) -> ClassesOf:
    """Return which classes select a device or a part of it now."""
    shapes, cells = model.fleet.table.shapes, model.fleet.cells

    def classes_of(device: DeviceId) -> Iterable[str]:
        cell = cells.get(str(device))
        return shapes[cell.s].classes if cell is not None and cell.s in shapes else ()

    return classes_of


def _moment(
    moment: Moment, slices: Sequence[ResourceSlice], sees: Callable[[str], bool]
) -> dict[str, Any]:
    """Return the document of a moment. It takes long for a large fleet."""
    return {
        "time": _time(moment.time),
        "known": moment.is_known,
        "holders": {
            str(device): [_holder(holder) for holder in held if sees(holder.claim)]
            for device, held in moment.holders.items()
        },
        "tainted": sorted(map(str, moment.tainted)),
        "unhealthy": sorted(map(str, moment.unhealthy)),
        "cells": _cells(moment, slices, sees),
    }


def _cells(
    moment: Moment, slices: Sequence[ResourceSlice], sees: Callable[[str], bool]
) -> dict[str, PastCell]:
    """Return the devices that were held or marked, by their keys."""
    published = _Published(slices)
    groups: dict[DeviceId, list[DeviceId]] = {}
    for device in {*moment.holders, *moment.tainted, *moment.unhealthy}:
        groups.setdefault(published.root(device), []).append(device)
    return {
        str(root): _cell(root, sorted(members), moment, published, sees)
        for root, members in groups.items()
    }


class _Published:
    """The devices that are published now: the places of partitions do not change."""

    def __init__(self, slices: Sequence[ResourceSlice]) -> None:
        by_pool = pools.group_by_pool(pools.current_slices_of_pools(slices))
        self._devices: dict[PoolId, dict[str, Device]] = {
            pool: {device.name: device for item in own for device in item.spec.devices}
            for pool, own in by_pool.items()
        }
        self._parents: dict[PoolId, dict[str, str]] = {}
        self._slots: dict[PoolId, dict[str, int]] = {}

    def root(self, device: DeviceId) -> DeviceId:
        parents = self._parents_in(device.pool_id)
        return device._replace(device=parents.get(device.device, device.device))

    def device(self, device: DeviceId) -> Device | None:
        return self._devices.get(device.pool_id, {}).get(device.device)

    def slots(self, root: DeviceId) -> int:
        """Return the number of slots of a device with partitions; 0 for others."""
        pool = root.pool_id
        if pool not in self._slots:
            slots = self._slots[pool] = {}
            for name, parent in self._parents_in(pool).items():
                end = sum(device_values.placement_of(self._devices[pool][name]))
                slots[parent] = max(end, slots.get(parent, 0))
        return self._slots[pool].get(root.device, 0)

    def _parents_in(self, pool: PoolId) -> Mapping[str, str]:
        if pool not in self._parents:
            devices = list(self._devices.get(pool, {}).values())
            self._parents[pool] = device_states.parents(devices)
        return self._parents[pool]


def _cell(
    root: DeviceId,
    members: Sequence[DeviceId],
    moment: Moment,
    published: _Published,
    sees: Callable[[str], bool],
) -> PastCell:
    held = [device for device in members if moment.holders.get(device)]
    holders = [holder for device in held for holder in moment.holders[device]]
    parts = tuple(_part(device, moment, published, sees) for device in held if device != root)
    slots = published.slots(root)
    taken = sum(part.w for part in parts)
    return PastCell(
        _state(root, held, published, is_full=not slots or taken >= slots),
        f=min(round(FULL * taken / slots), FULL) if slots and parts else 0,
        m=_marks(members, moment),
        h=_names(holders, sees),
        u=_users(holders, sees),
        p=parts,
    )


def _state(
    root: DeviceId, held: Sequence[DeviceId], published: _Published, *, is_full: bool
) -> str:
    if not held:
        return str(DeviceState.FREE)
    device = published.device(root)
    if root in held:
        is_shared = device is not None and bool(device.allow_multiple_allocations)
        return str(DeviceState.SHARED if is_shared else DeviceState.IN_USE)
    return str(DeviceState.IN_USE if is_full else DeviceState.SHARED)


def _part(
    device: DeviceId, moment: Moment, published: _Published, sees: Callable[[str], bool]
) -> Part:
    found = published.device(device)
    start, size = device_values.placement_of(found) if found is not None else (0, 0)
    holders = moment.holders[device]
    return Part(
        str(device),
        start,
        size,
        str(DeviceState.IN_USE),
        h=_names(holders, sees),
        u=_users(holders, sees),
        m=_marks([device], moment),
    )


def _marks(devices: Sequence[DeviceId], moment: Moment) -> tuple[str, ...]:
    tainted = (TAINTED,) if any(device in moment.tainted for device in devices) else ()
    unhealthy = (UNHEALTHY,) if any(device in moment.unhealthy for device in devices) else ()
    return (*tainted, *unhealthy)


def _names(holders: Sequence[DeviceHolder], sees: Callable[[str], bool]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(holder.claim for holder in holders if sees(holder.claim)))


def _users(holders: Sequence[DeviceHolder], sees: Callable[[str], bool]) -> tuple[str, ...]:
    pods = (pod for holder in holders if sees(holder.claim) for pod in holder.pods)
    return tuple(dict.fromkeys(pods))


def _holder(holder: DeviceHolder) -> dict[str, Any]:
    return {"claim": holder.claim, "pods": holder.pods, "user": holder.user}


def _period(period: HeldPeriod, is_visible: bool) -> dict[str, Any]:
    return {
        "device": str(period.device),
        "claim": period.claim if is_visible else HIDDEN,
        "pods": period.pods if is_visible else (),
        "user": period.user if is_visible else "",
        "since": _time(period.since),
        "until": _time(period.until),
        "about": period.until_is_about,
    }


def _mark(mark: MarkPeriod) -> dict[str, Any]:
    return {
        "device": str(mark.device),
        "kind": mark.kind,
        "key": mark.key,
        "since": _time(mark.since),
        "until": _time(mark.until),
    }


def _span(span: HistorySpan) -> dict[str, Any]:
    return {"since": _time(span.first), "until": _time(span.last), "gaps": _gaps(span)}


def _gaps(span: HistorySpan) -> list[list[str | None]]:
    """Return the gaps: first what was before the record, and last, without an end, what comes
    after it if no recorder runs now.
    """
    gaps = [[_time(gap.since), _time(gap.until)] for gap in span.gaps]
    if span.first is not None:
        gaps.insert(0, [_time(EPOCH), _time(span.first)])
    return [*gaps, [_time(span.last), None]] if span.has_ended(utc_now()) else gaps


def _time(time: datetime.datetime | None) -> str | None:
    return gotime.write(time, gotime.MICROSECONDS) if time is not None else None


def _times(question: PageQuestion) -> tuple[datetime.datetime, datetime.datetime]:
    """Return the time that a question is about. Raises PageError."""
    until = question.optional("until")
    ends = _asked_time(until) if until else utc_now()
    since = question.optional("since")
    begins = _asked_time(since) if since else ends - DEFAULT_TIME
    if begins >= ends:
        raise PageError(400, "since has to be before until")
    return begins, ends


def _asked_time(text: str) -> datetime.datetime:
    try:
        time = datetime.datetime.fromisoformat(text)
        if time.tzinfo is None:
            raise PageError(400, "the time has no zone", "Write 2026-01-31T14:02:00Z.")
        time = time.astimezone(datetime.UTC)
    except (ValueError, OverflowError) as error:
        raise PageError(400, "the time is not valid", "Write 2026-01-31T14:02:00Z.") from error
    if time < EPOCH:
        raise PageError(400, f"the time is before {EPOCH.year}")
    return time
