"""ReplicaSets and ReplicationControllers keep their number of pods.

Behaviour of pkg/controller/replicaset, and of pkg/controller/replication, which is the same for
ReplicationControllers.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from dray.api import errors
from dray.api.selectors import label_selectors
from dray.api.semantics import owner_references, pod_status
from dray.api.semantics.conditions import find_condition
from dray.api.templates import pod_bodies, workload_types
from dray.api.templates.workload_types import ReplicaSet, ReplicationController
from dray.api.types.pods import Pod
from dray.api.types.workloads import ReplicaSetStatus
from dray.client.cache import Cache
from dray.controllers import caches, conditions
from dray.controllers.loops import Context
from dray.controllers.workloads import deletion_order, pod_control, workload_loop
from dray.controllers.workloads.workload_loop import WorkloadLoop

MAX_AT_ONCE = 500
FAILURE = "ReplicaFailure"


SetT = TypeVar("SetT", ReplicaSet, ReplicationController)


class ReplicaLoop(WorkloadLoop[SetT, Pod]):
    """A loop over sets of equal pods."""

    def __init__(
        self, name: str, component: str, context: Context, sets: Cache[SetT], *, terminating: bool
    ) -> None:
        self._sets: Cache[SetT] = sets
        self._pods = context.caches.pods
        self._shows_terminating = terminating
        # mypy checks this once for each kind of set, but not the type of the base.
        super().__init__(name, component, context, sets, self._pods)  # type: ignore[arg-type]

    async def _reconcile(self, replica_set: SetT) -> float | None:
        owned = self._pods.find(caches.OWNER, replica_set.metadata.uid)
        active = await self._claim_active(replica_set, owned)
        terminating = None
        if self._shows_terminating:
            terminating = sum(map(pod_status.is_terminating, owned))
        failure: errors.StatusError | None = None
        if not replica_set.metadata.deletion_timestamp:
            try:
                await self._manage(replica_set, active)
            except errors.StatusError as error:
                if not pod_control.is_namespace_ending(error):
                    failure = error
        now = self.now()
        status = next_status(replica_set, active, terminating, failure, now)
        await self._write_status(replica_set, replica_set.status, status)
        if failure is not None:
            raise failure
        min_ready_seconds = replica_set.spec.min_ready_seconds
        return workload_loop.seconds_to_availability(active, min_ready_seconds, now)

    async def _claim_active(self, replica_set: SetT, owned: list[Pod]) -> list[Pod]:
        orphans = self._pods.find(caches.ORPHAN, replica_set.metadata.namespace)
        active, adoptable = (filter(pod_status.is_active, pods) for pods in (owned, orphans))
        selector = label_selectors.label_selector(replica_set.spec.selector)
        return await self._adopter.claim(replica_set.metadata, selector, active, adoptable)

    async def _manage(self, replica_set: SetT, active: Sequence[Pod]) -> None:
        """Create missing pods, or delete surplus ones."""
        excess = len(active) - workload_types.replicas(replica_set)
        if excess < 0:
            count = min(-excess, MAX_AT_ONCE)
            template, metadata = replica_set.spec.template, replica_set.metadata
            body = pod_bodies.pod_from(template, self._sets.kind, metadata)
            pod_control.check(await self._control.create_all(metadata, [body] * count))
        elif excess > 0:
            ranks = self._pods_by_node(replica_set, active)
            order = deletion_order.by_deletion_order(active, self.now(), ranks)
            chosen = order[: min(excess, MAX_AT_ONCE)]
            pod_control.check(await self._control.delete_all(replica_set.metadata, chosen))

    def _pods_by_node(self, replica_set: SetT, active: Sequence[Pod]) -> Counter[str]:
        """Return by node the number of active pods of this set and of its siblings."""
        pods = list(active)
        owner = owner_references.controller_of(replica_set.metadata)
        if owner is not None:
            for sibling in self._sets.find(caches.OWNER, owner.uid):
                if sibling.metadata.uid != replica_set.metadata.uid:
                    pods += self._pods.find(caches.OWNER, sibling.metadata.uid)
        return Counter(pod.spec.node_name for pod in pods if pod_status.is_active(pod))


class ReplicaSets(ReplicaLoop[ReplicaSet]):
    def __init__(self, context: Context) -> None:
        sets = context.caches.replica_sets
        super().__init__("replicasets", "replicaset-controller", context, sets, terminating=True)


class ReplicationControllers(ReplicaLoop[ReplicationController]):
    def __init__(self, context: Context) -> None:
        sets = context.caches.replication_controllers
        name, component = "replicationcontrollers", "replication-controller"
        super().__init__(name, component, context, sets, terminating=False)


def next_status(
    replica_set: ReplicaSet | ReplicationController,
    active: Sequence[Pod],
    terminating: int | None,
    failure: errors.StatusError | None,
    now: datetime.datetime,
) -> ReplicaSetStatus:
    spec = replica_set.spec
    labels = (spec.template.get("metadata") or {}).get("labels") or {}
    has_template_labels = label_selectors.exact_labels(labels).matches
    return msgspec.structs.replace(
        replica_set.status,
        replicas=len(active),
        fully_labeled_replicas=sum(has_template_labels(pod.metadata.labels) for pod in active),
        ready_replicas=sum(map(pod_status.is_ready, active)),
        available_replicas=sum(
            pod_status.is_available(pod, spec.min_ready_seconds, now) for pod in active
        ),
        terminating_replicas=terminating,
        observed_generation=replica_set.metadata.generation,
        conditions=_conditions(replica_set, len(active), failure, now),
    )


def _conditions(
    replica_set: ReplicaSet | ReplicationController,
    active: int,
    failure: errors.StatusError | None,
    now: datetime.datetime,
) -> conditions.Conditions:
    current = replica_set.status.conditions
    if failure is None:
        return conditions.without(current, FAILURE)
    if find_condition(current, FAILURE) is not None:
        return current
    reason = "FailedCreate" if active < workload_types.replicas(replica_set) else "FailedDelete"
    condition = conditions.make(FAILURE, conditions.TRUE, reason, failure.message, now)
    return conditions.changed(current, condition)
