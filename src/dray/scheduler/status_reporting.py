"""Reports why a pod is unschedulable: its condition, an event, an annotation on its claims.

Reports are written concurrently with decisions, only the latest of each pod. A reason that ends
before its report is due is not reported. The same message is never written twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import heapq
import logging
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dray.allocator.model import requests
from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.ids import ClaimKey, ObjectKey
from dray.api.semantics.conditions import find_condition
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.client import events, object_writes
from dray.client.api_client import Client
from dray.client.events import Recorder
from dray.scheduler.claims.claim_writes import EXPLANATION, ClaimWrites
from dray.scheduler.cluster_state import SchedulerState
from dray.scheduling import unschedulable
from dray.scheduling.unschedulable import Unschedulable

log = logging.getLogger(__name__)

TRANSIENT_SECONDS = 1.0
"""The time that a transient reason may last before it is reported."""
BURST_SECONDS = 30.0
"""The time that the creation of a claim may take while its template exists."""
RETRY_SECONDS = 0.5
ANNOTATION_SECONDS = 30.0
EXPLANATION_SECONDS = 5.0
"""The time for which an explanation is reused for all claims with the same requests."""
EXPLANATIONS_LIMIT = 256
REST_FACTOR = 4
"""The pause after an explanation, as a multiple of its duration."""
MAX_EXPLANATION_CHARACTERS = 1024
WRITERS = 8

POD_SCHEDULED = "PodScheduled"

Why = Callable[[Sequence[ResourceClaim]], str]
"""Return why claims cannot be allocated. Reads the inventory, which must not change meanwhile."""


class _Report(NamedTuple):
    """A report that is due at a time of the event loop."""

    result: Unschedulable
    due: float
    is_postponed: bool = False


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
        self._explanations = _Explanations(state, why) if why else None
        self._templates: dict[ObjectKey, float] = {}
        """The time at which each template was last found to exist."""
        self._annotations = _Annotations(state, writes)

    def report(self, key: ObjectKey, result: Unschedulable) -> None:
        """Queue the report of an unschedulable pod; `run` writes it."""
        delay = TRANSIENT_SECONDS if result.is_transient else 0.0
        self._queue(key, _Report(result, _now() + delay))

    def forget(self, key: ObjectKey) -> None:
        """Drop the report of a pod that has a node or is tried again."""
        self._reports.pop(key, None)

    async def run(self) -> None:
        """Write reports until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._annotations.run())
            while True:
                due, wait = self._due()
                if due:
                    await self._write_all(due)
                    continue
                self._arrival.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._arrival.wait()

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
        result = report.result
        has_template = await self._has_template(pod, result.template)
        if has_template and not report.is_postponed:
            # Many pods at once wait a while for their claims.
            due = _now() + BURST_SECONDS
            self._queue_unless_newer(key, report._replace(due=due, is_postponed=True))
            return
        reason = await self._reason(pod, result, has_template)
        nodes = len(self._state.scheduling.nodes) if result.nodes is None else result.nodes
        message = unschedulable.message(result, nodes)
        message = f"{message} {reason}" if reason else message
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
        self._recorder.record(
            events.reference(kinds.POD, pod.metadata),
            events.WARNING,
            "FailedScheduling",
            message,
            action="Scheduling",
            replace=True,
        )
        if reason:
            for claim in result.claims:
                self._annotations.set(claim.key, reason)

    async def _reason(self, pod: Pod, result: Unschedulable, has_template: bool | None) -> str:
        """Return what dray adds to kube-scheduler's message."""
        if has_template is not None:
            return _about_template(pod, result.template, has_template)
        if self._explanations is None or not result.claims:
            return ""
        return await self._explanations.of(result.claims)

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


class _Explanations:
    """Computes explanations, one at a time, and caches each for a while.

    Nothing can be scheduled while the inventory is read, so explanations may take only a part of
    the time.
    """

    def __init__(self, state: SchedulerState, why: Why) -> None:
        self._state, self._why = state, why
        self._cache: dict[requests.Signature, tuple[float, str]] = {}
        self._lock = asyncio.Lock()
        self._not_before = 0.0

    async def of(self, claims: Sequence[ResourceClaim]) -> str:
        signature = requests.signature(claims)
        async with self._lock:
            cached = self._cache.get(signature)
            if cached is not None and _now() - cached[0] < EXPLANATION_SECONDS:
                return cached[1]
            await asyncio.sleep(max(self._not_before - _now(), 0.0))
            text = await self._explain(claims)
            if len(self._cache) >= EXPLANATIONS_LIMIT:
                self._cache.clear()
            self._cache[signature] = (_now(), text)
            return text

    async def _explain(self, claims: Sequence[ResourceClaim]) -> str:
        async with self._state.exclusively():
            started = time.perf_counter()
            text = await asyncio.to_thread(self._why, claims)
            cost = time.perf_counter() - started
        self._not_before = _now() + cost * REST_FACTOR
        return text[:MAX_EXPLANATION_CHARACTERS]


class _WrittenText(NamedTuple):
    """The causes that an annotation names, and when it was written."""

    causes: str
    at: float


class _Annotations:
    """Writes explanations to claims, when the causes change and not too often."""

    def __init__(self, state: SchedulerState, writes: ClaimWrites) -> None:
        self._state, self._writes = state, writes
        self._pending: dict[ClaimKey, str] = {}
        self._written: dict[ClaimKey, _WrittenText] = {}
        self._arrival = asyncio.Event()

    def set(self, key: ClaimKey, text: str) -> None:
        written = self._written.get(key)
        if written is None or written.causes != _without_numbers(text):
            self._pending[key] = text
            self._arrival.set()

    async def run(self) -> None:
        while True:
            wait = await self._write_due()
            self._arrival.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._arrival.wait()

    async def _write_due(self) -> float | None:
        clock = _now()
        self._remove_old(clock)
        wait: float | None = None
        for key, text in list(self._pending.items()):
            written = self._written.get(key)
            left = written.at + ANNOTATION_SECONDS - clock if written else 0.0
            if left > 0:
                wait = left if wait is None else min(wait, left)
                continue
            del self._pending[key]
            claim = self._state.claim(key)
            if claim is None or claim.status.allocation is not None:
                continue
            self._written[key] = _WrittenText(_without_numbers(text), clock)
            if claim.metadata.annotations.get(EXPLANATION) != text:
                await self._writes.annotate(claim, text)
        return wait

    def _remove_old(self, clock: float) -> None:
        """Remove the entries of claims that are deleted or allocated."""
        for key, written in list(self._written.items()):
            if written.at + ANNOTATION_SECONDS < clock:
                claim = self._state.claim(key)
                if claim is None or claim.status.allocation is not None:
                    del self._written[key]


def _without_numbers(text: str) -> str:
    """Return the text without counts, so that only other causes make a difference."""
    return re.sub(r"\d+", "#", text)


def _now() -> float:
    """Return the time of the event loop."""
    return asyncio.get_running_loop().time()
