"""Preemptions under way: the victims of each plan are evicted, and its nomination ends some day.

Nothing of this is stored but `status.nominatedNodeName` and the deletions of victims. A restarted
scheduler restores nominations from these (`PodPreemptionPlanner.refusal`). It does not know any
more which devices were kept, victims on other nodes, and how long a nomination has lasted.
"""

from __future__ import annotations

import asyncio
import datetime
import functools
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field

from dray.api import errors
from dray.api.ids import ObjectKey
from dray.api.types.pods import Pod
from dray.scheduler.claims.claim_writes import WriteOutcomeUnknown
from dray.scheduler.cluster_state import SchedulerState
from dray.scheduler.eviction import Evictor
from dray.scheduler.metrics import PreemptionMetrics
from dray.scheduler.step_runner import Countdown, StepRunner
from dray.scheduling import pod_index, wake_events
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decider
from dray.scheduling.preemption import leaving
from dray.scheduling.preemption.nominations import Nomination, Nominations
from dray.scheduling.preemption.pod_preemption import VICTIMS_LEAVE
from dray.scheduling.preemption.preemptor import GangKey, Preemptor, PreemptorKey
from dray.scheduling.preemption.rechecks import SearchUnfinished
from dray.scheduling.unschedulable import Unschedulable

log = logging.getLogger(__name__)

LIMIT_SECONDS = 300.0
"""The time after which a nomination ends, counted from the moment when its last victim is gone, and
after which a search that does not end in time is not repeated."""
SEARCH_SECONDS = 5.0
"""The time for which nodes are searched for a gang before each eviction."""
CHECK_SECONDS = 1.0
"""The time between two looks at which nominations have to end."""
FIRST_RETRY_SECONDS = 0.1
MAX_RETRY_SECONDS = 30.0
"""The pauses after writes that the API server refuses or does not answer."""

Job = Callable[[], Coroutine[None, None, None]]


