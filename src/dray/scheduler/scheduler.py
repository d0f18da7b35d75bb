"""The scheduler: takes pods from the queue, decides, and starts binding them.

Decisions are made one after the other, each counting with all before. They are written by
concurrent tasks, several pods at once.
"""

from __future__ import annotations

import asyncio
import datetime
import functools
import logging
import time
from collections.abc import Callable, Hashable

from dray import telemetry
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model import requests
from dray.api import features as gates
from dray.api.features import Features
from dray.api.semantics import pod_claims
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.client.api_client import Client
from dray.client.discovery import OptionalKinds
from dray.client.events import Recorder
from dray.client.lease import LeaderElection
from dray.clock import utc_now
from dray.scheduler import podgroup_status
from dray.scheduler.binder import Binder, BindFailure
from dray.scheduler.claims.claim_writes import ClaimWrites
from dray.scheduler.cluster_state import SchedulerState
from dray.scheduler.eviction import Evictor
from dray.scheduler.explanation_cache import Why
from dray.scheduler.metrics import Metrics, PreemptionMetrics
from dray.scheduler.preemptions import Preemptions
from dray.scheduler.queue import COST_FACTOR, QueueEntry
from dray.scheduler.status_reporting import Reporter
from dray.scheduler.step_runner import Countdown, Deadline, StepRunner
from dray.scheduling import wake_events
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decider
from dray.scheduling.podgroups import Gang
from dray.scheduling.preemption.preemptor import GangKey, Preemptor, PreemptorKey
from dray.scheduling.state import DEFAULT_SCHEDULER_NAME
from dray.scheduling.unschedulable import Unschedulable

log = logging.getLogger(__name__)

DEFAULT_NAME = DEFAULT_SCHEDULER_NAME
LEASE_NAME = "dray-scheduler"
LEASE_NAMESPACE = "kube-system"
FIELD_MANAGER = "dray-scheduler"
"""The scheduler's name in `metadata.managedFields`, whatever name its pods use."""
GANG_SEARCH_SECONDS = 5.0
"""The time for which other nodes are tried for a gang that does not fit on the best ones."""
EVICTION_SECONDS = 0.1
"""The time after which a pod is tried again for which another one was just being evicted."""
REFRESH_SECONDS = 0.5
"""The time for which changes are collected before pods are tried again for their reasons."""
REFRESH_PAUSE_SECONDS = 0.002
"""The least time between two such attempts."""


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
    show: Callable[[SchedulerState | None], None] = lambda _: None,
) -> None:
    """Schedule the pods that name this scheduler until cancelled.

    `node_selector` is a label selector for the nodes to use; `policy` is one of
    `policies.NAMES`; `explainer` makes dray's reasons for claims that cannot be allocated;
    `started` is set when the caches are complete; `show` is called with the state for others to
    read, and with None when it is no longer kept current.
    """
    served = await OptionalKinds.of(client, features)
    state = SchedulerState(client, features, name, node_selector, served)
    scheduler = Scheduler(
        client,
        state,
        Recorder(client, name, now=now),
        features,
        name=name,
        policy=policy,
        now=now,
        registry=registry or telemetry.Registry(),
        explainer=explainer,
    )
    show(state)
    try:
        await scheduler.run(started or asyncio.Event())
    finally:
        show(None)


def candidate(
    client: Client, identity: str, name: str = LEASE_NAME, namespace: str = LEASE_NAMESPACE
) -> LeaderElection:
    """Return a candidate for the lease whose holder schedules."""
    return LeaderElection(client, name, identity, namespace=namespace, now=utc_now)


