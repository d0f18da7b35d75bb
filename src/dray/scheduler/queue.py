"""The queue of pods without a node: ready, backing off, or waiting for an event that could help.

Pods with the same placement key wait together in a `WaitingGroup`. When an event could help, one
of them is tried, the probe; only if it gets a node, the next one is tried. So a thousand pods that
wait for a device cost one attempt when a device is freed, and nothing while nothing happens.

A change that helps nobody may still change why pods wait. Groups that it concerns are outdated: the
first pod of each is tried again at leisure (`refresh`), for its reason.

Pods that ask for the same devices are a line, whatever group they wait in.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from dray.api.ids import ObjectKey
from dray.scheduler.waiting_lines import WaitingLines
from dray.scheduling import wake_events
from dray.scheduling.unschedulable import Unschedulable
from dray.scheduling.wake_events import WakeEvent

FIRST_ERROR_SECONDS = 1.0
MAX_ERROR_SECONDS = 10.0
"""podInitialBackoffSeconds and podMaxBackoffSeconds of kube-scheduler."""
FIRST_BACKOFF_SECONDS = 0.01
MAX_BACKOFF_SECONDS = 1.0
COST_FACTOR = 20
"""Attempts of one waiting group may use a twentieth of the time, so that others get theirs."""
MAX_COST_SECONDS = 60.0
_EARLY = 1 << 62
"""More pods than ever arrive."""
_TAKEN = frozenset({wake_events.DEVICES, wake_events.POD_REMOVED})
"""The events for which pods wait that want what others have."""


@dataclass(slots=True, eq=False)
class QueueEntry:
    """A pod in the queue."""

    key: ObjectKey
    priority: int
    arrival: int
    since: float
    """The time at which the pod was added."""
    state: str = ""
    """READY, BACKING_OFF, WAITING or IN_PROGRESS."""
    group: WaitingGroup | None = None
    """The group in which it waits, or for which it is the probe."""
    errors: int = 0

    def rank(self) -> tuple[int, int]:
        """Return the sort key: higher priority first, then earlier arrival."""
        return -self.priority, self.arrival


READY, BACKING_OFF, WAITING, IN_PROGRESS = "ready", "backing_off", "waiting", "in_progress"


@dataclass(slots=True, eq=False)
class WaitingGroup:
    """Pods that wait together: as long as one does not fit, none of them fits."""

    key: Hashable
    entries: dict[ObjectKey, QueueEntry] = field(default_factory=dict)
    events: frozenset[WakeEvent] = frozenset()
    """The events that could help."""
    probe: QueueEntry | None = None
    """The pod that is being tried for all."""
    is_woken: bool = False
    """Whether an event came while the probe is tried or the group backs off."""
    failures: int = 0
    not_before: float = 0.0
    cost_seconds: float = 0.0
    """The time of the last attempt."""
    is_refreshed: bool = False
    """Whether the probe is tried for its reason only."""
    version: int = 0
    """The version of the queue at the last attempt."""
    result: Unschedulable | None = None
    """The last attempt. It holds for all pods of the group."""
    message: Hashable = None
    """What the pods of the group were last told, without names."""


class Queue:
    """All pods without a node. Belongs to one event loop; one pod is in progress at a time."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or asyncio.get_running_loop().time
        self._entries: dict[ObjectKey, QueueEntry] = {}
        self._ready: list[tuple[int, int, QueueEntry]] = []
        self._groups: dict[Hashable, WaitingGroup] = {}
        self._by_event: dict[WakeEvent, dict[WaitingGroup, None]] = {}
        self._arrivals = itertools.count()
        self._early_arrivals = itertools.count(-_EARLY)
        self._arrival = asyncio.Event()
        self._woken: set[WakeEvent] = set()
        """The events since the last pod was popped."""
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}
        self.version = self._popped_version = self._lasting_version = 0
        """The number of changes in the cluster that could change the reason of a waiting pod."""
        self.changed = asyncio.Event()
        """Set by such a change."""
        self.lines = WaitingLines()

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def lengths(self) -> Mapping[str, int]:
        """Return the number of pods by state."""
        counts = dict.fromkeys((READY, BACKING_OFF, WAITING, IN_PROGRESS), 0)
        for entry in self._entries.values():
            counts[entry.state] += 1
        return counts

    def add(self, key: ObjectKey, priority: int, *, is_early: bool = False) -> None:
        """Add a pod; one that waits already is tried again.

        One that `is_early` goes before all others of its priority.
        """
        entry = self._entries.get(key)
        if entry is None:
            arrival = next(self._early_arrivals if is_early else self._arrivals)
            entry = QueueEntry(key, priority, arrival, self._clock())
            self._entries[key] = entry
            self._make_ready(entry)
        elif entry.state == WAITING:
            entry.priority = priority
            self._leave(entry)
            self._make_ready(entry)

    def remove(self, key: ObjectKey) -> QueueEntry | None:
        """Remove a pod that is deleted or has a node."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.lines.drop(entry.key)
            self._detach(entry)
        return entry

    def finish(self, entry: QueueEntry) -> None:
        """Remove a pod. Another one that has its name by now stays."""
        if self._entries.get(entry.key) is entry:
            self.remove(entry.key)

    async def pop(self) -> QueueEntry:
        """Return the first ready pod. Call `park`, `retry`, `done` or `finish` afterwards."""
        while True:
            while self._ready:
                # A removed or taken pod stays in the heap until it surfaces here.
                _, _, entry = heapq.heappop(self._ready)
                if entry.state == READY and self._entries.get(entry.key) is entry:
                    entry.state = IN_PROGRESS
                    self._woken.clear()
                    self._popped_version = self.version
                    return entry
            self._arrival.clear()
            await self._arrival.wait()

    def take(self, key: ObjectKey) -> QueueEntry | None:
        """Return a pod that is decided together with the popped one; None if it is in progress."""
        entry = self._entries.get(key)
        if entry is None or entry.state == IN_PROGRESS:
            return None
        self._detach(entry)
        entry.state = IN_PROGRESS
        return entry

    def _detach(self, entry: QueueEntry) -> None:
        self._cancel(entry.key)
        if entry.state == WAITING:
            self._leave(entry)
        elif self._is_probe(entry):
            self._end_probe(entry)

    def park(
        self,
        entry: QueueEntry,
        key: Hashable,
        result: Unschedulable,
        cost_seconds: float = 0.0,
        line: Hashable = None,
    ) -> None:
        """Let an unschedulable pod wait until something happens that could help.

        Pods with the same `key` wait together. `cost_seconds` is the time of the attempt; pods with
        the same `line` wait for the same devices.
        """
        if self._entries.get(entry.key) is not entry:
            return
        self.lines.put(line, entry.rank(), entry.key)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = WaitingGroup(key)
        if self._is_probe(entry) and entry.group is not group:
            self._end_probe(entry)
        self._set_events(group, result.wake_events)
        # Only the probe speaks for the group: pods that join it later do not prolong its back-off.
        is_refreshed = group.probe is entry and group.is_refreshed
        if not is_refreshed and (group.probe is entry or not group.entries):
            self._back_off(group, cost_seconds)
        group.result, group.version = result, self._popped_version
        group.cost_seconds = cost_seconds
        # An event that came while the pod was tried found nobody waiting for it.
        missed = not self._woken.isdisjoint(group.events)
        if group.probe is entry:
            group.probe = None
            missed = missed or group.is_woken
        entry.state, entry.group = WAITING, group
        group.entries[entry.key] = entry
        if missed:
            self._wake(group)

    def retry(self, entry: QueueEntry) -> None:
        """Try a pod again after a while, longer each time."""
        self.postpone(entry, min(FIRST_ERROR_SECONDS * 2**entry.errors, MAX_ERROR_SECONDS))
        entry.errors += 1

    def postpone(self, entry: QueueEntry, seconds: float) -> None:
        """Try a pod again after a time. It has done nothing wrong."""
        if self._entries.get(entry.key) is not entry:
            return
        self.lines.drop(entry.key)
        if self._is_probe(entry):
            self._end_probe(entry)
        entry.state = BACKING_OFF
        self._later(entry.key, seconds, lambda: self._make_ready(entry))

    def done(self, entry: QueueEntry) -> None:
        """Let the next pod of the group be tried: this one has a node and is being bound."""
        self.lines.drop(entry.key)
        if self._is_probe(entry):
            if entry.group is not None:
                entry.group.failures = 0
            self._end_probe(entry)

    def wake(self, event: WakeEvent) -> None:
        """Try the pods again that wait for an event."""
        if event in wake_events.GENERAL:
            self.version += 1
            if event in wake_events.LASTING:
                self._lasting_version = self.version
            self.changed.set()
        self._woken.add(event)
        for group in list(self._by_event.get(event, ())):
            self._wake(group)

    def outdated(self) -> list[WaitingGroup]:
        """Return the groups whose reason may have changed, the longest outdated first."""
        return sorted(filter(self._is_outdated, self._groups.values()), key=lambda it: it.version)

    def _is_outdated(self, group: WaitingGroup) -> bool:
        # What others take or free matters only to pods that wait for it.
        waits_for_others = not group.events.isdisjoint(_TAKEN)
        return group.version < (self.version if waits_for_others else self._lasting_version)

    def refresh(self, group: WaitingGroup) -> None:
        """Try the first pod of a group again, for its reason. It does not prolong the back-off."""
        if group.probe is None and not group.is_woken and self._is_outdated(group):
            self._release(group)
            group.is_refreshed = group.probe is not None

    def group_of(self, key: ObjectKey) -> WaitingGroup | None:
        """Return the group in which a pod waits; None if it does not wait."""
        entry = self._entries.get(key)
        return entry.group if entry is not None else None

    def close(self) -> None:
        """Cancel all timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _make_ready(self, entry: QueueEntry) -> None:
        if entry.state != READY:
            self._cancel(entry.key)
            entry.state = READY
            heapq.heappush(self._ready, (*entry.rank(), entry))
            self._arrival.set()

    def _set_events(self, group: WaitingGroup, events: frozenset[WakeEvent]) -> None:
        for event in group.events - events:
            self._remove_event(group, event)
        for event in events:
            self._by_event.setdefault(event, {})[group] = None
        group.events = events

    def _back_off(self, group: WaitingGroup, cost_seconds: float) -> None:
        backoff = min(FIRST_BACKOFF_SECONDS * 2 ** min(group.failures, 16), MAX_BACKOFF_SECONDS)
        cost = min(cost_seconds * COST_FACTOR, MAX_COST_SECONDS)
        group.failures += 1
        group.not_before = max(group.not_before, self._clock() + max(backoff, cost))

    def _wake(self, group: WaitingGroup) -> None:
        if group.probe is not None:
            group.is_woken = True
            return
        seconds = group.not_before - self._clock()
        if seconds > 0:
            # Woken once for all events until then: a busy cluster wakes groups all the time.
            group.is_woken = True
            self._later(group, seconds, lambda: self._release(group))
        else:
            self._release(group)

    def _release(self, group: WaitingGroup) -> None:
        """Make the first pod of the group ready, as the probe for all."""
        if group.probe is not None:
            return
        group.is_woken = False
        if not group.entries:
            self._remove_group(group)
            return
        # A scan, not a heap: once per attempt of the group, while joining and leaving stay cheap.
        probe = min(group.entries.values(), key=QueueEntry.rank)
        del group.entries[probe.key]
        group.probe, group.is_refreshed = probe, False
        self._make_ready(probe)

    def _is_probe(self, entry: QueueEntry) -> bool:
        return entry.group is not None and entry.group.probe is entry

    def _end_probe(self, entry: QueueEntry) -> None:
        group, entry.group = entry.group, None
        assert group is not None
        group.probe = None
        self._release(group)

    def _leave(self, entry: QueueEntry) -> None:
        group, entry.group = entry.group, None
        if group is not None:
            group.entries.pop(entry.key, None)
            if not group.entries and group.probe is None:
                self._remove_group(group)

    def _remove_group(self, group: WaitingGroup) -> None:
        for event in group.events:
            self._remove_event(group, event)
        group.events = frozenset()
        if self._groups.get(group.key) is group:
            del self._groups[group.key]
        self._cancel(group)

    def _remove_event(self, group: WaitingGroup, event: WakeEvent) -> None:
        waiting = self._by_event.get(event, {})
        waiting.pop(group, None)
        if not waiting:
            self._by_event.pop(event, None)

    def _later(self, key: Hashable, seconds: float, call: Callable[[], None]) -> None:
        if key in self._timers:
            return

        def expire() -> None:
            self._timers.pop(key, None)
            call()

        self._timers[key] = asyncio.get_running_loop().call_later(seconds, expire)

    def _cancel(self, key: Hashable) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
