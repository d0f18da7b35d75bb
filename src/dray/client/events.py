"""Event objects, aggregated: repetitions are counted in one event.

`record` only queues; `run` writes. An event that repeats is updated ever more rarely, and an object
with many different notes of one reason gets one combined event, so neither a loop that fails for
ever nor a large rollout fills the store. The number of cached events is bounded: beyond it, the
event that was used longest ago is dropped, and its next repetition is a new event. While the
process is busy, events are written slowly, so that they do not delay other work.

Events are written in core/v1, which both groups read. Where there is an `action` they have the form
of events.k8s.io (time, series), otherwise the older one (count, first and last time).
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.kinds import Kind
from dray.api.types.core import ObjectReference
from dray.api.types.meta import ObjectMeta
from dray.client.api_client import Client

log = logging.getLogger(__name__)

NORMAL, WARNING = "Normal", "Warning"

DEFAULT_CAPACITY = 4096
FIRST_UPDATE_SECONDS = 5.0
REPLACED_SECONDS = 1.0
"""The least time between two updates of an event whose note is replaced by another one."""
MAX_UPDATE_SECONDS = 600.0
MAX_SIMILAR = 10
SIMILAR_WITHIN_SECONDS = 600.0
MAX_NOTE_CHARACTERS = 1024
COMBINED = "(combined from similar events): "
BUSY_SECONDS = 0.002
"""A turn of the event loop that takes longer means that other tasks have work to do."""
BUSY_FACTOR = 20
"""While they do, events get one twentieth of the turns of the loop."""
MAX_WAIT_SECONDS = 1.0


def reference(kind: Kind, metadata: ObjectMeta) -> ObjectReference:
    """Return the reference to the object of an event."""
    return ObjectReference(
        kind=kind.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        api_version=kind.preferred.api_version,
        resource_version=metadata.resource_version,
    )


class _Topic(NamedTuple):
    """The fields that similar events have in common."""

    uid: str
    kind: str
    namespace: str
    name: str
    type: str
    reason: str
    action: str


class _Key(NamedTuple):
    topic: _Topic
    note: str


@dataclass(slots=True)
class _Record:
    """One event, and the part of it that is not written yet."""

    regarding: ObjectReference
    topic: _Topic
    note: str
    first: datetime.datetime
    last: datetime.datetime
    count: int = 0
    name: str = ""
    writes: int = 0
    written: float = -REPLACED_SECONDS
    """The time of the event loop at which it was last written."""
    not_before: float = 0.0


@dataclass(slots=True)
class _Similar:
    last: float
    notes: set[str] = field(default_factory=set)


class Recorder:
    """The events of one component. `run` must be running for them to be written."""

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        instance: str = "",
        now: Callable[[], datetime.datetime],
        capacity: int = DEFAULT_CAPACITY,
    ) -> None:
        self._client = client
        self._component = component
        self._instance = instance or component
        self._now = now
        self._capacity = capacity
        self._records: OrderedDict[_Key, _Record] = OrderedDict()
        self._similar: OrderedDict[_Topic, _Similar] = OrderedDict()
        self._unwritten: OrderedDict[_Key, _Record] = OrderedDict()
        self._arrival = asyncio.Event()

    def __len__(self) -> int:
        """Return the number of cached events."""
        return len(self._records)

    def record(
        self,
        regarding: ObjectReference,
        type_: str,
        reason: str,
        note: str,
        *,
        action: str = "",
        replace: bool = False,
    ) -> None:
        """Queue an event.

        With `replace`, all notes of one reason about one object share an event that shows the
        latest.
        """
        note = note[:MAX_NOTE_CHARACTERS]
        regarded = (regarding.uid, regarding.kind, regarding.namespace, regarding.name)
        topic = _Topic(*regarded, type_, reason, action)
        if replace:
            key = _Key(topic, "")
        elif self._is_one_of_many(topic, note):
            key, note = _Key(topic, COMBINED), (COMBINED + note)[:MAX_NOTE_CHARACTERS]
        else:
            key = _Key(topic, note)
        now = self._now()
        record = self._records.get(key) or _Record(regarding, topic, note, now, now)
        if replace and record.note != note:
            # What was true is not any more: that does not wait as a repetition does.
            record.not_before = min(record.not_before, record.written + REPLACED_SECONDS)
            record.writes = 0
        record.note, record.last = note, now
        record.count += 1
        self._remember(key, record)

    async def run(self) -> None:
        """Write what was recorded until cancelled."""
        while True:
            wait = await self.flush()
            self._arrival.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._arrival.wait()

    def _is_one_of_many(self, topic: _Topic, note: str) -> bool:
        now = time.monotonic()
        similar = self._similar.pop(topic, None)
        if similar is None or now - similar.last > SIMILAR_WITHIN_SECONDS:
            similar = _Similar(now)
        similar.last = now
        if len(similar.notes) < MAX_SIMILAR:
            similar.notes.add(note)
        self._similar[topic] = similar
        while len(self._similar) > self._capacity:
            self._similar.popitem(last=False)
        return len(similar.notes) >= MAX_SIMILAR

    def _remember(self, key: _Key, record: _Record) -> None:
        self._records[key] = record
        self._records.move_to_end(key)
        self._unwritten[key] = record
        while len(self._records) > self._capacity:
            forgotten, _ = self._records.popitem(last=False)
            self._unwritten.pop(forgotten, None)
        self._arrival.set()

    async def flush(self) -> float | None:
        """Write the events that are due. Returns the seconds until the next, None without one."""
        clock = _now()
        for key, record in list(self._unwritten.items()):
            if record.not_before <= clock and self._unwritten.pop(key, None) is not None:
                await _give_way()
                await self._write(key, record)
        later = [record.not_before for record in self._unwritten.values()]
        return max(min(later) - _now(), 0.0) if later else None

    async def _write(self, key: _Key, record: _Record) -> None:
        delay = min(FIRST_UPDATE_SECONDS * 2**record.writes, MAX_UPDATE_SECONDS)
        record.written = _now()
        record.not_before = record.written + delay
        record.writes += 1
        try:
            await self._send(record)
        except errors.NotFound:
            # The event expired, or its namespace is gone: the next repetition is a new event.
            self._records.pop(key, None)
        except errors.StatusError as error:
            log.info("event %s %s: %s", record.topic.reason, record.topic.name, error)

    async def _send(self, record: _Record) -> None:
        namespace = record.topic.namespace or "default"
        if record.name:
            update = self._repetition(record)
            await self._client.patch(kinds.EVENT, record.name, update, namespace)
            return
        name = f"{record.topic.name}.{time.time_ns():x}"
        await self._client.create(kinds.EVENT, self._event(name, namespace, record), namespace)
        record.name = name

    def _event(self, name: str, namespace: str, record: _Record) -> dict[str, Any]:
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": msgspec.to_builtins(record.regarding),
            "reason": record.topic.reason,
            "type": record.topic.type,
            "reportingComponent": self._component,
            **self._repetition(record),
        }
        if record.topic.action:
            event["action"] = record.topic.action
            event["eventTime"] = gotime.write(record.first, gotime.MICROSECONDS)
            event["reportingInstance"] = self._instance
        else:
            event["source"] = {"component": self._component}
            event["firstTimestamp"] = gotime.write(record.first)
        return event

    def _repetition(self, record: _Record) -> dict[str, Any]:
        """Return the patch of an event that repeats."""
        if not record.topic.action:
            last = gotime.write(record.last)
            return {"message": record.note, "count": record.count, "lastTimestamp": last}
        if record.count == 1:
            return {"message": record.note}
        observed = gotime.write(record.last, gotime.MICROSECONDS)
        series = {"count": record.count, "lastObservedTime": observed}
        return {"message": record.note, "series": series}


def _now() -> float:
    """Return the time of the event loop."""
    return asyncio.get_running_loop().time()


async def _give_way() -> None:
    """Yield to other tasks, longer the more there are, up to a limit."""
    began = time.monotonic()
    await asyncio.sleep(0)
    turn = time.monotonic() - began
    if turn > BUSY_SECONDS:
        await asyncio.sleep(min(turn * BUSY_FACTOR, MAX_WAIT_SECONDS))
