"""Preemptions under way: the victims of each plan are evicted, and its nomination ends some day.

Nothing of this is stored but `status.nominatedNodeName` and the deletions of victims. A restarted
scheduler restores nominations from these (`Preemption.refusal`). It does not know any more which
devices were kept, victims on other nodes, and how long a nomination has lasted.
"""

from __future__ import annotations

import asyncio
import datetime
import functools
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from dray.api import errors
from dray.api.ids import ObjectKey
from dray.api.types.pods import Pod
from dray.scheduler.claims.claim_writes import WriteOutcomeUnknown
from dray.scheduler.cluster_state import SchedulerState
from dray.scheduler.eviction import Evictor
from dray.scheduler.metrics import PreemptionMetrics
from dray.scheduler.step_runner import StepRunner
from dray.scheduling import wake_events
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decider
from dray.scheduling.preemption import leaving
from dray.scheduling.preemption.nominations import Nominations
from dray.scheduling.preemption.preemptor import VICTIMS_LEAVE
from dray.scheduling.unschedulable import Unschedulable

log = logging.getLogger(__name__)

LIMIT_SECONDS = 300.0
"""The time after which a nomination ends, counted from the moment when its last victim is gone."""
CHECK_SECONDS = 1.0
"""The time between two looks at which nominations have to end."""
FIRST_RETRY_SECONDS = 0.1
MAX_RETRY_SECONDS = 30.0
"""The pauses after writes that the API server refuses or does not answer."""

Job = Callable[[], Coroutine[None, None, None]]


@dataclass(slots=True, eq=False)
class _Preemption:
    """One pod that others make room for."""

    pod: Pod
    since: float
    """When a victim was there for the last time."""
    asked: set[str] = field(default_factory=set)
    """The uids of the victims that were deleted, or were gone already."""
    evicted: int = 0
    """The number of pods that were deleted for it."""


