"""Reports why a pod is unschedulable: its condition, an event, an annotation on its claims.

Reports are written concurrently with decisions, only the latest of each pod. A reason that ends
before its report is due is not reported. The same message is never written twice.

Reasons stay true: when the reason of a pod changes, so do those of the pods that wait with it, and
of those that wait behind it in line. Such refreshes are limited: a pod's condition is written at
most every POD_SECONDS, and REFRESHES_PER_SECOND of them in the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import heapq
import logging
import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import msgspec

from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.ids import ClaimKey, ObjectKey
from dray.api.semantics import pod_claims
from dray.api.semantics.conditions import find_condition
from dray.api.types.pods import Pod
from dray.client import events, object_writes
from dray.client.api_client import Client
from dray.client.events import Recorder
from dray.explain.pod import waiting_line
from dray.explain.pod.waiting_line import EXACT_PLACES
from dray.scheduler.claims.claim_writes import EXPLANATION, ClaimWrites
from dray.scheduler.cluster_state import SchedulerState
from dray.scheduler.explanation_cache import MAX_CHARACTERS, ExplanationCache, Why
from dray.scheduling import unschedulable
from dray.scheduling.unschedulable import Unschedulable

log = logging.getLogger(__name__)

TRANSIENT_SECONDS = 1.0
"""The time that a transient reason may last before it is reported."""
BURST_SECONDS = 30.0
"""The time that the creation of a claim may take while its template exists."""
RETRY_SECONDS = 0.5
ANNOTATION_SECONDS = 3.0
"""The least time between two explanations on one claim."""
QUIET_SECONDS = 0.1
"""Conditions of pods come first: explanations on claims wait for so long a pause between them."""
MAX_DELAY_SECONDS = 2.0
"""The time after which explanations on claims are written without such a pause."""
WRITERS = 8
POD_SECONDS = 1.0
"""The least time between two conditions of one pod."""
REFRESHES_PER_SECOND = 100
"""The most conditions that are written for pods that were not tried themselves."""
LINE_SECONDS = 0.5
"""The time for which changes of a line are collected."""

POD_SCHEDULED = "PodScheduled"


class _Report(NamedTuple):
    """A report that is due at a time of the event loop."""

    result: Unschedulable
    due: float
    is_postponed: bool = False
    is_refresh: bool = False
    """Whether another pod was tried, and this one only waits with it."""


class _Reason(NamedTuple):
    """An explanation, and the same without the names of the pod's claims."""

    text: str = ""
    unnamed: str = ""
    claims: Sequence[ClaimKey] = ()
    """The pod's claims without devices."""


