"""ReplicaSets keep their number of pods. Behaviour of pkg/controller/replicaset."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence

import msgspec

from dray.api import errors, kinds
from dray.api.ids import ObjectKey
from dray.api.selectors import label_selectors
from dray.api.semantics import owner_references, pod_status
from dray.api.semantics.conditions import find_condition
from dray.api.types.pods import Pod
from dray.api.types.workloads import ReplicaSetStatus
from dray.client.cache import ObjectChange
from dray.controllers import caches, conditions, status_patches
from dray.controllers.loops import Context, ObjectLoop
from dray.controllers.own_writes import UNSEEN_RETRY_SECONDS, OwnWrites
from dray.controllers.slim_types import ReplicaSet
from dray.controllers.workloads import adoption, deletion_order, pod_control
from dray.controllers.workloads.adoption import Adopter
from dray.controllers.workloads.pod_control import PodControl

COMPONENT = "replicaset-controller"
MAX_AT_ONCE = 500
FAILURE = "ReplicaFailure"


class ReplicaSets(ObjectLoop):
    def __init__(self, context: Context) -> None:
        super().__init__("replicasets", context, context.caches.replica_sets)
        self._sets, self._pods = context.caches.replica_sets, context.caches.pods
        self._written: OwnWrites[ObjectKey] = OwnWrites(self._sets)
        self._pod_writes: OwnWrites[ObjectKey] = OwnWrites(self._pods)
        recorder = context.recorder(COMPONENT)
        self._maker = PodControl(self.client, kinds.REPLICA_SET, recorder, self._pod_writes)
        self._adopter: Adopter[Pod] = Adopter(self.client, kinds.POD, kinds.REPLICA_SET)
        self.follow(self._pods, self._pod_changed)

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        for pod in (change.old, change.new):
            if pod is None:
                continue
            owner = owner_references.controlled_by(pod.metadata, kinds.REPLICA_SET)
            if owner is not None:
                self.queue.add(ObjectKey(change.key.namespace, owner.name))
        for key in adoption.possible_owners(change, self._sets):
            self.queue.add(key)

    async def reconcile(self, key: ObjectKey) -> float | None:
        replica_set = self._sets.get(key.name, key.namespace)
        if replica_set is None:
            self._written.forget(key)
            self._pod_writes.forget(key)
            return None
        if not (self._written.are_seen(key) and self._pod_writes.are_seen(key)):
            return UNSEEN_RETRY_SECONDS
        owned = self._pods.find(caches.OWNER, replica_set.metadata.uid)
        active = await self._claim(replica_set, [pod for pod in owned if pod_status.is_active(pod)])
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
        written = await status_patches.patch_status(
            self.client, kinds.REPLICA_SET, replica_set.metadata, replica_set.status, status
        )
        if written:
            self._written.record(key, written)
        if failure is not None:
            raise failure
        return seconds_to_availability(active, replica_set.spec.min_ready_seconds, now)

    async def _claim(self, replica_set: ReplicaSet, owned: list[Pod]) -> list[Pod]:
        orphans = [
            pod
            for pod in self._pods.find(caches.ORPHAN, replica_set.metadata.namespace)
            if pod_status.is_active(pod)
        ]
        selector = label_selectors.label_selector(replica_set.spec.selector)
        return await self._adopter.claim(replica_set.metadata, selector, owned, orphans)

    async def _manage(self, replica_set: ReplicaSet, active: Sequence[Pod]) -> None:
        """Create missing pods, or delete surplus ones."""
        excess = len(active) - desired(replica_set)
        if excess < 0:
            count = min(-excess, MAX_AT_ONCE)
            template, metadata = replica_set.spec.template, replica_set.metadata
            body = pod_control.pod_from(template, kinds.REPLICA_SET, metadata)
            pod_control.check(await self._maker.create_all(metadata, [body] * count))
        elif excess > 0:
            ranks = self._pods_by_node(replica_set, active)
            order = deletion_order.by_deletion_order(active, self.now(), ranks)
            chosen = order[: min(excess, MAX_AT_ONCE)]
            pod_control.check(await self._maker.delete_all(replica_set.metadata, chosen))

    def _pods_by_node(self, replica_set: ReplicaSet, active: Sequence[Pod]) -> Counter[str]:
        """Return by node the number of active pods of this set and of its siblings."""
        pods = list(active)
        owner = owner_references.controller_of(replica_set.metadata)
        if owner is not None:
            for sibling in self._sets.find(caches.OWNER, owner.uid):
                if sibling.metadata.uid != replica_set.metadata.uid:
                    pods += self._pods.find(caches.OWNER, sibling.metadata.uid)
        return Counter(pod.spec.node_name for pod in pods if pod_status.is_active(pod))


def desired(replica_set: ReplicaSet) -> int:
    return 1 if replica_set.spec.replicas is None else replica_set.spec.replicas


def next_status(
    replica_set: ReplicaSet,
    active: Sequence[Pod],
    terminating: int,
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
    replica_set: ReplicaSet,
    active: int,
    failure: errors.StatusError | None,
    now: datetime.datetime,
) -> conditions.Conditions:
    current = replica_set.status.conditions
    if failure is None:
        return conditions.without(current, FAILURE)
    if find_condition(current, FAILURE) is not None:
        return current
    reason = "FailedCreate" if active < desired(replica_set) else "FailedDelete"
    condition = conditions.make(FAILURE, conditions.TRUE, reason, failure.message, now)
    return conditions.changed(current, condition)


def seconds_to_availability(
    pods: Sequence[Pod], min_ready_seconds: int, now: datetime.datetime
) -> float | None:
    """Return the seconds until the next ready pod becomes available, or None."""
    waits = [pod_status.seconds_until_available(pod, min_ready_seconds, now) for pod in pods]
    return min((wait for wait in waits if wait), default=None)