class Preemptions:
    """Carries out plans, and ends nominations. Only with the feature gate DrayPreemption."""

    def __init__(
        self,
        nominations: Nominations,
        state: SchedulerState,
        decider: Decider,
        runner: StepRunner,
        evictor: Evictor,
        metrics: PreemptionMetrics,
        now: Callable[[], datetime.datetime],
        create_task: Callable[[Coroutine[None, None, None]], asyncio.Task[None]],
    ) -> None:
        self._nominations, self._state = nominations, state
        self._decider, self._runner = decider, runner
        self._evictor, self._metrics, self._now = evictor, metrics, now
        self._create_task = create_task
        self._under_way: dict[ObjectKey, _Preemption] = {}
        self._jobs: dict[ObjectKey, asyncio.Task[None]] = {}
        """The last task for each pod. The next one waits for it: writes keep their order."""

    async def run(self) -> None:
        """End what takes too long, and what nobody needs any more, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self._state.apply(self._check)

    def is_nominated(self, pod: Pod) -> bool:
        """Return whether something is kept for the pod."""
        return bool(self._nominations.node_of(pod.metadata.key))

    def refused(self, pod: Pod, result: Unschedulable, seconds: float) -> None:
        """Take over a decision that found no node: start its plan, or end what was nominated."""
        key, refusal = pod.metadata.key, result.preemption_refusal
        if result.preemption is None and refusal is None:
            return
        self._metrics.attempted(result, seconds)
        if refusal is not None and refusal.message == VICTIMS_LEAVE:
            # Without an entry, the nomination was restored.
            self._under_way.setdefault(key, _Preemption(pod, _clock()))
            return
        # The cache may not show yet what was written for an earlier plan.
        was_nominated = key in self._under_way or bool(pod.status.nominated_node_name)
        self._end(key, is_in_vain=True)
        if result.preemption is not None:
            self._under_way[key] = _Preemption(pod, _clock())
            job = functools.partial(self._carry_out, self._under_way[key], result.preemption.node)
            self._start(key, job)
        elif refusal is not None and not refusal.message and was_nominated:
            self._start(key, functools.partial(self._clear, pod))

    def settle(self) -> None:
        """Try pods again that lost what was kept for them, and those that it was kept from."""
        dropped = self._decider.take_dropped_nominations()
        for key in dropped:
            pod = self._state.pending_pod(key)
            if pod is not None and not self.is_nominated(pod):
                self._end(key)
                self._start(key, functools.partial(self._clear, pod))
        if dropped:
            self._state.queue.wake(wake_events.DEVICES)
            self._state.queue.wake(wake_events.POD_REMOVED)

    def forget(self, key: ObjectKey) -> None:
        """Forget a pod that has its node, or is gone."""
        self._end(key)

    def keep(self, assignment: NodeAssignment) -> None:
        """Keep what was freed for a pod that cannot be bound now."""
        if assignment.pod.metadata.key in self._under_way:
            self._nominations.add(assignment.pod, assignment.node, assignment.fit)

    def _end(self, key: ObjectKey, *, is_in_vain: bool = False) -> None:
        ended = self._under_way.pop(key, None)
        if ended is not None and is_in_vain:
            self._metrics.in_vain.add(amount=ended.evicted)

    def _check(self) -> None:
        """End the nominations of pods that are gone, and those that have lasted too long."""
        self._nominations.drop_invalid()
        clock = _clock()
        for key, preemption in list(self._under_way.items()):
            pod = self._state.pending_pod(key)
            if pod is None or pod.metadata.uid != preemption.pod.metadata.uid:
                self._end(key)
            elif not self.is_nominated(pod):
                continue
            elif self._has_victims(key):
                preemption.since = clock
            elif clock - preemption.since > LIMIT_SECONDS:
                log.warning("pod %s did not get what was freed for it in time", key)
                self._end(key, is_in_vain=True)
                self._nominations.drop(key)
                self._state.queue.add(key, pod.spec.priority or 0)
        self.settle()

    def _has_victims(self, key: ObjectKey) -> bool:
        victims = self._nominations.leaving_for(key).pods
        return any(leaving.is_there(victim, self._state.scheduling) for victim in victims)

    def _start(self, key: ObjectKey, job: Job) -> None:
        before = self._jobs.get(key)
        task = self._jobs[key] = self._create_task(_after(before, job))

        def forget(_: object) -> None:
            if self._jobs.get(key) is task:
                del self._jobs[key]

        task.add_done_callback(forget)

    async def _clear(self, pod: Pod) -> None:
        """Remove the name of the nominated node, unless there is a new nomination by now."""
        key, uid = pod.metadata.key, pod.metadata.uid

        def is_needed() -> bool:
            current = self._state.pending_pod(key)
            return (
                current is not None
                and current.metadata.uid == uid
                and not self.is_nominated(pod)
                and not self._state.scheduling.is_placed(current)
            )

        await _repeated(is_needed, lambda: self._evictor.clear(pod))

    async def _carry_out(self, preemption: _Preemption, node: str) -> None:
        """Evict the victims of a plan, as long as it holds."""
        key = preemption.pod.metadata.key
        await _repeated(
            lambda: self._under_way.get(key) is preemption,
            lambda: self._evict_all(preemption, node),
        )

    async def _evict_all(self, preemption: _Preemption, node: str) -> None:
        pod = preemption.pod
        is_waiting = await self._evictor.nominate(pod, node)
        while is_waiting and (victim := await self._next_victim(preemption)) is not None:
            # The cache may be behind, and victims do not come back.
            is_waiting = await self._evictor.is_waiting(pod)
            if is_waiting:
                preemption.evicted += await self._evictor.evict(
                    victim, pod, node, functools.partial(self._holds, preemption)
                )
                preemption.asked.add(victim.metadata.uid)

    def _holds(self, preemption: _Preemption) -> bool:
        """Return whether the pod of a plan still waits for what the plan frees."""
        pod = preemption.pod
        return self._under_way.get(pod.metadata.key) is preemption and self.is_nominated(pod)

    async def _next_victim(self, preemption: _Preemption) -> Pod | None:
        """Return the next victim; None if no more has to go, or if the plan does not hold."""
        key = preemption.pod.metadata.key
        async with self._state.exclusively():
            pod = self._state.pending_pod(key)
            if (
                pod is None
                or pod.metadata.uid != preemption.pod.metadata.uid
                or self._under_way.get(key) is not preemption
            ):
                return None
            steps = self._decider.next_victim(pod, self._now(), preemption.asked)
            victim = await self._runner.run(steps)
            if not self.is_nominated(pod) and not self._state.scheduling.is_placed(pod):
                self._end(key, is_in_vain=True)
            self.settle()
            return victim


async def _repeated(is_needed: Callable[[], bool], job: Job) -> None:
    """Write something that the server may refuse, until it succeeds or nobody needs it."""
    pause = FIRST_RETRY_SECONDS
    while is_needed():
        try:
            return await job()
        except (errors.StatusError, WriteOutcomeUnknown) as error:
            log.warning("preemption: %s", error)
        except Exception:
            log.exception("preemption")
        await asyncio.sleep(pause)
        pause = min(pause * 2, MAX_RETRY_SECONDS)


async def _after(before: asyncio.Task[None] | None, job: Job) -> None:
    if before is not None:
        await asyncio.wait([before])
    await job()


def _clock() -> float:
    """Return the time of the event loop."""
    return asyncio.get_running_loop().time()
