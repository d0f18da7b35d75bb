"""Place pods in the order of their submission, as the scheduler would, and say what they get."""

from __future__ import annotations

import datetime
import heapq
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dray.api.ids import DeviceId, ObjectKey
from dray.api.semantics import owner_references
from dray.api.types.dra import AllocationResult, ResourceClaim
from dray.api.types.pods import Pod
from dray.planner.cluster_model import ClusterModel
from dray.planner.placement import binding
from dray.planner.submission.submitted_pods import SubmittedPod
from dray.scheduling import pod_index, steps, wake_events
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decider, Decision
from dray.scheduling.preemption.priorities import priority_of
from dray.scheduling.state import SchedulingState
from dray.scheduling.unschedulable import Unschedulable
from dray.scheduling.wake_events import WakeEvent

NOW = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
"""The time of decisions, if the caller has none."""
NOT_MADE = "the pod is made when the one before it runs"


class PlannedPod(NamedTuple):
    """A submitted pod with the scheduler's decision."""

    submitted: SubmittedPod
    decision: Decision
    evicted: Sequence[Pod] = ()
    """Pods of lower priority that are evicted for it."""

    @property
    def node(self) -> str:
        """The node that the pod gets; empty if none."""
        return self.decision.node if isinstance(self.decision, NodeAssignment) else ""

    def allocations(self) -> Iterator[tuple[ResourceClaim, AllocationResult]]:
        if isinstance(self.decision, NodeAssignment):
            yield from self.decision.fit.allocations()

    def devices(self) -> list[DeviceId]:
        """Return the devices of all its claims."""
        return [
            DeviceId(result.driver, result.pool, result.device)
            for _, allocation in self.allocations()
            for result in allocation.devices.results
        ]


class Plan(NamedTuple):
    """Decisions in the order of submission, and the state after them."""

    pods: Sequence[PlannedPod]
    state: SchedulingState

    def cluster_after(self, cluster: ClusterModel) -> ClusterModel:
        """Return the model that the plan was made for as it is afterwards."""
        objects: dict[type[Any], Sequence[Any]] = dict(cluster.objects)
        objects |= {Pod: [*self.state.pods], ResourceClaim: [*self.state.claims]}
        return ClusterModel(objects, cluster.features)

    @property
    def fits(self) -> bool:
        """Whether every pod gets a node."""
        return all(planned.node for planned in self.pods)


def place(
    cluster: ClusterModel,
    submitted: Sequence[SubmittedPod],
    *,
    policy: str | None = None,
    now: datetime.datetime = NOW,
) -> Plan:
    """Return what the scheduler decides for each pod; a placed pod counts for the next ones.

    A pod is submitted when those before it are placed or wait. Pods that wait are tried again, in
    the scheduler's order, when a later one changes what they wait for.
    """
    run = _Placement(cluster.state(), policy, now)
    for item in submitted:
        run.submit(item)
    return Plan([run.planned(item) for item in submitted], run.state)


class _Placement:
    """Pods that are placed one after the other in one state."""

    def __init__(self, state: SchedulingState, policy: str | None, now: datetime.datetime) -> None:
        self.state, self._now = state, now
        self._decider = Decider(state, policy=policy)
        self._decisions: dict[ObjectKey, Decision] = {}
        self._evicted: dict[ObjectKey, list[Pod]] = {}
        self._items: dict[ObjectKey, SubmittedPod] = {}
        self._arrivals: dict[ObjectKey, int] = {}
        self._ready: list[tuple[int, int, ObjectKey]] = []
        """A heap in the order of the scheduler's queue: higher priority, then earlier arrival."""
        self._queued: set[ObjectKey] = set()
        self._waiting: dict[WakeEvent, dict[ObjectKey, None]] = {}
        self._followers: dict[str, SubmittedPod] = {}
        """Pods that are not made yet, by the uid of the pod that has to run first."""

    def planned(self, item: SubmittedPod) -> PlannedPod:
        if item.refusal:
            return PlannedPod(item, Unschedulable(error=item.refusal))
        key = item.pod.metadata.key
        return PlannedPod(item, self._decisions[key], self._evicted.get(key, ()))

    def submit(self, item: SubmittedPod) -> None:
        """Decide for a pod, and for those that wait for what it changes."""
        if not item.refusal:
            self._add(item)
        while self._ready:
            _, _, key = heapq.heappop(self._ready)
            self._queued.discard(key)
            if not isinstance(self._decisions.get(key), NodeAssignment):
                self._decide(self._items[key])

    def _add(self, item: SubmittedPod) -> None:
        pod, key = item.pod, item.pod.metadata.key
        if item.after and not self.state.nodes.node_of(item.after):
            self._followers[item.after] = item
            self._decisions[key] = Unschedulable(before_nodes=NOT_MADE)
            return
        for claim in item.claims:
            self.state.put(claim)
        self.state.put_pod(pod)
        self._items[key] = item
        self._arrivals.setdefault(key, len(self._arrivals))
        self._queue(key)

    def _queue(self, key: ObjectKey) -> None:
        if key not in self._queued:
            self._queued.add(key)
            priority = priority_of(self._items[key].pod)
            heapq.heappush(self._ready, (-priority, self._arrivals[key], key))

    def _decide(self, item: SubmittedPod) -> None:
        found = steps.run(self._decider.steps_for(item.pod, self._now), lambda: False)
        for key, decision in found.items():
            before, self._decisions[key] = self._decisions.get(key), decision
            for event in before.wake_events if isinstance(before, Unschedulable) else ():
                self._waiting.get(event, {}).pop(key, None)
            if isinstance(decision, NodeAssignment):
                self._bind(decision)
            elif key in self._items:
                for event in decision.wake_events:
                    self._waiting.setdefault(event, {})[key] = None
        # All pods of a gang have the same plan.
        preempting = (
            (key, decision.preemption)
            for key, decision in found.items()
            if isinstance(decision, Unschedulable) and key in self._items
        )
        key, plan = next(preempting, (item.pod.metadata.key, None))
        if plan is not None:
            self._preempt(key, plan.victims)

    def _bind(self, assignment: NodeAssignment) -> None:
        pod = assignment.pod
        claims = binding.bind(self.state, assignment)
        group = pod_index.group_key(pod)
        self._wake(wake_events.POD_PLACED)
        if group is not None:
            self._wake(wake_events.group_changes(group))
        for claim in claims:
            self._wake(wake_events.claim_changes(claim.key))
        follower = self._followers.pop(pod.metadata.uid, None)
        if follower is not None:
            self._add(follower)

    def _preempt(self, key: ObjectKey, victims: Sequence[Pod]) -> None:
        """Evict the victims, and try the pod again.

        Controllers make their submitted pods again; a bare pod is lost. Pods that were in the
        cluster before are not made again: what their controllers would make is not known.
        """
        self._queue(key)
        for victim in victims:
            binding.evict(self.state, victim)
            self._evicted.setdefault(key, []).append(victim)
            item = self._items.get(victim.metadata.key)
            if item is not None:
                text = f"evicted for pod {key}, which has a higher priority"
                self._decisions[victim.metadata.key] = Unschedulable(error=text)
                if owner_references.controller_of(victim.metadata) is not None:
                    self._add(item)
        self._wake(wake_events.POD_REMOVED)
        self._wake(wake_events.DEVICES)

    def _wake(self, event: WakeEvent) -> None:
        for key in self._waiting.get(event, ()):
            self._queue(key)
