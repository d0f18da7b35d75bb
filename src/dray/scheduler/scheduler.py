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
from collections.abc import Callable

from dray import telemetry
from dray.allocator import policies
from dray.allocator.fleet import Fleet
from dray.api import features as gates
from dray.api import selectors
from dray.api.claims import ResourceClaim
from dray.api.features import Features
from dray.api.names import ClaimKey
from dray.api.pods import Pod
from dray.client.cache import ObjectKey
from dray.client.events import Recorder
from dray.client.verbs import Client
from dray.scheduler import needs, podclaims, queue, scoring
from dray.scheduler.binding import Binder, Choice
from dray.scheduler.choosing import Chooser
from dray.scheduler.claimwrites import ClaimWrites
from dray.scheduler.devices import Demand, Devices
from dray.scheduler.metrics import Metrics
from dray.scheduler.queue import Entry
from dray.scheduler.refusals import Refusal
from dray.scheduler.reporting import Reporter, Why
from dray.scheduler.state import EXTENDED, State

log = logging.getLogger(__name__)

DEFAULT_NAME = "default-scheduler"


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
    explainer: Callable[[Fleet], Why] | None = None,
) -> None:
    """Schedule the pods that name this scheduler until cancelled.

    `policy` is one of `allocator.policies`; `explainer` makes dray's reasons for what it is asked.
    """
    scheduler = Scheduler(
        client,
        State(client, features, name, node_selector),
        Recorder(client, name, now=now),
        features,
        policy=policy,
        now=now,
        registry=registry or telemetry.Registry(),
        explainer=explainer,
    )
    await scheduler.run()


