"""StatefulSets: pods with an identity, created and replaced one after the other.

Behaviour of pkg/controller/statefulset, stateful_set_control.go.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.semantics import pod_status
from dray.api.templates import stateful_pods
from dray.api.templates.workload_types import StatefulSet, Template
from dray.api.types.pods import Pod
from dray.api.types.workloads import ControllerRevision, StatefulSetStatus
from dray.controllers.loops import Context
from dray.controllers.workloads import controller_revisions, rollouts, workload_loop
from dray.controllers.workloads.controller_revisions import RevisionHistory
from dray.controllers.workloads.workload_loop import WorkloadLoop

COMPONENT = "statefulset-controller"
HASH_LABEL = "controller.kubernetes.io/hash"

PodsByOrdinal = dict[int, Pod]
"""The pods by ordinal as the cache had them; deleted ones are marked."""


class Rollout(NamedTuple):
    """The names of the revisions that a set comes from and goes to."""

    current: str
    update: str
    current_template: Template
    collisions: int


class StatefulSets(WorkloadLoop[StatefulSet, Pod]):
    def __init__(self, context: Context) -> None:
        shared = context.caches
        super().__init__("statefulsets", COMPONENT, context, shared.stateful_sets, shared.pods)
        revisions = shared.controller_revisions
        self._history = RevisionHistory(self.client, kinds.STATEFUL_SET, revisions, HASH_LABEL)
        self._every_write.append(self._history.writes)
        self.follow(revisions, self._queue_owners)

    async def _reconcile(self, stateful_set: StatefulSet) -> float | None:
        pods = await self._claim_by_ordinal(stateful_set)
        if stateful_set.metadata.deletion_timestamp:
            await self._report(stateful_set, pods, _last_rollout(stateful_set))
            return None
        revisions = await self._history.of(stateful_set)
        rollout = await self._rollout(stateful_set, revisions)
        failure = None
        try:
            await self._step(stateful_set, pods, rollout)
        except errors.StatusError as error:
            failure = error
        await self._report(stateful_set, pods, rollout)
        if failure is not None:
            raise failure
        await self._history.delete(stateful_set, _surplus(stateful_set, revisions, pods, rollout))
        min_ready_seconds, now = stateful_set.spec.min_ready_seconds, self.now()
        return workload_loop.seconds_to_availability([*pods.values()], min_ready_seconds, now)

    async def _rollout(
        self, stateful_set: StatefulSet, revisions: Sequence[ControllerRevision]
    ) -> Rollout:
        update, collisions = await self._history.record(stateful_set, revisions)
        by_name = {revision.metadata.name: revision for revision in revisions}
        current = by_name.get(stateful_set.status.current_revision, update)
        template = controller_revisions.template_of(current)
        return Rollout(current.metadata.name, update.metadata.name, template, collisions)

    async def _report(
        self, stateful_set: StatefulSet, pods: PodsByOrdinal, rollout: Rollout
    ) -> None:
        status = next_status(stateful_set, list(pods.values()), rollout, self.now())
        await self._write_status(stateful_set, stateful_set.status, status)

    async def _claim_by_ordinal(self, stateful_set: StatefulSet) -> PodsByOrdinal:
        name = stateful_set.metadata.name
        pods = await self._claim(
            stateful_set, lambda pod: stateful_pods.ordinal_of(pod, name) is not None
        )
        numbered = ((stateful_pods.ordinal_of(pod, name), pod) for pod in pods)
        return {ordinal: pod for ordinal, pod in numbered if ordinal is not None}

    async def _step(self, stateful_set: StatefulSet, pods: PodsByOrdinal, rollout: Rollout) -> None:
        """Do what is allowed now; in ordered sets that is at most one change."""
        desired = stateful_pods.ordinals(stateful_set)
        is_ordered = stateful_pods.is_ordered(stateful_set)
        for ordinal in desired:
            pod = pods.get(ordinal)
            if pod is None:
                await self._create(stateful_set, ordinal, rollout)
            elif pod_status.has_ended(pod):
                await self._delete(stateful_set, pods, ordinal)
            if is_ordered and (pod is None or not self._is_healthy(stateful_set, pod)):
                return
        condemned = sorted((number for number in pods if number not in desired), reverse=True)
        if is_ordered and condemned:
            await self._shrink(stateful_set, pods, condemned)
            return
        for ordinal in condemned:
            await self._delete(stateful_set, pods, ordinal)
        await self._update(stateful_set, pods, rollout)

    def _is_healthy(self, stateful_set: StatefulSet, pod: Pod) -> bool:
        min_ready = stateful_set.spec.min_ready_seconds
        return pod_status.is_active(pod) and pod_status.is_available(pod, min_ready, self.now())

    async def _shrink(
        self, stateful_set: StatefulSet, pods: PodsByOrdinal, condemned: Sequence[int]
    ) -> None:
        """Delete the last pod, unless an unhealthy one comes before it."""
        last = condemned[0]
        unhealthy = [
            ordinal for ordinal in condemned if not self._is_healthy(stateful_set, pods[ordinal])
        ]
        if last not in unhealthy or unhealthy == [last]:
            await self._delete(stateful_set, pods, last)

    async def _update(
        self, stateful_set: StatefulSet, pods: PodsByOrdinal, rollout: Rollout
    ) -> None:
        """Replace pods of older revisions, from the highest ordinal down to the partition."""
        if stateful_set.spec.update_strategy.type == "OnDelete":
            return
        desired = stateful_pods.ordinals(stateful_set)
        healthy = {
            ordinal
            for ordinal in desired
            if ordinal in pods and self._is_healthy(stateful_set, pods[ordinal])
        }
        old = [
            ordinal
            for ordinal in reversed(desired[_partition(stateful_set) :])
            if ordinal in pods and _is_outdated(pods[ordinal], rollout)
        ]
        missing = len(desired) - len(healthy)
        room = max(_max_unavailable(stateful_set) - missing, 0)
        for ordinal in _replaced(
            old, healthy, room, is_ordered=stateful_pods.is_ordered(stateful_set)
        ):
            await self._delete(stateful_set, pods, ordinal)

    async def _create(self, stateful_set: StatefulSet, ordinal: int, rollout: Rollout) -> None:
        for body in stateful_pods.volume_claims(stateful_set, ordinal):
            with contextlib.suppress(errors.AlreadyExists):
                await self.client.create(
                    kinds.PERSISTENT_VOLUME_CLAIM, body, stateful_set.metadata.namespace
                )
        revision, template = rollout.update, stateful_set.spec.template
        if ordinal in stateful_pods.ordinals(stateful_set)[: _kept_back(stateful_set)]:
            revision, template = rollout.current, rollout.current_template
        body = stateful_pods.pod_body(stateful_set, ordinal, revision, template)
        with contextlib.suppress(errors.AlreadyExists):
            await self._control.create(stateful_set.metadata, body)

    async def _delete(self, stateful_set: StatefulSet, pods: PodsByOrdinal, ordinal: int) -> None:
        pod = pods[ordinal]
        if pod_status.is_deleted(pod):
            return
        await self._control.delete(stateful_set.metadata, pod)
        deleted_at = gotime.write(self.now())
        metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=deleted_at)
        pods[ordinal] = msgspec.structs.replace(pod, metadata=metadata)


def _partition(stateful_set: StatefulSet) -> int:
    """Return how many pods, from the first on, stay at the current revision."""
    rolling = stateful_set.spec.update_strategy.rolling_update
    return (rolling.partition if rolling else None) or 0


def _kept_back(stateful_set: StatefulSet) -> int:
    """Return how many pods, from the first on, are created from the current revision.

    As newVersionedStatefulSetPod: without numbers in the strategy, the progress of the update
    decides.
    """
    strategy = stateful_set.spec.update_strategy
    if strategy.type == "OnDelete" or strategy.rolling_update is not None:
        return _partition(stateful_set)
    return stateful_set.status.current_replicas


def _max_unavailable(stateful_set: StatefulSet) -> int:
    rolling = stateful_set.spec.update_strategy.rolling_update
    allowed = rolling.max_unavailable if rolling else None
    replicas = len(stateful_pods.ordinals(stateful_set))
    return max(rollouts.scaled(allowed, replicas, up=False), 1)


def _is_outdated(pod: Pod, rollout: Rollout) -> bool:
    return stateful_pods.revision_of(pod) != rollout.update and not pod_status.is_deleted(pod)


def _replaced(
    old: Sequence[int], healthy: Collection[int], room: int, *, is_ordered: bool
) -> Sequence[int]:
    """Return the ordinals to replace now; in parallel sets unavailable pods are free."""
    if is_ordered:
        return old[:room]
    down = [ordinal for ordinal in old if ordinal not in healthy]
    up = [ordinal for ordinal in old if ordinal in healthy]
    return down + up[:room]


def _last_rollout(stateful_set: StatefulSet) -> Rollout:
    """Return the rollout of the status: a set that is being deleted creates no revisions."""
    status = stateful_set.status
    return Rollout(status.current_revision, status.update_revision, {}, status.collision_count or 0)


def _surplus(
    stateful_set: StatefulSet,
    revisions: Sequence[ControllerRevision],
    pods: PodsByOrdinal,
    rollout: Rollout,
) -> Sequence[ControllerRevision]:
    """Return the oldest unused revisions beyond the history limit."""
    live = {rollout.current, rollout.update, *map(stateful_pods.revision_of, pods.values())}
    unused = [revision for revision in revisions if revision.metadata.name not in live]
    limit = stateful_set.spec.revision_history_limit
    return () if limit is None or limit < 0 else unused[: max(len(unused) - limit, 0)]


def next_status(
    stateful_set: StatefulSet, pods: Sequence[Pod], rollout: Rollout, now: datetime.datetime
) -> StatefulSetStatus:
    staying = [pod for pod in pods if not pod_status.is_deleted(pod)]
    running = [pod for pod in pods if pod.status.phase == pod_status.RUNNING]
    updated = _of_revision(staying, rollout.update)
    ready = sum(map(pod_status.is_ready, running))
    is_complete = len(stateful_pods.ordinals(stateful_set)) == updated == ready == len(pods)
    current = rollout.update if is_complete else rollout.current
    min_ready = stateful_set.spec.min_ready_seconds
    return msgspec.structs.replace(
        stateful_set.status,
        observed_generation=stateful_set.metadata.generation,
        replicas=len(pods),
        ready_replicas=ready,
        available_replicas=sum(pod_status.is_available(pod, min_ready, now) for pod in running),
        current_replicas=_of_revision(staying, current),
        updated_replicas=updated,
        current_revision=current,
        update_revision=rollout.update,
        collision_count=rollout.collisions,
    )


def _of_revision(pods: Sequence[Pod], revision: str) -> int:
    return sum(stateful_pods.revision_of(pod) == revision for pod in pods)