class Scheduler:
    """One scheduler. `run` is called once."""

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
        deadline = Deadline()
        self._decider = Decider(state.scheduling, policy=policy, should_stop=deadline)
        self._runner = StepRunner(deadline, limits_nodes=features.scheduler_filter_timeout)
        self._writes = ClaimWrites(client, features, state.claim, self._wrote, now)
        self._preemptions: Preemptions | None = None
        nominations = self._decider.nominations
        if nominations is not None:
            self._preemptions = Preemptions(
                nominations,
                state,
                self._decider,
                self._runner,
                Evictor(client, recorder, name, now),
                PreemptionMetrics(registry),
                now,
                lambda job: self._tasks.create_task(job),
            )
        self._binder = Binder(client, state, self._writes, recorder, features, now, self._keep)
        why = explainer(state.scheduling.inventory) if explainer else None
        self._reporter = Reporter(client, state, recorder, self._writes, now, why)
        self._metrics = Metrics(registry, state)
        self._tasks: asyncio.TaskGroup

    async def run(self, started: asyncio.Event) -> None:
        """Schedule until cancelled. Sets `started` when the caches are complete."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._tasks.create_task(self._state.run())
                await self._state.synced()
                started.set()
                self._tasks.create_task(self._recorder.run())
                self._tasks.create_task(self._reporter.run())
                self._tasks.create_task(self._refresh())
                if self._preemptions is not None:
                    self._tasks.create_task(self._preemptions.run())
                await self._work()
        finally:
            self._queue.close()

    def _wrote(self, claim: ResourceClaim) -> None:
        self._state.apply(functools.partial(self._state.in_flight.record_written, claim))
        self._queue.wake(wake_events.claim_changes(claim.key))

    async def _work(self) -> None:
        while True:
            entry = await self._queue.pop()
            async with self._state.exclusively():
                await self._attempt(entry)
            await self._runner.yield_to_loop()

    async def _refresh(self) -> None:
        """Try pods again whose reason may have changed, in a part of the time."""
        while True:
            await self._queue.changed.wait()
            await asyncio.sleep(REFRESH_SECONDS)
            self._queue.changed.clear()
            for group in self._queue.outdated():
                self._queue.refresh(group)
                await asyncio.sleep(max(REFRESH_PAUSE_SECONDS, group.cost_seconds * COST_FACTOR))

    async def _attempt(self, entry: QueueEntry) -> None:
        self._reporter.forget(entry.key)
        pod = self._state.pending_pod(entry.key)
        if pod is None:
            self._queue.finish(entry)
            return
        started = time.perf_counter()
        try:
            await self._place(entry, pod)
        except Exception as error:
            log.exception("pod %s cannot be scheduled", entry.key)
            self._reject(entry, entry.key, _failure(f"{type(error).__name__}: {error}"))
        self._metrics.decided(entry, time.perf_counter() - started)

    async def _place(self, entry: QueueEntry, pod: Pod) -> None:
        gang = None if pod.spec.scheduling_gates else self._decider.gang_of(pod)
        if isinstance(gang, Gang):
            await self._place_gang(entry, gang)
        elif isinstance(gang, Unschedulable):
            self._reject(entry, pod.metadata.uid, gang)
        else:
            await self._place_pod(entry, pod)

    async def _place_pod(self, entry: QueueEntry, pod: Pod) -> None:
        if self._is_evicting_for(pod.metadata.key):
            self._queue.postpone(entry, EVICTION_SECONDS)
            return
        self._leave_deleted_claims(pod)
        started = time.perf_counter()
        decision = await self._runner.run(self._decider.place_pod(pod, self._now()))
        if isinstance(decision, NodeAssignment):
            self._settle_preemptions()
            self._start_binding(entry, decision)
            return
        key = decision.placement_key
        if self._preemptions is not None:
            preemptor = Preemptor.of_pod(pod, self._state.scheduling)
            self._preemptions.refused(preemptor, decision, time.perf_counter() - started)
            # What is kept for it makes a difference between it and pods that are alike.
            key = None if self._preemptions.is_nominated(preemptor.key) else key
        self._settle_preemptions()
        for claim in decision.stale_claims:
            self._tasks.create_task(self._writes.delete(claim))
        self._free_unusable_claim(pod, decision)
        cost = 0.0
        if key is not None:
            cost = time.perf_counter() - started
        self._reject(entry, pod.metadata.uid if key is None else key, decision, cost)

    def _is_evicting_for(self, key: PreemptorKey) -> bool:
        return self._preemptions is not None and self._preemptions.is_evicting(key)

    async def _place_gang(self, entry: QueueEntry, gang: Gang) -> None:
        if self._is_evicting_for(GangKey(gang.key)):
            self._queue.postpone(entry, EVICTION_SECONDS)
            return
        taken = [
            self._queue.take(pod.metadata.key)
            for pod in gang.waiting
            if pod.metadata.key != entry.key
        ]
        for pod in gang.waiting:
            self._leave_deleted_claims(pod)
        entries = {member.key: member for member in (entry, *taken) if member is not None}
        limit = Countdown(GANG_SEARCH_SECONDS)
        started = time.perf_counter()
        try:
            placement = await self._runner.run(self._decider.place_gang(gang, self._now(), limit))
        except Exception:
            for member in filter(None, taken):
                self._queue.retry(member)
            raise
        if isinstance(placement, Unschedulable) and self._preemptions is not None:
            preemptor = Preemptor.of_gang(gang.group, gang.waiting)
            self._preemptions.refused(preemptor, placement, time.perf_counter() - started)
        self._settle_preemptions()
        if isinstance(placement, Unschedulable):
            for member in entries.values():
                self._reject(member, placement.placement_key, placement)
            self._report_group(gang, placement.group_message)
            return
        for assignment in placement.assignments:
            self._start_binding(entries[assignment.pod.metadata.key], assignment)
        for key, unplaced in placement.unplaced.items():
            self._reject(entries[key], key, unplaced)
        self._report_group(gang)

    def _settle_preemptions(self) -> None:
        if self._preemptions is not None:
            self._preemptions.settle()

    def _keep(self, assignment: NodeAssignment) -> None:
        """Keep for a pod what others made free for it, although it cannot be bound now."""
        if self._preemptions is not None:
            self._preemptions.keep(assignment)

    def _report_group(self, gang: Gang, message: str = "") -> None:
        report = podgroup_status.report(self._client, gang.group, self._now(), message)
        self._tasks.create_task(report)

    def _reject(
        self, entry: QueueEntry, key: Hashable, result: Unschedulable, cost_seconds: float = 0.0
    ) -> None:
        """Report an unschedulable pod, and let it wait together with pods of the same `key`."""
        if result.is_retried:
            self._queue.retry(entry)
        else:
            line = requests.signature(result.claims) if result.claims else None
            self._queue.park(entry, key, result, cost_seconds, line)
        if not result.is_gated:
            self._reporter.report(entry.key, result)

    def _free_unusable_claim(self, pod: Pod, result: Unschedulable) -> None:
        """Deallocate one claim that only this pod uses and that rules out some node."""
        own = frozenset({pod.metadata.uid})
        for key in result.unusable_claims:
            claim = self._state.claim(key)
            if claim is not None and pod_claims.is_reserved_only_for(claim, own):
                withdrawal = self._writes.withdraw(key, pod.metadata.uid, deallocate=True)
                self._tasks.create_task(withdrawal)
                return

    def _leave_deleted_claims(self, pod: Pod) -> None:
        """Withdraw reservations that an interrupted attempt has left in claims that are deleted.

        Such a claim cannot be used again, and stays until nobody has reserved it.
        """
        for key in pod_claims.used_claims(pod):
            claim = self._state.claim(key)
            if claim is None or claim.metadata.deletion_timestamp is None:
                continue
            users = self._unplaced_users(pod)
            for consumer in claim.status.reserved_for:
                if consumer.uid in users:
                    withdrawal = self._writes.withdraw(key, consumer.uid, deallocate=True)
                    self._tasks.create_task(withdrawal)

    def _unplaced_users(self, pod: Pod) -> set[str]:
        """Return the uids of the pod and, if none of its pods is placed, of its PodGroup."""
        scheduling = self._state.scheduling
        group = scheduling.group_of(pod)
        if group is None:
            return {pod.metadata.uid}
        members = scheduling.pods.in_group(group.metadata.key)
        if any(map(scheduling.is_placed, members)):
            return {pod.metadata.uid}
        return {pod.metadata.uid, group.metadata.uid}

    def _start_binding(self, entry: QueueEntry, assignment: NodeAssignment) -> None:
        self._queue.done(entry)
        self._tasks.create_task(self._bind(entry, assignment))

    async def _bind(self, entry: QueueEntry, assignment: NodeAssignment) -> None:
        try:
            failure = await self._binder.bind(assignment)
        except Exception as error:
            log.exception("pod %s cannot be bound", entry.key)
            self._state.apply(functools.partial(self._state.scheduling.release, assignment))
            failure = BindFailure(f"{type(error).__name__}: {error}")
        if failure is None:
            self._metrics.bound(entry)
            self._state.apply(functools.partial(self._finish, entry, assignment.pod))
        else:
            self._state.apply(functools.partial(self._give_up, entry, assignment.pod, failure))

    def _finish(self, entry: QueueEntry, pod: Pod) -> None:
        self._queue.finish(entry)
        if self._preemptions is not None:
            self._preemptions.forget(pod)

    def _give_up(self, entry: QueueEntry, pod: Pod, failure: BindFailure) -> None:
        """Queue the pod again. What was reserved for it is free for others."""
        if failure.is_gone:
            self._finish(entry, pod)
        else:
            log.info("pod %s: %s", entry.key, failure.message)
            self._reject(entry, entry.key, _failure(failure.message))
        self._queue.wake(wake_events.DEVICES)
        self._queue.wake(wake_events.POD_REMOVED)


def _failure(message: str) -> Unschedulable:
    return Unschedulable(error=message, is_retried=True)