class Reporter:
    """Writes the reports."""

    def __init__(
        self,
        client: Client,
        state: SchedulerState,
        recorder: Recorder,
        writes: ClaimWrites,
        now: Callable[[], datetime.datetime],
        why: Why | None = None,
    ) -> None:
        self._client, self._state, self._recorder = client, state, recorder
        self._now = now
        self._reports: dict[ObjectKey, _Report] = {}
        self._schedule: list[tuple[float, ObjectKey]] = []
        """A heap of due times and pods; entries of replaced reports stay until they are due."""
        self._arrival = asyncio.Event()
        self._explanations = ExplanationCache(state, why) if why else None
        self._written: dict[ObjectKey, float] = {}
        """When the condition of each pod was last written, as far as that still limits it."""
        self._next_refresh = 0.0
        self._templates: dict[ObjectKey, float] = {}
        """The time at which each template was last found to exist."""
        self._annotations = _Annotations(state, writes)

    def report(self, key: ObjectKey, result: Unschedulable) -> None:
        """Queue the report of an unschedulable pod; `run` writes it."""
        delay = TRANSIENT_SECONDS if result.is_transient else 0.0
        due = max(_now() + delay, self._not_before(key))
        self._queue(key, _Report(result, due))

    def forget(self, key: ObjectKey) -> None:
        """Drop the report of a pod that has a node or is tried again."""
        self._reports.pop(key, None)

    async def run(self) -> None:
        """Write reports until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._annotations.run())
            group.create_task(self._follow_lines())
            while True:
                due, wait = self._due()
                if due:
                    await self._write_all(due)
                    continue
                self._arrival.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._arrival.wait()

    async def _follow_lines(self) -> None:
        """Report again on pods whose place in line may have changed."""
        lines = self._state.queue.lines
        while True:
            await lines.changed.wait()
            await asyncio.sleep(LINE_SECONDS)
            for key in lines.take_changed(EXACT_PLACES + 1):
                group = self._state.queue.group_of(key)
                if group is not None and group.result is not None:
                    self._refresh(key, group.result)

    def _refresh(self, key: ObjectKey, result: Unschedulable) -> None:
        """Queue the report of a pod that was not tried itself, behind all others."""
        queued = self._reports.get(key)
        if queued is not None and queued.is_refresh:
            self._reports[key] = queued._replace(result=result)
        elif queued is None:
            self._next_refresh = max(self._next_refresh, _now()) + 1 / REFRESHES_PER_SECOND
            due = max(self._next_refresh, self._not_before(key))
            self._queue(key, _Report(result, due, is_refresh=True))

    def _not_before(self, key: ObjectKey) -> float:
        return self._written[key] + POD_SECONDS if key in self._written else 0.0

    def _spread(self, key: ObjectKey, message: Hashable) -> None:
        """Refresh the pods that wait together with a pod, if they were told something else."""
        group = self._state.queue.group_of(key)
        if group is None or group.result is None or group.message == message:
            return
        group.message = message
        for other in group.entries:
            if other != key:
                self._refresh(other, self._renamed(group.result, key, other))

    def _renamed(self, result: Unschedulable, tried: ObjectKey, other: ObjectKey) -> Unschedulable:
        """Return the result for another pod of the group: an error names claims."""
        pods = [self._state.pod(key) for key in (tried, other)] if result.error else []
        claims = [[str(key) for key in pod_claims.used_claims(pod)] for pod in pods if pod]
        if len(claims) < 2 or len(claims[0]) != len(claims[1]):
            return result
        names = dict(zip(*claims, strict=True))
        pattern = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
        error = re.sub(rf"({pattern})(?![-.\w])", lambda found: names[found[1]], result.error)
        return msgspec.structs.replace(result, error=error)

    def _latest(self, key: ObjectKey, result: Unschedulable) -> Unschedulable:
        """Return the last result of the pods that wait together; another one may have been tried.

        Preemption depends on more than what these pods have in common, and an error names the
        claims of the pod that was tried.
        """
        group = self._state.queue.group_of(key)
        if group is None or group.result is None:
            return result
        is_own = group.result.preemption is not None or group.result.error
        return result if is_own else group.result

    def _queue(self, key: ObjectKey, report: _Report) -> None:
        self._reports[key] = report
        heapq.heappush(self._schedule, (report.due, key))
        if self._schedule[0][1] == key:
            self._arrival.set()

    def _queue_unless_newer(self, key: ObjectKey, report: _Report) -> None:
        if key not in self._reports:
            self._queue(key, report)

    def _due(self) -> tuple[list[tuple[ObjectKey, _Report]], float | None]:
        """Return some of the reports that are due, and how long until more are."""
        clock = _now()
        due: list[tuple[ObjectKey, _Report]] = []
        while self._schedule and len(due) < WRITERS:
            at, key = self._schedule[0]
            report = self._reports.get(key)
            is_current = report is not None and report.due == at
            if is_current and at > clock:
                return due, at - clock
            heapq.heappop(self._schedule)
            if is_current:
                due.append((key, self._reports.pop(key)))
        return due, None

    async def _write_all(self, reports: Sequence[tuple[ObjectKey, _Report]]) -> None:
        async with asyncio.TaskGroup() as group:
            for key, report in reports:
                group.create_task(self._write(key, report))

    async def _write(self, key: ObjectKey, report: _Report) -> None:
        pod = self._state.pending_pod(key)
        if pod is None:
            return
        result = self._latest(key, report.result)
        has_template = await self._has_template(pod, result.template)
        if has_template and not report.is_postponed:
            # Many pods at once wait a while for their claims.
            due = _now() + BURST_SECONDS
            self._queue_unless_newer(key, report._replace(due=due, is_postponed=True))
            return
        reason = await self._reason(pod, result, has_template)
        if isinstance(reason, float):
            self._queue_unless_newer(key, report._replace(due=reason))
            return
        nodes = len(self._state.scheduling.nodes) if result.nodes is None else result.nodes
        message = unschedulable.message(result, nodes)
        if not report.is_refresh:
            self._spread(key, (message, reason.unnamed))
        message = " ".join(filter(None, (message, self._place(key), reason.text)))
        try:
            if not await self._write_condition(pod, result.condition_reason, message):
                return
        except errors.NotFound:
            return
        except errors.StatusError as error:
            # The pod has changed meanwhile, or the server is unavailable: try again later.
            log.info("condition of pod %s: %s", key, error)
            again = report._replace(due=_now() + RETRY_SECONDS)
            self._queue_unless_newer(key, again)
            return
        self._note_written(key)
        self._recorder.record(
            events.reference(kinds.POD, pod.metadata),
            events.WARNING,
            "FailedScheduling",
            message,
            action="Scheduling",
            replace=True,
        )
        for claim in reason.claims:
            self._annotations.set(claim, reason.text)

    def _note_written(self, key: ObjectKey) -> None:
        now = _now()
        self._written.pop(key, None)
        self._written[key] = now
        while self._written and next(iter(self._written.values())) + POD_SECONDS < now:
            del self._written[next(iter(self._written))]

    def _place(self, key: ObjectKey) -> str:
        ahead = self._state.queue.lines.ahead_of(key, EXACT_PLACES)
        return waiting_line.place_in_line([str(other) for other in ahead])

    async def _reason(
        self, pod: Pod, result: Unschedulable, has_template: bool | None
    ) -> _Reason | float:
        """Return what dray adds to kube-scheduler's message, or the time at which it is known."""
        if has_template is not None:
            return _Reason(_about_template(pod, result.template, has_template))
        if self._explanations is None or not result.claims:
            return _Reason()
        found = (self._state.claim(key) for key in pod_claims.used_claims(pod))
        claims = [claim for claim in found if claim is not None]
        wording = await self._explanations.of(pod, claims)
        if isinstance(wording, float):
            return wording
        names = tuple(claim.key for claim in claims)
        unnamed = tuple(ClaimKey("", str(number)) for number in range(len(names)))
        text, without_names = (wording(keys)[:MAX_CHARACTERS] for keys in (names, unnamed))
        waiting = [claim.key for claim in claims if claim.status.allocation is None]
        return _Reason(text, without_names, waiting if text else ())

    async def _has_template(self, pod: Pod, name: str) -> bool | None:
        """Return whether the template of a missing claim exists; None if no claim is missing."""
        if not name:
            return None
        key = ObjectKey(pod.metadata.namespace, name)
        if _now() - self._templates.get(key, -TRANSIENT_SECONDS) < TRANSIENT_SECONDS:
            return True
        try:
            await self._client.get(kinds.RESOURCE_CLAIM_TEMPLATE, key.name, key.namespace)
        except errors.NotFound:
            return False
        except errors.StatusError:
            return None
        if len(self._templates) > WRITERS * WRITERS:
            self._templates.clear()
        self._templates[key] = _now()
        return True

    async def _write_condition(self, pod: Pod, reason: str, message: str) -> bool:
        """Set PodScheduled to False. Returns False if the pod has that condition already."""
        before = find_condition(pod.status.conditions, POD_SCHEDULED)
        if before is not None and before.status != "False":
            before = None
        if before is not None and (before.reason, before.message) == (reason, message):
            return False
        condition: dict[str, Any] = {
            "type": POD_SCHEDULED,
            "status": "False",
            "reason": reason,
            "message": message,
            "observedGeneration": pod.metadata.generation,
            "lastProbeTime": None,
        }
        if before is None:
            condition["lastTransitionTime"] = gotime.write(self._now())
        status = {"conditions": [condition]}
        # The version: a pod that was bound meanwhile must not get this condition.
        await object_writes.patch_status(
            self._client, kinds.POD, pod.metadata, status, at_version=True, merges_lists=True
        )
        return True


