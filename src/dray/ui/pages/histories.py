"""The holders of devices in the past, from the file of a recorder, as far as a person may know.

A history has the names of everybody. What a person may not read now is not shown of the past
either: claims, pods and users of namespaces whose claims may not be read are left out.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Mapping, Sequence
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
from dray.history.periods import DeviceHolder, Gap, HeldPeriod, HistorySpan, MarkPeriod, Moment
from dray.history.queries import DeviceHistory
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
        return {"since": _time(span.first), "gaps": _gaps(span.gaps)}

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
                return await self._usage(question)
        raise PageError(404, "there is no such page")

    async def _at(self, viewer: Viewer, time: datetime.datetime) -> dict[str, Any]:
        moment = await self._ask(lambda history: history.at(time))
        slices = list(viewer.model.objects(kinds.RESOURCE_SLICE))
        cells = await asyncio.to_thread(_cells, moment, slices, _sees(viewer.model))
        sees = _sees(viewer.model)
        return {
            "time": _time(moment.time),
            "known": moment.is_known,
            "holders": {
                str(device): [_holder(holder) for holder in held if sees(holder.claim)]
                for device, held in moment.holders.items()
            },
            "tainted": sorted(map(str, moment.tainted)),
            "unhealthy": sorted(map(str, moment.unhealthy)),
            "cells": cells,
        }

    async def _device(self, viewer: Viewer, question: PageQuestion) -> dict[str, Any]:
        device = device_page.device_id(question.parameter("key"))
        since, until = _times(question)
        members = [device, *_partitions(viewer.model, device)]
        sees = _sees(viewer.model)

        def read(history: DeviceHistory) -> tuple[list[HeldPeriod], list[MarkPeriod], HistorySpan]:
            held = history.periods(device=str(device), since=since, until=until)
            named = {period.device for period in held}
            for member in members:
                if member not in named:
                    held += history.periods(device=member, since=since, until=until)
            marks = [mark for member in members for mark in history.marks(member, since, until)]
            return held, marks, history.span()

        held, marks, span = await self._ask(read)
        held = sorted(set(held), key=lambda period: period.since)[-PERIODS_SHOWN:]
        return {
            "periods": [_period(period, sees(period.claim)) for period in held],
            "marks": [_mark(mark) for mark in marks],
            "gaps": _gaps(span.gaps),
        }

    async def _usage(self, question: PageQuestion) -> dict[str, Any]:
        since, until = _times(question)
        buckets = question.number("buckets", BUCKETS, 1, MOST_BUCKETS)
        found, span = await self._ask(
            lambda history: (history.usage(since, until, buckets), history.span())
        )
        classes: dict[str, list[dict[str, Any]]] = {}
        for bucket in found:
            classes.setdefault(bucket.device_class, []).append(
                {
                    "time": _time(bucket.since),
                    "total": bucket.total,
                    "held": bucket.held,
                    "waiting": bucket.waiting,
                }
            )
        return {"classes": classes, "gaps": _gaps(span.gaps)}

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

    def root(self, device: DeviceId) -> DeviceId:
        parents = self._parents_in(device.pool_id)
        return device._replace(device=parents.get(device.device, device.device))

    def device(self, device: DeviceId) -> Device | None:
        return self._devices.get(device.pool_id, {}).get(device.device)

    def slots(self, root: DeviceId) -> int:
        """Return the number of slots of a device with partitions; 0 for others."""
        parents, devices = self._parents_in(root.pool_id), self._devices.get(root.pool_id, {})
        ends = (
            sum(device_values.placement_of(devices[name]))
            for name, parent in parents.items()
            if parent == root.device
        )
        return max(ends, default=0)

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


def _partitions(model: FollowedCluster, root: DeviceId) -> list[DeviceId]:
    """Return the partitions of a device that are published now."""
    entry = model.fleet.inventory.pools().get(root.pool_id)
    slices = pools.current_slices(list(entry.slices.values())) if entry is not None else []
    devices = [device for item in slices for device in item.spec.devices]
    parents = device_states.parents(devices)
    return [root._replace(device=name) for name, parent in parents.items() if parent == root.device]


def _span(span: HistorySpan) -> dict[str, Any]:
    return {"since": _time(span.first), "until": _time(span.last), "gaps": _gaps(span.gaps)}


def _gaps(gaps: Sequence[Gap]) -> list[list[str | None]]:
    return [[_time(gap.since), _time(gap.until)] for gap in gaps]


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
    except ValueError as error:
        raise PageError(400, "the time is not valid", "Write 2026-01-31T14:02:00Z.") from error
    if time.tzinfo is None:
        raise PageError(400, "the time has no zone", "Write 2026-01-31T14:02:00Z.")
    return time.astimezone(datetime.UTC)
