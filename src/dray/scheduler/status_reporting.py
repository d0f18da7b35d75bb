"""Says why a pod waits: its condition, one event that is updated, an annotation on its claims.

Reports are written beside the decisions, the latest for each pod; what is over before its report is
due is never told. The same words are never written twice.
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
from dray.api import errors, http_messages, kinds
from dray.api.formats import gotime
from dray.api.ids import ClaimKey, ObjectKey
from dray.api.semantics import pod_claims
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod, PodCondition
from dray.client import events
from dray.client.api_client import Client
from dray.client.events import Recorder
from dray.scheduler import unschedulable
from dray.scheduler.claims.claim_writes import EXPLANATION, ClaimWrites
from dray.scheduler.cluster_state import SchedulerState
from dray.scheduler.unschedulable import Unschedulable

log = logging.getLogger(__name__)

PASSING_SECONDS = 1.0
"""How long something that is likely to pass may last before it is told."""
BURST_SECONDS = 30.0
"""How long a claim may take to be made while there is a template for it."""
RETRY_SECONDS = 0.5
ANNOTATION_SECONDS = 30.0
EXPLANATION_SECONDS = 5.0
"""How long an explanation serves for all claims that ask the same."""
EXPLANATIONS_LIMIT = 256
REST_FACTOR = 4
"""How much longer than an explanation the rest after it is."""
MAX_EXPLANATION_CHARACTERS = 1024
WRITERS = 8

POD_SCHEDULED = "PodScheduled"

Why = Callable[[Sequence[ResourceClaim]], str]
"""Explains why claims cannot be allocated; looks at the fleet, so nobody may change it then."""


class _Report(NamedTuple):
    refusal: Unschedulable
    preemption: str
    due: float
    is_postponed: bool = False


class Reporter:
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
        self._agenda: list[tuple[float, ObjectKey]] = []
        """When to look at which pod: a heap, with entries of reports that are over."""
        self._arrival = asyncio.Event()
        self._explanations = _Explanations(state, why) if why else None
        self._templates: dict[ObjectKey, float] = {}
        """When templates were last seen to exist."""
        self._annotations = _Annotations(state, writes)

    def refuse(self, key: ObjectKey, refusal: Unschedulable, preemption: str = "") -> None:
        """Note that a pod has no node; `run` tells it."""
        delay = PASSING_SECONDS if refusal.is_passing else 0.0
        self._note(key, _Report(refusal, preemption, _now() + delay))

    def forget(self, key: ObjectKey) -> None:
        """The pod has a node, or is being tried again."""
        self._reports.pop(key, None)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._annotations.run())
            while True:
                due, wait = self._due()
                if due:
                    await self._tell_all(due)
                    continue
                self._arrival.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._arrival.wait()

    def _note(self, key: ObjectKey, report: _Report) -> None:
        self._reports[key] = report
        heapq.heappush(self._agenda, (report.due, key))
        if self._agenda[0][1] == key:
            self._arrival.set()

    def _note_unless_newer(self, key: ObjectKey, report: _Report) -> None:
        if key not in self._reports:
            self._note(key, report)

    def _due(self) -> tuple[list[tuple[ObjectKey, _Report]], float | None]:
        """Some of what is to be told now, and how long until more is."""
        clock = _now()
        due: list[tuple[ObjectKey, _Report]] = []
        while self._agenda and len(due) < WRITERS:
            at, key = self._agenda[0]
            report = self._reports.get(key)
            is_current = report is not None and report.due == at
            if is_current and at > clock:
                return due, at - clock
            heapq.heappop(self._agenda)
            if is_current:
                due.append((key, self._reports.pop(key)))
        return due, None

    async def _tell_all(self, reports: Sequence[tuple[ObjectKey, _Report]]) -> None:
        async with asyncio.TaskGroup() as group:
            for key, report in reports:
                group.create_task(self._tell(key, report))

    async def _tell(self, key: ObjectKey, report: _Report) -> None:
        pod = self._state.pod(key)
        if pod is None or not self._state.is_ours(pod):
            return
        refusal = report.refusal
        has_template = await self._has_template(pod, refusal.template)
        if has_template and not report.is_postponed:
            # Pods that come in great numbers wait a while for their claims.
            due = _now() + BURST_SECONDS
            self._note_unless_newer(key, report._replace(due=due, is_postponed=True))
            return
        reason = await self._reason(pod, refusal, has_template)
        nodes = len(self._state.nodes) if refusal.nodes is None else refusal.nodes
        message = unschedulable.sentence(refusal, nodes, report.preemption)
        message = f"{message} {reason}" if reason else message
        try:
            if not await self._write_condition(pod, refusal.condition_reason, message):
                return
        except errors.NotFound:
            return
        except errors.StatusError as error:
            # The pod has changed meanwhile, or the server is away; who still waits is told later.
            log.info("condition of pod %s: %s", key, error)
            again = report._replace(due=_now() + RETRY_SECONDS)
            self._note_unless_newer(key, again)
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
            for claim in refusal.claims:
                self._annotations.set(pod_claims.key_of(claim), reason)

    async def _reason(self, pod: Pod, refusal: Unschedulable, has_template: bool | None) -> str:
        """What dray adds to upstream's sentence."""
        if has_template is not None:
            return _about_template(pod, refusal.template, has_template)
        if self._explanations is None or not refusal.claims:
            return ""
        return await self._explanations.of(refusal.claims)

    async def _has_template(self, pod: Pod, name: str) -> bool | None:
        """Whether the template is there for which a pod has no claim; None if that is not why."""
        if not name:
            return None
        key = ObjectKey(pod.metadata.namespace, name)
        if _now() - self._templates.get(key, -PASSING_SECONDS) < PASSING_SECONDS:
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
        """Set PodScheduled to False; whether that says anything new."""
        known = _condition(pod)
        if known is not None and (known.status, known.reason, known.message) == (
            "False",
            reason,
            message,
        ):
            return False
        condition: dict[str, Any] = {
            "type": POD_SCHEDULED,
            "status": "False",
            "reason": reason,
            "message": message,
            "observedGeneration": pod.metadata.generation,
            "lastProbeTime": None,
        }
        if known is None or known.status != "False":
            condition["lastTransitionTime"] = gotime.write(self._now())
        # A pod that was bound meanwhile must not be told that it has no node.
        version = pod.metadata.resource_version
        await self._client.patch(
            kinds.POD,
            pod.metadata.name,
            {"metadata": {"resourceVersion": version}, "status": {"conditions": [condition]}},
            pod.metadata.namespace,
            subresource="status",
            patch_type=http_messages.STRATEGIC_MERGE_PATCH,
        )
        return True