class Scheduler:
    def __init__(
        self,
        client: Client,
        state: State,
        recorder: Recorder,
        features: Features,
        *,
        policy: str | None,
        now: Callable[[], datetime.datetime],
        registry: telemetry.Registry,
        explainer: Callable[[Fleet], Why] | None,
    ) -> None:
        self._state, self._queue, self._recorder = state, state.queue, recorder
        self._accepts_groups = features.workload_resource_claims
        self._devices = Devices(
            state.fleet,
            state.inflight,
            state.classes,
            features,
            new_share_id=lambda: str(uuid.uuid4()),
            now=now,
            order=policies.BY_NAME[policy] if policy else None,
        )
        self._chooser = Chooser(state, self._devices, scoring.rate_for(policy, state.fleet))
        self._writes = ClaimWrites(client, features, state.claim, self._wrote, now)
        self._binder = Binder(client, state, self._writes, recorder, features, now)
        why = explainer(state.fleet) if explainer else None
        self._reporter = Reporter(client, state, recorder, self._writes, now, why)
        self._metrics = Metrics(registry, self._queue)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._state.run())
                await self._state.synced()
                group.create_task(self._recorder.run())
                group.create_task(self._reporter.run())
                await self._work(group)
        finally:
            self._queue.close()

    def _wrote(self, claim: ResourceClaim) -> None:
        self._state.apply(functools.partial(self._state.inflight.note_written, claim))
        key = ObjectKey(claim.metadata.namespace, claim.metadata.name)
        self._queue.wake(queue.claim_changes(key))

    async def _work(self, group: asyncio.TaskGroup) -> None:
        while True:
            entry = await self._queue.pop()
            self._reporter.forget(entry.key)
            async with self._state.exclusively():
                await self._attempt(entry, group)
            await self._chooser.breathe()

    async def _attempt(self, entry: Entry, group: asyncio.TaskGroup) -> None:
        pod = self._state.pod(entry.key)
        if pod is None or not self._state.is_ours(pod):
            self._queue.remove(entry.key)
            return
        started = time.perf_counter()
        try:
            await self._place(entry, pod, group)
        except Exception as error:
            log.exception("pod %s cannot be scheduled", entry.key)
            self._reporter.refuse(entry.key, Refusal(error=f"{type(error).__name__}: {error}"))
            self._queue.retry(entry)
        took = time.perf_counter() - started
        self._metrics.decisions.observe(took, entry.where)

    async def _place(self, entry: Entry, pod: Pod, group: asyncio.TaskGroup) -> None:
        started = time.perf_counter()
        if pod.spec.scheduling_gates:
            self._queue.park(entry, pod.metadata.uid, ())
            return
        demand = self._demand(pod)
        if isinstance(demand, Refusal):
            self._refuse(entry, pod.metadata.uid, demand)
            return
        stale = self._state.claims.find(EXTENDED, pod.metadata.uid) if demand.extended else []
        if stale:
            for claim in stale:
                group.create_task(self._writes.delete(claim))
            self._refuse(entry, pod.metadata.uid, _stale_claim(podclaims.key_of(stale[0])))
            return
        answer = await self._chooser.choose(demand)
        if isinstance(answer, Refusal):
            cost = time.perf_counter() - started
            self._refuse(entry, demand.question(), answer, cost, len(demand.open))
            self._free_what_is_in_the_way(pod, answer, group)
            return
        self._binder.reserve(answer)
        self._queue.done(entry)
        group.create_task(self._bind(entry, answer))

    def _demand(self, pod: Pod) -> Demand | Refusal:
        hidden = self._state.inflight.hold_unreadable(self._state.claims.undecodable)
        if hidden and pod.spec.resource_claims:
            return Refusal(
                before_nodes=f"a claim cannot be read, so its devices are not known: {hidden[0]}",
                causes=frozenset({queue.DEVICES}),
            )
        group = self._state.group_of(pod) if self._accepts_groups else None
        claims = podclaims.resolve(pod, self._state.claim, group, self._accepts_groups)
        if isinstance(claims, podclaims.NotReady):
            return _not_ready(claims)
        try:
            return self._devices.demand(pod, needs.needs_of(pod), claims)
        except selectors.SelectorError as error:
            return Refusal(error=str(error))

    def _refuse(
        self,
        entry: Entry,
        question: object,
        refusal: Refusal,
        cost_seconds: float = 0.0,
        open_claims: int = 0,
    ) -> None:
        self._reporter.refuse(entry.key, refusal)
        self._metrics.refused(question, refusal, open_claims)
        if refusal.is_retried:
            self._queue.retry(entry)
        else:
            self._queue.park(entry, question, refusal.causes, cost_seconds)

    def _free_what_is_in_the_way(
        self, pod: Pod, refusal: Refusal, group: asyncio.TaskGroup
    ) -> None:
        """Deallocate one claim that only this pod uses and that keeps it from some node."""
        mine = frozenset({pod.metadata.uid})
        for key in refusal.in_the_way:
            claim = self._state.claim(key)
            if claim is not None and podclaims.is_reserved_only_for(claim, mine):
                uid = pod.metadata.uid
                group.create_task(self._writes.withdraw(key, uid, deallocate=True))
                return

    async def _bind(self, entry: Entry, choice: Choice) -> None:
        try:
            outcome = await self._binder.bind(choice)
        except Exception:
            log.exception("pod %s cannot be bound", entry.key)
            self._state.apply(functools.partial(self._binder.release, choice))
            self._state.apply(functools.partial(self._queue.retry, entry))
            return
        if outcome is None:
            self._state.apply(functools.partial(self._queue.remove, entry.key))
            self._metrics.waits.observe(asyncio.get_running_loop().time() - entry.since)
        elif outcome.is_gone:
            self._state.apply(functools.partial(self._queue.remove, entry.key))
        else:
            log.info("pod %s: %s", entry.key, outcome.message)
            self._reporter.refuse(entry.key, Refusal(error=outcome.message, is_passing=True))
            self._state.apply(functools.partial(self._queue.retry, entry))


def _not_ready(problem: podclaims.NotReady) -> Refusal:
    causes = frozenset[queue.Cause]()
    if problem.claim is not None:
        causes = frozenset({queue.claim_changes(ObjectKey(*problem.claim))})
    return Refusal(
        before_nodes=problem.message, causes=causes, template=problem.template, is_passing=True
    )


def _stale_claim(key: ClaimKey) -> Refusal:
    """A claim that an earlier attempt has left."""
    return Refusal(
        before_nodes="cannot schedule extended resource claim",
        causes=frozenset({queue.claim_changes(ObjectKey(*key))}),
        is_passing=True,
    )
