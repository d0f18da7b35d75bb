"""One pod at a time: pop, choose, reserve, bind.

Decisions are made one after the other, each counting with all that were made before. Writing them
down is left to tasks, so many pods are written at once.
"""

from __future__ import annotations

import asyncio
import datetime
import functools
import logging
import time
import uuid
from collections.abc import Callable, Hashable

from dray import telemetry
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.search import device_order
from dray.api import features as gates
from dray.api.features import Features
from dray.api.ids import ObjectKey
from dray.api.selectors import label_selectors
from dray.api.semantics import pod_claims
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.client.api_client import Client
from dray.client.events import Recorder
from dray.scheduler import podgroups, preemption, queue
from dray.scheduler.binder import Binder, BindFailure, NodeAssignment
from dray.scheduler.claims.claim_writes import ClaimWrites
from dray.scheduler.claims.device_fit import DeviceMatcher, PodDemand
from dray.scheduler.cluster_state import EXTENDED, SchedulerState
from dray.scheduler.metrics import Metrics
from dray.scheduler.node_choice import NodeChooser
from dray.scheduler.podgroups import Gang, GroupPlacement, Shared
from dray.scheduler.preemption import Evictor, Preemption
from dray.scheduler.queue import Entry
from dray.scheduler.status_reporting import Reporter, Why
from dray.scheduler.unschedulable import Unschedulable
from dray.scheduling.claims import claim_readiness
from dray.scheduling.nodes import pod_requirements, scoring

log = logging.getLogger(__name__)

DEFAULT_NAME = "default-scheduler"
FIELD_MANAGER = "dray-scheduler"
"""Who the scheduler is in `metadata.managedFields`, whatever pods call it by."""


def utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


async def run(
    client: Client,
    *,
    name: str = DEFAULT_NAME,
    features: Features = gates.DEFAULT,
    node_selector: str = "",
    policy: str | None = None,
    now: Callable[[], datetime.datetime] = utc_now,
    registry: telemetry.Registry | None = None,
    explainer: Callable[[ClusterInventory], Why] | None = None,
    started: asyncio.Event | None = None,
) -> None:
    """Schedule the pods that name this scheduler until cancelled.

    `node_selector` is a label selector for the nodes to use; `policy` is one of
    `allocator.policies`; `explainer` makes dray's reasons for what cannot be allocated; `started`
    is set when the scheduler knows what there is.
    """
    scheduler = Scheduler(
        client,
        SchedulerState(client, features, name, node_selector),
        Recorder(client, name, now=now),
        features,
        name=name,
        policy=policy,
        now=now,
        registry=registry or telemetry.Registry(),
        explainer=explainer,
    )
    await scheduler.run(started or asyncio.Event())