def _about_template(pod: Pod, name: str, exists: bool) -> str:
    if exists:
        return f'The ResourceClaimTemplate "{name}" exists; no claim has been made from it yet.'
    return f'There is no ResourceClaimTemplate "{name}" in namespace "{pod.metadata.namespace}".'


def _condition(pod: Pod) -> PodCondition | None:
    return next(
        (condition for condition in pod.status.conditions if condition.type == POD_SCHEDULED), None
    )


class _Explanations:
    """Asks for explanations, one at a time, and remembers each for a while.

    Nothing can be scheduled while the fleet is being looked at, so explaining may take only a part
    of the time.
    """

    def __init__(self, state: SchedulerState, why: Why) -> None:
        self._state, self._why = state, why
        self._known: dict[requests.Signature, tuple[float, str]] = {}
        self._turn = asyncio.Lock()
        self._not_before = 0.0

    async def of(self, claims: Sequence[ResourceClaim]) -> str:
        signature = requests.signature(claims)
        async with self._turn:
            known = self._known.get(signature)
            if known is not None and _now() - known[0] < EXPLANATION_SECONDS:
                return known[1]
            await asyncio.sleep(max(self._not_before - _now(), 0.0))
            text = await self._ask(claims)
            if len(self._known) >= EXPLANATIONS_LIMIT:
                self._known.clear()
            self._known[signature] = (_now(), text)
            return text

    async def _ask(self, claims: Sequence[ResourceClaim]) -> str:
        async with self._state.exclusively():
            started = time.perf_counter()
            text = await asyncio.to_thread(self._why, claims)
            cost = time.perf_counter() - started
        self._not_before = _now() + cost * REST_FACTOR
        return text[:MAX_EXPLANATION_CHARACTERS]


class _Noted(NamedTuple):
    causes: str
    at: float


class _Annotations:
    """The explanation on claims: written when the causes change, and not too often."""

    def __init__(self, state: SchedulerState, writes: ClaimWrites) -> None:
        self._state, self._writes = state, writes
        self._wanted: dict[ClaimKey, str] = {}
        self._noted: dict[ClaimKey, _Noted] = {}
        self._arrival = asyncio.Event()

    def set(self, key: ClaimKey, text: str) -> None:
        noted = self._noted.get(key)
        if noted is None or noted.causes != _without_numbers(text):
            self._wanted[key] = text
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
        self._forget_old(clock)
        wait: float | None = None
        for key, text in list(self._wanted.items()):
            noted = self._noted.get(key)
            left = noted.at + ANNOTATION_SECONDS - clock if noted else 0.0
            if left > 0:
                wait = left if wait is None else min(wait, left)
                continue
            del self._wanted[key]
            claim = self._state.claim(key)
            if claim is None or claim.status.allocation is not None:
                continue
            self._noted[key] = _Noted(_without_numbers(text), clock)
            if claim.metadata.annotations.get(EXPLANATION) != text:
                await self._writes.annotate(claim, text)
        return wait

    def _forget_old(self, clock: float) -> None:
        """Claims that are gone or allocated need no memory."""
        for key, noted in list(self._noted.items()):
            if noted.at + ANNOTATION_SECONDS < clock:
                claim = self._state.claim(key)
                if claim is None or claim.status.allocation is not None:
                    del self._noted[key]


def _without_numbers(text: str) -> str:
    """Which causes a text names, however many devices each of them stops."""
    return re.sub(r"\d+", "#", text)


def _now() -> float:
    """The clock by which the event loop sleeps."""
    return asyncio.get_running_loop().time()