@dataclass(slots=True, eq=False)
class _Preemption:
    """One pod, or one gang, that others make room for."""

    preemptor: Preemptor
    begun: float
    since: float = field(init=False)
    """When a victim was there for the last time."""
    asked: set[str] = field(default_factory=set)
    """The uids of the victims that were deleted, or were gone already."""
    evicted: int = 0
    """The number of pods that were deleted for it."""
    nodes: Mapping[ObjectKey, str] = field(default_factory=dict)
    """The planned node of each pod."""
    is_evicting: bool = False
    """A victim is being evicted: its deletion may be on the way."""

    def __post_init__(self) -> None:
        self.since = self.begun


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
        self._under_way: dict[PreemptorKey, _Preemption] = {}
        self._given_up: dict[PreemptorKey, _Preemption] = {}
        """Plans that did not hold, until it is known whether the next ones use their victims."""
        self._jobs: dict[PreemptorKey, asyncio.Task[None]] = {}
        """The last task for each. The next one waits for it: writes keep their order."""

    async def run(self) -> None:
        """End what takes too long, and what nobody needs any more, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self._state.apply(self._check)

    def is_nominated(self, key: PreemptorKey) -> bool:
        """Return whether something is kept for a pod or a gang."""
        return self._nominations.of(key) is not None

    def is_evicting(self, key: PreemptorKey) -> bool:
        """Return whether a victim is being evicted: in vain, if the pod got another node now.

        kube-scheduler does not try the pod either (IsPodRunningPreemption).
        """
        preemption = self._under_way.get(key)
        return preemption is not None and preemption.is_evicting

    def refused(self, preemptor: Preemptor, result: Unschedulable, seconds: float) -> None:
        """Take over a decision that found no node: start its plan, or end what was nominated."""
        key, plan, refusal = preemptor.key, result.preemption, result.preemption_refusal
        if plan is None and refusal is None:
            return
        self._metrics.attempted(result, seconds)
        if refusal is not None and refusal.message == VICTIMS_LEAVE:
            # Without an entry, the nomination was restored.
            self._under_way.setdefault(key, _Preemption(preemptor, _clock()))
            return
        # The cache may not show yet what was written for an earlier plan.
        before = self._under_way.pop(key, None) or self._given_up.pop(key, None)
        names = (pod.status.nominated_node_name for pod in preemptor.pods)
        was_nominated = before is not None or any(names)
        uids = {victim.metadata.uid for victim in plan.victims} if plan is not None else set()
        # What an earlier plan has freed is not in vain where this one counts on it.
        kept = before.evicted if before is not None and before.asked <= uids else 0
        if before is not None:
            self._metrics.in_vain.add(amount=before.evicted - kept)
        if plan is not None:
            nodes = plan.nodes or {pod.metadata.key: plan.node for pod in preemptor.pods}
            started = _Preemption(preemptor, _clock(), evicted=kept, nodes=nodes)
            self._under_way[key] = started
            self._start(key, functools.partial(self._carry_out, started))
        elif was_nominated and refusal is not None and not refusal.message:
            self._start(key, functools.partial(self._clear, preemptor))

    def settle(self) -> None:
        """Try pods again that lost what was kept for them, and those that it was kept from."""
        dropped = self._decider.take_dropped_nominations()
        for key in dropped:
            before = self._under_way.get(key)
            if before is not None and not self.is_nominated(key):
                self._end(key)
                self._start(key, functools.partial(self._clear, before.preemptor))
        if dropped:
            self._state.queue.wake(wake_events.DEVICES)
            self._state.queue.wake(wake_events.POD_REMOVED)

    def forget(self, pod: Pod) -> None:
        """Forget a pod that has its node, or is gone. Gangs are forgotten when none of it waits."""
        self._end(pod.metadata.key)
        self._given_up.pop(pod.metadata.key, None)

    def keep(self, assignment: NodeAssignment) -> None:
        """Keep what was freed for a pod that cannot be bound now."""
        pod = assignment.pod
        group = pod_index.group_key(pod)
        preemption = self._under_way.get(pod.metadata.key)
        if preemption is None and group is not None:
            preemption = self._under_way.get(GangKey(group))
        if preemption is not None:
            known = self._nominations.of(preemption.preemptor.key)
            others = known.assignments if known is not None else ()
            kept = Nomination(preemption.preemptor, [*others, assignment], leaving.Leaving())
            self._nominations.add(kept)

    def _end(self, key: PreemptorKey, *, is_in_vain: bool = False) -> None:
        ended = self._under_way.pop(key, None)
        if ended is not None and is_in_vain:
            self._metrics.in_vain.add(amount=ended.evicted)

    def _check(self) -> None:
        """End the nominations of pods that are gone, and those that have lasted too long."""
        self._nominations.drop_invalid()
        for key in [key for key, given_up in self._given_up.items() if self._is_gone(given_up)]:
            del self._given_up[key]
        for key, preemption in list(self._under_way.items()):
            nomination = self._nominations.of(key)
            if self._is_gone(preemption):
                self._end(key)
                self._nominations.drop(key)
            elif nomination is not None and self._is_overdue(preemption, nomination):
                self._give_up(key, preemption)
        self.settle()

    def _is_overdue(self, preemption: _Preemption, nomination: Nomination) -> bool:
        """Return whether victims do not end, or the pod does not get what they have left."""
        scheduling, victims = self._state.scheduling, nomination.leaving
        if leaving.have_stuck(victims, scheduling, self._now()):
            return True
        if any(leaving.is_there(victim, scheduling) for victim in victims.pods):
            preemption.since = _clock()
        return _clock() - preemption.since > LIMIT_SECONDS

    def _give_up(self, key: PreemptorKey, preemption: _Preemption) -> None:
        log.warning("%s did not get what was freed for it in time", key)
        self._end(key, is_in_vain=True)
        self._nominations.drop(key)
        self._start(key, functools.partial(self._clear, preemption.preemptor))
        for pod in preemption.preemptor.pods:
            self._state.queue.add(pod.metadata.key, pod.spec.priority or 0)

    def _is_gone(self, preemption: _Preemption) -> bool:
        """Return whether none of the pods waits any more."""
        return all(self._waiting(pod) is None for pod in preemption.preemptor.pods)

    def _waiting(self, pod: Pod) -> Pod | None:
        """Return the pod as it is now if it waits for a node."""
        current = self._state.pending_pod(pod.metadata.key)
        is_same = current is not None and current.metadata.uid == pod.metadata.uid
        return current if is_same else None

    def _start(self, key: PreemptorKey, job: Job) -> None:
        before = self._jobs.get(key)
        task = self._jobs[key] = self._create_task(_after(before, job))

        def forget(_: object) -> None:
            if self._jobs.get(key) is task:
                del self._jobs[key]

        task.add_done_callback(forget)

    async def _clear(self, preemptor: Preemptor) -> None:
        """Remove the names of the nominated nodes, unless there is a new nomination by now."""
        for pod in preemptor.pods:
            await _repeated(
                functools.partial(self._is_to_be_cleared, preemptor.key, pod),
                functools.partial(self._evictor.clear, pod),
            )

    def _is_to_be_cleared(self, key: PreemptorKey, pod: Pod) -> bool:
        current = self._waiting(pod)
        return (
            current is not None
            and not self.is_nominated(key)
            and not self._state.scheduling.is_placed(current)
        )

    async def _carry_out(self, preemption: _Preemption) -> None:
        """Evict the victims of a plan, as long as it holds."""
        await _repeated(
            lambda: self._under_way.get(preemption.preemptor.key) is preemption,
            lambda: self._evict_all(preemption),
        )

    async def _evict_all(self, preemption: _Preemption) -> None:
        preemptor, nodes = preemption.preemptor, preemption.nodes
        # A gang may have more pods than it needs.
        pods = [pod for pod in preemptor.pods if pod.metadata.key in nodes]
        for pod in pods:
            if not await self._evictor.nominate(pod, nodes[pod.metadata.key]):
                return
        try:
            while (victim := await self._next_victim(preemption)) is not None:
                # The cache may be behind, and victims do not come back.
                for pod in pods:
                    if not await self._evictor.is_waiting(pod):
                        return
                preemption.evicted += await self._evictor.evict(
                    victim, preemptor, functools.partial(self._holds, preemption)
                )
                preemption.asked.add(victim.metadata.uid)
        finally:
            preemption.is_evicting = False

    def _holds(self, preemption: _Preemption) -> bool:
        """Return whether the preemptor of a plan still waits for what the plan frees."""
        key = preemption.preemptor.key
        return self._under_way.get(key) is preemption and self.is_nominated(key)

    async def _next_victim(self, preemption: _Preemption) -> Pod | None:
        """Return the next victim; None if no more has to go, or if the plan does not hold."""
        preemptor = preemption.preemptor
        key = preemptor.key
        async with self._state.exclusively():
            if self._is_gone(preemption) or self._under_way.get(key) is not preemption:
                return None
            limit = Countdown(SEARCH_SECONDS)
            steps = self._decider.next_victim(preemptor, self._now(), preemption.asked, limit)
            try:
                victim = await self._runner.run(steps)
            except SearchUnfinished:
                if _clock() - preemption.begun <= LIMIT_SECONDS:
                    raise
                self._give_up(key, preemption)
                return None
            is_placed = any(map(self._state.scheduling.is_placed, preemptor.pods))
            if not self.is_nominated(key) and not is_placed:
                self._given_up[key] = self._under_way.pop(key)
                self._start(key, functools.partial(self._clear, preemptor))
            self.settle()
            preemption.is_evicting = victim is not None
            return victim


async def _repeated(is_needed: Callable[[], bool], job: Job) -> None:
    """Do something that may fail for a time, until it succeeds or nobody needs it."""
    pause = FIRST_RETRY_SECONDS
    while is_needed():
        try:
            return await job()
        except (errors.StatusError, WriteOutcomeUnknown, SearchUnfinished) as error:
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