class Scheduler:
    def __init__(
        self,
        client: Client,
        state: SchedulerState,
        recorder: Recorder,
        features: Features,
        *,
        name: str,
        policy: str | None,
        now: Callable[[], datetime.datetime],
        registry: telemetry.Registry,
        explainer: Callable[[ClusterInventory], Why] | None,
    ) -> None:
        self._client, self._now = client, now
        self._state, self._queue, self._recorder = state, state.queue, recorder
        self._accepts_groups = features.workload_resource_claims
        self._devices = DeviceMatcher(
            state.fleet,
            state.inflight,
            state.classes,
            features,
            new_share_id=lambda: str(uuid.uuid4()),
            now=now,
            order=device_order.BY_NAME[policy] if policy else None,
        )
        self._chooser = NodeChooser(state, self._devices, scoring.rate_for(policy, state.fleet))
        self._writes = ClaimWrites(client, features, state.claim, self._wrote, now)
        self._binder = Binder(client, state, self._writes, recorder, features, now)
        self._groups = GroupPlacement(state, self._chooser, self._binder, self._demand)
        self._preemption: Preemption | None = None
        if features.preemption:
            self._preemption = Preemption(state, self._devices, self._chooser.yield_to_loop)
        self._evictor = Evictor(client, recorder, name, now)
        why = explainer(state.fleet) if explainer else None
        self._reporter = Reporter(client, state, recorder, self._writes, now, why)
        self._metrics = Metrics(registry, state)
        self._tasks: asyncio.TaskGroup

    async def run(self, started: asyncio.Event) -> None:
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._tasks.create_task(self._state.run())
                await self._state.synced()
                started.set()
                self._tasks.create_task(self._recorder.run())
                self._tasks.create_task(self._reporter.run())
                await self._work()
        finally:
            self._queue.close()

    def _wrote(self, claim: ResourceClaim) -> None:
        self._state.apply(functools.partial(self._state.inflight.note_written, claim))
        key = claim.metadata.key
        self._queue.wake(queue.claim_changes(key))

    async def _work(self) -> None:
        while True:
            entry = await self._queue.pop()
            async with self._state.exclusively():
                await self._attempt(entry)
            await self._chooser.yield_to_loop()

    async def _attempt(self, entry: Entry) -> None:
        self._reporter.forget(entry.key)
        pod = self._state.pod(entry.key)
        if pod is None or not self._state.is_ours(pod):
            self._queue.finish(entry)
            return
        started = time.perf_counter()
        try:
            await self._place(entry, pod)
        except Exception as error:
            log.exception("pod %s cannot be scheduled", entry.key)
            self._refuse(entry, entry.key, _broken(f"{type(error).__name__}: {error}"))
        self._metrics.decided(entry, time.perf_counter() - started)

    async def _place(self, entry: Entry, pod: Pod) -> None:
        if pod.spec.scheduling_gates:
            entry.reason = "gates"
            self._queue.park(entry, pod.metadata.uid, ())
            return
        gang = podgroups.gang_of(pod, self._state)
        if isinstance(gang, Gang):
            await self._place_gang(entry, gang)
            return
        demand = gang or self._demand(pod, {})
        if isinstance(demand, Unschedulable):
            self._refuse(entry, pod.metadata.uid, demand)
        else:
            await self._place_pod(entry, demand)

    async def _place_pod(self, entry: Entry, demand: PodDemand) -> None:
        started = time.perf_counter()
        kept: frozenset[str] = frozenset()
        if self._preemption is not None:
            kept = self._preemption.nominations.kept_from(entry.key, demand.pod)
        answer = await self._chooser.choose(demand, kept)
        if not isinstance(answer, Unschedulable):
            self._binder.reserve(answer)
            self._start_binding(entry, answer)
            return
        preempting = await self._preempt(entry, demand)
        self._free_what_is_in_the_way(demand.pod, answer)
        cost, question = time.perf_counter() - started, self._chooser.placement_key(demand)
        self._refuse(entry, question, answer, preempting, cost)

    async def _place_gang(self, entry: Entry, gang: Gang) -> None:
        taken = [self._queue.take(_key(pod)) for pod in gang.waiting if _key(pod) != entry.key]
        entries = {each.key: each for each in (entry, *taken) if each is not None}
        try:
            answer = await self._groups.place(gang)
        except Exception:
            for each in filter(None, taken):
                self._queue.retry(each)
            raise
        if isinstance(answer, Unschedulable):
            for each in entries.values():
                self._refuse(each, ("gang", gang.key), answer)
            self._note_group(gang, answer.of_group)
            return
        for choice in answer.choices:
            self._start_binding(entries[_key(choice.pod)], choice)
        for key, refusal in answer.refusals.items():
            self._refuse(entries[key], key, refusal)
        self._note_group(gang)

    def _note_group(self, gang: Gang, message: str = "") -> None:
        noting = podgroups.note_scheduled(self._client, gang.group, self._now, message)
        self._tasks.create_task(noting)

    def _demand(self, pod: Pod, shared: Shared) -> PodDemand | Unschedulable:
        """What has to be found for a pod. `shared` is what its group is about to get."""
        hidden = self._state.inflight.hold_unreadable(self._state.claims.undecodable)
        if hidden and pod.spec.resource_claims:
            return Unschedulable(
                before_nodes=f"a claim cannot be read, so its devices are not known: {hidden[0]}",
                causes=frozenset({queue.DEVICES}),
            )
        group = self._state.group_of(pod) if self._accepts_groups else None
        claims = claim_readiness.resolve(pod, self._state.claim, group, self._accepts_groups)
        if isinstance(claims, claim_readiness.NotReady):
            return _not_ready(claims)
        try:
            demand = self._devices.demand(pod, pod_requirements.needs_of(pod), claims, shared)
        except label_selectors.SelectorError as error:
            return Unschedulable(error=str(error))
        if isinstance(demand, PodDemand) and demand.extended:
            return self._without_stale_claim(demand)
        return demand

    def _without_stale_claim(self, demand: PodDemand) -> PodDemand | Unschedulable:
        """What an earlier attempt made for the pod's extended resources has to go first."""
        stale = self._state.claims.find(EXTENDED, demand.pod.metadata.uid)
        if not stale:
            return demand
        for claim in stale:
            self._tasks.create_task(self._writes.delete(claim))
        keys = (ObjectKey(*pod_claims.key_of(claim)) for claim in stale)
        return Unschedulable(
            before_nodes="cannot schedule extended resource claim",
            causes=frozenset(map(queue.claim_changes, keys)),
            is_passing=True,
        )

    def _refuse(
        self,
        entry: Entry,
        question: Hashable,
        refusal: Unschedulable,
        preempting: str = "",
        cost_seconds: float = 0.0,
    ) -> None:
        self._reporter.refuse(entry.key, refusal, preempting)
        entry.reason = refusal.category
        if refusal.is_retried:
            self._queue.retry(entry)
        else:
            self._queue.park(entry, question, refusal.causes, cost_seconds)

    async def _preempt(self, entry: Entry, demand: PodDemand) -> str:
        """Make room for the pod if that is possible; what to say about it."""
        ranking = self._chooser.latest
        if self._preemption is None or ranking is None:
            return ""
        reason = self._preemption.ineligible(entry.key, demand.pod)
        if reason:
            return reason
        self._preemption.nominations.remove(entry.key)
        plan = await self._preemption.plan(demand, ranking)
        if plan is None:
            return ""
        priority = preemption.priority_of(demand.pod)
        self._preemption.nominations.add(entry.key, plan.node, priority)
        self._tasks.create_task(self._evictor.carry_out(plan, demand.pod))
        return str(plan)

    def _free_what_is_in_the_way(self, pod: Pod, refusal: Unschedulable) -> None:
        """Deallocate one claim that only this pod uses and that keeps it from some node."""
        mine = frozenset({pod.metadata.uid})
        for key in refusal.in_the_way:
            claim = self._state.claim(key)
            if claim is not None and pod_claims.is_reserved_only_for(claim, mine):
                withdrawal = self._writes.withdraw(key, pod.metadata.uid, deallocate=True)
                self._tasks.create_task(withdrawal)
                return

    def _start_binding(self, entry: Entry, choice: NodeAssignment) -> None:
        self._queue.done(entry)
        if self._preemption is not None:
            self._preemption.nominations.remove(entry.key)
        self._tasks.create_task(self._bind(entry, choice))

    async def _bind(self, entry: Entry, choice: NodeAssignment) -> None:
        try:
            outcome = await self._binder.bind(choice)
        except Exception as error:
            log.exception("pod %s cannot be bound", entry.key)
            self._state.apply(functools.partial(self._binder.release, choice))
            outcome = BindFailure(f"{type(error).__name__}: {error}")
        if outcome is None:
            self._metrics.bound(entry)
            self._state.apply(functools.partial(self._queue.finish, entry))
        else:
            self._state.apply(functools.partial(self._give_up, entry, outcome))

    def _give_up(self, entry: Entry, outcome: BindFailure) -> None:
        """What the pod had taken is there for others."""
        if outcome.is_gone:
            self._queue.finish(entry)
        else:
            log.info("pod %s: %s", entry.key, outcome.message)
            self._refuse(entry, entry.key, _broken(outcome.message))
        self._queue.wake(queue.DEVICES)
        self._queue.wake(queue.ROOM)


def _key(pod: Pod) -> ObjectKey:
    return pod.metadata.key


def _broken(message: str) -> Unschedulable:
    """Something went wrong that may go right next time."""
    return Unschedulable(error=message, is_retried=True)


def _not_ready(problem: claim_readiness.NotReady) -> Unschedulable:
    causes: frozenset[queue.WakeEvent] = frozenset()
    if problem.claim is not None:
        causes = frozenset({queue.claim_changes(ObjectKey(*problem.claim))})
    return Unschedulable(
        before_nodes=problem.message, causes=causes, template=problem.template, is_passing=True
    )