def _about_template(pod: Pod, name: str, exists: bool) -> str:
    if exists:
        return f'The ResourceClaimTemplate "{name}" exists; no claim has been made from it yet.'
    return f'There is no ResourceClaimTemplate "{name}" in namespace "{pod.metadata.namespace}".'


class _Explanation(NamedTuple):
    """The text of an annotation, and when it was asked for."""

    text: str
    at: float

    @property
    def causes(self) -> str:
        """Return the text without counts, so that only other causes make a difference."""
        return re.sub(r"\d+", "#", self.text)


class _Annotations:
    """Writes explanations to claims, when the causes change and not too often."""

    def __init__(self, state: SchedulerState, writes: ClaimWrites) -> None:
        self._state, self._writes = state, writes
        self._pending: dict[ClaimKey, _Explanation] = {}
        self._written: dict[ClaimKey, _Explanation] = {}
        self._arrival = asyncio.Event()
        self._last_arrival = 0.0

    def set(self, key: ClaimKey, text: str) -> None:
        self._last_arrival = _now()
        new, written = _Explanation(text, self._last_arrival), self._written.get(key)
        if written is None or written.causes != new.causes:
            self._pending[key] = new
            self._arrival.set()
        else:
            self._pending.pop(key, None)

    async def run(self) -> None:
        while True:
            await self._pause_of_conditions()
            wait = await self._write_due()
            self._arrival.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._arrival.wait()

    async def _pause_of_conditions(self) -> None:
        """Return when no condition has been written for a moment, at the latest after a while."""
        latest = _now() + MAX_DELAY_SECONDS
        while (quiet_at := min(self._last_arrival + QUIET_SECONDS, latest)) > _now():
            await asyncio.sleep(quiet_at - _now())

    async def _write_due(self) -> float | None:
        clock = _now()
        self._remove_old(clock)
        wait: float | None = None
        for key, new in list(self._pending.items()):
            written = self._written.get(key)
            left = written.at + ANNOTATION_SECONDS - clock if written else 0.0
            if left > 0:
                wait = left if wait is None else min(wait, left)
                continue
            del self._pending[key]
            claim = self._state.claim(key)
            if claim is None or claim.status.allocation is not None:
                continue
            self._written[key] = new
            if claim.metadata.annotations.get(EXPLANATION) != new.text:
                await self._writes.annotate(claim, new.text)
        return wait

    def _remove_old(self, clock: float) -> None:
        """Remove the entries of claims that are deleted or allocated."""
        for key, written in list(self._written.items()):
            if written.at + ANNOTATION_SECONDS < clock:
                claim = self._state.claim(key)
                if claim is None or claim.status.allocation is not None:
                    del self._written[key]


def _now() -> float:
    """Return the time of the event loop."""
    return asyncio.get_running_loop().time()
