"""The pods that have no node yet: ready, backing off, or waiting for something that could help.

Pods that ask the same question wait together in a `Cohort`. When something happens that could help,
one of them is tried; only if it finds a place is the next one tried. So a thousand pods that wait
for a device cost one attempt when a device is freed, and nothing at all while nothing happens.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

from dray.api.ids import ObjectKey

FIRST_ERROR_SECONDS = 1.0
MAX_ERROR_SECONDS = 10.0
"""podInitialBackoffSeconds and podMaxBackoffSeconds of kube-scheduler."""
FIRST_REFUSAL_SECONDS = 0.01
MAX_REFUSAL_SECONDS = 1.0
COST_FACTOR = 20
"""A refused question may use one twentieth of the time."""
MAX_COST_SECONDS = 60.0


class WakeEvent(NamedTuple):
    """What could make a pod fit, if it changed."""

    what: str
    which: ObjectKey | None = None


NODES = WakeEvent("nodes")
"""A node comes, or allows more than before."""
ROOM = WakeEvent("room")
"""A pod leaves a node."""
NEIGHBOURS = WakeEvent("neighbours")
"""A pod gets a node."""
DEVICES = WakeEvent("devices")
"""Devices come or are freed."""
CLASSES = WakeEvent("classes")


def claim_changes(key: ObjectKey) -> WakeEvent:
    return WakeEvent("claim", key)


def group_changes(key: ObjectKey) -> WakeEvent:
    return WakeEvent("group", key)


class Entry:
    """A pod in the queue."""

    __slots__ = ("arrival", "cohort", "errors", "key", "priority", "reason", "since", "where")

    def __init__(self, key: ObjectKey, priority: int, arrival: int, since: float) -> None:
        self.key = key
        self.priority = priority
        self.arrival = arrival
        self.since = since
        """When the pod was first seen."""
        self.where = ""
        """READY, BACKING_OFF, WAITING or WORKED_ON."""
        self.cohort: WaitingGroup | None = None
        """Where it waits, or waited before it was tried again."""
        self.errors = 0
        self.reason = ""
        """Why it was refused last, in a word."""

    def rank(self) -> tuple[int, int]:
        """Lower comes first: more important, then earlier."""
        return -self.priority, self.arrival


READY, BACKING_OFF, WAITING, WORKED_ON = "ready", "backing off", "waiting", "worked on"


class WaitingGroup:
    """Pods that wait for the same answer."""

    __slots__ = ("causes", "entries", "is_woken", "not_before", "probe", "question", "refusals")

    def __init__(self, question: Hashable) -> None:
        self.question = question
        self.entries: dict[ObjectKey, Entry] = {}
        self.causes: frozenset[WakeEvent] = frozenset()
        self.probe: Entry | None = None
        """The one that is being tried for all."""
        self.is_woken = False
        """Something happened since the probe set out, or while the cohort backs off."""
        self.refusals = 0
        self.not_before = 0.0


class Queue:
    """All calls belong to one event loop; one pod is worked on at a time."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or asyncio.get_running_loop().time
        self._entries: dict[ObjectKey, Entry] = {}
        self._ready: list[tuple[int, int, Entry]] = []
        self._cohorts: dict[Hashable, WaitingGroup] = {}
        self._by_cause: dict[WakeEvent, dict[WaitingGroup, None]] = {}
        self._arrivals = itertools.count()
        self._arrival = asyncio.Event()
        self._woken: set[WakeEvent] = set()
        """What happened since the last pod was handed out."""
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def lengths(self) -> Mapping[str, int]:
        """How many pods are in which state."""
        found = dict.fromkeys((READY, BACKING_OFF, WAITING, WORKED_ON), 0)
        for entry in self._entries.values():
            found[entry.where] += 1
        return found

    def refused(self) -> Iterator[Entry]:
        """The pods for which there was no place when they were tried last."""
        for entry in self._entries.values():
            if entry.where in (WAITING, BACKING_OFF):
                yield entry

    def add(self, key: ObjectKey, priority: int) -> None:
        """A pod that wants a node; one that is known is tried again."""
        entry = self._entries.get(key)
        if entry is None:
            entry = Entry(key, priority, next(self._arrivals), self._clock())
            self._entries[key] = entry
            self._make_ready(entry)
        elif entry.where == WAITING:
            entry.priority = priority
            self._leave(entry)
            self._make_ready(entry)

    def remove(self, key: ObjectKey) -> Entry | None:
        """The pod is gone or has a node."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._cancel(entry)
            was_scout = self._is_scout(entry)
            if entry.where == WAITING:
                self._leave(entry)
            elif was_scout:
                self._next_scout(entry)
        return entry

    def finish(self, entry: Entry) -> None:
        """Forget a pod; another one of the same name may have come meanwhile, and stays."""
        if self._entries.get(entry.key) is entry:
            self.remove(entry.key)

    async def pop(self) -> Entry:
        """The most important pod that is ready. Say `park`, `retry`, `done` or `finish` after."""
        while True:
            while self._ready:
                _, _, entry = heapq.heappop(self._ready)
                if entry.where == READY and self._entries.get(entry.key) is entry:
                    entry.where = WORKED_ON
                    self._woken.clear()
                    return entry
            self._arrival.clear()
            await self._arrival.wait()

    def take(self, key: ObjectKey) -> Entry | None:
        """A pod that is to be worked on together with the one that was popped."""
        entry = self._entries.get(key)
        if entry is None or entry.where == WORKED_ON:
            return None
        self._cancel(entry)
        if entry.where == WAITING:
            self._leave(entry)
        elif self._is_scout(entry):
            self._next_scout(entry)
        entry.where = WORKED_ON
        return entry

    def park(
        self,
        entry: Entry,
        question: Hashable,
        causes: Iterable[WakeEvent],
        cost_seconds: float = 0.0,
    ) -> None:
        """No place for the pod: it waits until one of the causes changes."""
        if self._entries.get(entry.key) is not entry:
            return
        cohort = self._cohorts.get(question)
        if cohort is None:
            cohort = self._cohorts[question] = WaitingGroup(question)
        if self._is_scout(entry) and entry.cohort is not cohort:
            self._next_scout(entry)
        self._expect(cohort, frozenset(causes))
        if cohort.probe is entry or not cohort.entries:
            self._back_off(cohort, cost_seconds)
        missed = not self._woken.isdisjoint(cohort.causes)
        if cohort.probe is entry:
            cohort.probe = None
            missed = missed or cohort.is_woken
        entry.where, entry.cohort = WAITING, cohort
        cohort.entries[entry.key] = entry
        if missed:
            self._wake(cohort)

    def retry(self, entry: Entry) -> None:
        """Something went wrong that may be better in a moment."""
        if self._entries.get(entry.key) is not entry:
            return
        if self._is_scout(entry):
            self._next_scout(entry)
        seconds = min(FIRST_ERROR_SECONDS * 2**entry.errors, MAX_ERROR_SECONDS)
        entry.errors += 1
        entry.where = BACKING_OFF
        self._later(entry.key, seconds, lambda: self._make_ready(entry))

    def done(self, entry: Entry) -> None:
        """The pod has found a place; what is left to do is to write it down."""
        if self._is_scout(entry):
            if entry.cohort is not None:
                entry.cohort.refusals = 0
            self._next_scout(entry)

    def wake(self, cause: WakeEvent) -> None:
        """Something changed."""
        self._woken.add(cause)
        for cohort in list(self._by_cause.get(cause, ())):
            self._wake(cohort)

    def close(self) -> None:
        """Drop what is delayed, so that no timer outlives the owner."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _make_ready(self, entry: Entry) -> None:
        if entry.where != READY:
            self._cancel(entry)
            entry.where = READY
            heapq.heappush(self._ready, (*entry.rank(), entry))
            self._arrival.set()

    def _expect(self, cohort: WaitingGroup, causes: frozenset[WakeEvent]) -> None:
        for cause in cohort.causes - causes:
            self._forget_cause(cohort, cause)
        for cause in causes:
            self._by_cause.setdefault(cause, {})[cohort] = None
        cohort.causes = causes

    def _back_off(self, cohort: WaitingGroup, cost_seconds: float) -> None:
        refusal = min(FIRST_REFUSAL_SECONDS * 2 ** min(cohort.refusals, 16), MAX_REFUSAL_SECONDS)
        cost = min(cost_seconds * COST_FACTOR, MAX_COST_SECONDS)
        cohort.refusals += 1
        cohort.not_before = max(cohort.not_before, self._clock() + max(refusal, cost))

    def _wake(self, cohort: WaitingGroup) -> None:
        if cohort.probe is not None:
            cohort.is_woken = True
            return
        seconds = cohort.not_before - self._clock()
        if seconds > 0:
            cohort.is_woken = True
            self._later(cohort, seconds, lambda: self._release(cohort))
        else:
            self._release(cohort)

    def _release(self, cohort: WaitingGroup) -> None:
        """Let the most important pod of the cohort try."""
        if cohort.probe is not None:
            return
        cohort.is_woken = False
        if not cohort.entries:
            self._forget(cohort)
            return
        probe = min(cohort.entries.values(), key=Entry.rank)
        del cohort.entries[probe.key]
        cohort.probe = probe
        self._make_ready(probe)

    def _is_scout(self, entry: Entry) -> bool:
        return entry.cohort is not None and entry.cohort.probe is entry

    def _next_scout(self, entry: Entry) -> None:
        cohort, entry.cohort = entry.cohort, None
        assert cohort is not None
        cohort.probe = None
        self._release(cohort)

    def _leave(self, entry: Entry) -> None:
        cohort, entry.cohort = entry.cohort, None
        if cohort is not None:
            cohort.entries.pop(entry.key, None)
            if not cohort.entries and cohort.probe is None:
                self._forget(cohort)

    def _forget(self, cohort: WaitingGroup) -> None:
        for cause in cohort.causes:
            self._forget_cause(cohort, cause)
        cohort.causes = frozenset()
        if self._cohorts.get(cohort.question) is cohort:
            del self._cohorts[cohort.question]
        timer = self._timers.pop(cohort, None)
        if timer is not None:
            timer.cancel()

    def _forget_cause(self, cohort: WaitingGroup, cause: WakeEvent) -> None:
        waiting = self._by_cause.get(cause, {})
        waiting.pop(cohort, None)
        if not waiting:
            self._by_cause.pop(cause, None)

    def _later(self, key: Hashable, seconds: float, call: Callable[[], None]) -> None:
        if key in self._timers:
            return

        def expire() -> None:
            self._timers.pop(key, None)
            call()

        self._timers[key] = asyncio.get_running_loop().call_later(seconds, expire)

    def _cancel(self, entry: Entry) -> None:
        timer = self._timers.pop(entry.key, None)
        if timer is not None:
            timer.cancel()
