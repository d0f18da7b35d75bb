"""StatefulSets: pods with an identity, made and replaced one after the other.

Behaviour of pkg/controller/statefulset, with the template of the set as the only one: old
revisions are recognised but not kept, so a pod that is lost comes back in the current revision.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Sequence
from typing import Any

import msgspec

from dray.api import errors, kinds, ownership, selectors
from dray.api.pods import Pod
from dray.api.workloads import StatefulSetStatus
from dray.client.cache import Change, ObjectKey
from dray.client.verbs import Object
from dray.controllers import caches, loops, podstate, resources, wire
from dray.controllers.loops import Context, Loop
from dray.controllers.ownwrites import UNSEEN_RETRY_SECONDS, OwnWrites
from dray.controllers.templated import StatefulSet
from dray.controllers.workloads import podmaking, rollouts
from dray.controllers.workloads.adoption import Adopter
from dray.controllers.workloads.podmaking import PodMaker
from dray.controllers.workloads.templatehash import template_hash

COMPONENT = "statefulset-controller"
REVISION_LABEL = "controller-revision-hash"
POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"
VOLUME_CLAIM = kinds.served("", "PersistentVolumeClaim")


class StatefulSets(Loop[ObjectKey]):
    def __init__(self, context: Context) -> None:
        super().__init__("statefulsets", context)
        self._sets, self._pods = context.caches.stateful_sets, context.caches.pods
        self._written: OwnWrites[ObjectKey] = OwnWrites(self._sets)
        self._pod_writes: OwnWrites[ObjectKey] = OwnWrites(self._pods)
        recorder = context.recorder(COMPONENT)
        self._maker = PodMaker(self.client, resources.STATEFUL_SET, recorder, self._pod_writes)
        self._adopter: Adopter[Pod] = Adopter(self.client, resources.POD, resources.STATEFUL_SET)
        self.follow(self._sets, lambda change: self.queue.add(change.key))
        self.follow(self._pods, self._pod_changed)

    def resync(self) -> None:
        loops.add_all(self.queue, self._sets)

    def _pod_changed(self, change: Change[Pod]) -> None:
        for pod in (change.old, change.new):
            owner = ownership.controlled_by(pod.metadata, resources.STATEFUL_SET) if pod else None
            if owner is not None:
                self.queue.add(ObjectKey(change.key.namespace, owner.name))

    async def reconcile(self, key: ObjectKey) -> float | None:
        stateful_set = self._sets.get(key.name, key.namespace)
        if stateful_set is None:
            self._written.forget(key)
            self._pod_writes.forget(key)
            return None
        if not (self._written.are_seen(key) and self._pod_writes.are_seen(key)):
            return UNSEEN_RETRY_SECONDS
        pods = await self._claim(stateful_set)
        revision = revision_of(stateful_set)
        if not stateful_set.metadata.deletion_timestamp:
            await self._step(stateful_set, pods, revision)
        now = self.now()
        status = next_status(stateful_set, list(pods.values()), revision, now)
        written = await wire.patch_status(
            self.client, resources.STATEFUL_SET, stateful_set.metadata, stateful_set.status, status
        )
        if written:
            self._written.note(key, written)
        waits = [
            podstate.seconds_until_available(pod, stateful_set.spec.min_ready_seconds, now)
            for pod in pods.values()
        ]
        return min((wait for wait in waits if wait), default=None)

    async def _claim(self, stateful_set: StatefulSet) -> dict[int, Pod]:
        """The pods of the set by their ordinal."""
        metadata = stateful_set.metadata
        orphans = [
            pod
            for pod in self._pods.find(caches.ORPHAN, metadata.namespace)
            if ordinal_of(pod, metadata.name) is not None
        ]
        owned = await self._adopter.claim(
            metadata,
            selectors.label_selector(stateful_set.spec.selector),
            self._pods.find(caches.OWNER, metadata.uid),
            orphans,
        )
        found = ((ordinal_of(pod, metadata.name), pod) for pod in owned)
        return {ordinal: pod for ordinal, pod in found if ordinal is not None}

    async def _step(self, stateful_set: StatefulSet, pods: dict[int, Pod], revision: str) -> None:
        """Do what may be done now; with ordered sets that is at most one thing."""
        wanted = ordinals(stateful_set)
        is_ordered = stateful_set.spec.pod_management_policy != "Parallel"
        for ordinal in wanted:
            pod = pods.get(ordinal)
            if pod is None:
                await self._create(stateful_set, ordinal, revision)
            elif podstate.has_ended(pod):
                await self._delete(stateful_set, pod)
            if is_ordered and (pod is None or not self._is_healthy(stateful_set, pod)):
                return
        surplus = sorted((each for each in pods if each not in wanted), reverse=True)
        for ordinal in surplus:
            await self._delete(stateful_set, pods[ordinal])
            if is_ordered:
                return
        if not surplus:
            await self._update(stateful_set, pods, revision)

    def _is_healthy(self, stateful_set: StatefulSet, pod: Pod) -> bool:
        min_ready = stateful_set.spec.min_ready_seconds
        return podstate.is_active(pod) and podstate.is_available(pod, min_ready, self.now())

    async def _update(self, stateful_set: StatefulSet, pods: dict[int, Pod], revision: str) -> None:
        """Replace pods of older revisions, from the highest ordinal down to the partition."""
        strategy = stateful_set.spec.update_strategy
        if strategy.type == "OnDelete":
            return
        rolling = strategy.rolling_update
        partition = (rolling.partition if rolling else None) or 0
        allowed = rolling.max_unavailable if rolling else None
        budget = max(rollouts.scaled(allowed, len(pods), up=True), 1)
        unavailable = sum(not self._is_healthy(stateful_set, pod) for pod in pods.values())
        for ordinal in sorted(pods, reverse=True):
            pod = pods[ordinal]
            if ordinal < partition:
                return
            if pod.metadata.labels.get(REVISION_LABEL) == revision:
                continue
            was_healthy = self._is_healthy(stateful_set, pod)
            if podstate.is_deleted(pod) or (was_healthy and unavailable >= budget):
                return
            await self._delete(stateful_set, pod)
            unavailable += was_healthy

    async def _create(self, stateful_set: StatefulSet, ordinal: int, revision: str) -> None:
        for body in volume_claims(stateful_set, ordinal):
            with contextlib.suppress(errors.AlreadyExists):
                await self.client.create(VOLUME_CLAIM, body, stateful_set.metadata.namespace)
        body = pod_body(stateful_set, ordinal, revision)
        with contextlib.suppress(errors.AlreadyExists):
            await self._maker.create(stateful_set.metadata, body)

    async def _delete(self, stateful_set: StatefulSet, pod: Pod) -> None:
        if not podstate.is_deleted(pod):
            await self._maker.delete(stateful_set.metadata, pod)


def revision_of(stateful_set: StatefulSet) -> str:
    hashed = template_hash(stateful_set.spec.template, stateful_set.status.collision_count)
    return f"{stateful_set.metadata.name}-{hashed}"


def ordinals(stateful_set: StatefulSet) -> range:
    start = stateful_set.spec.ordinals.start if stateful_set.spec.ordinals else 0
    replicas = 1 if stateful_set.spec.replicas is None else stateful_set.spec.replicas
    return range(start, start + replicas)


def ordinal_of(pod: Pod, set_name: str) -> int | None:
    prefix, _, ordinal = pod.metadata.name.rpartition("-")
    return int(ordinal) if prefix == set_name and ordinal.isdigit() else None


def next_status(
    stateful_set: StatefulSet, pods: Sequence[Pod], revision: str, now: datetime.datetime
) -> StatefulSetStatus:
    existing = [pod for pod in pods if not podstate.has_ended(pod)]
    alive = [pod for pod in existing if podstate.is_active(pod)]
    current = stateful_set.status.current_revision or revision
    updated = _of_revision(alive, revision)
    replicas = len(ordinals(stateful_set))
    ready = sum(map(podstate.is_ready, existing))
    if updated == replicas == ready == len(existing):
        current = revision
    min_ready = stateful_set.spec.min_ready_seconds
    return msgspec.structs.replace(
        stateful_set.status,
        observed_generation=stateful_set.metadata.generation,
        replicas=len(existing),
        ready_replicas=ready,
        available_replicas=sum(podstate.is_available(pod, min_ready, now) for pod in existing),
        current_replicas=_of_revision(alive, current),
        updated_replicas=updated,
        current_revision=current,
        update_revision=revision,
        collision_count=stateful_set.status.collision_count or 0,
    )


def _of_revision(pods: Sequence[Pod], revision: str) -> int:
    return sum(pod.metadata.labels.get(REVISION_LABEL) == revision for pod in pods)


def pod_body(stateful_set: StatefulSet, ordinal: int, revision: str) -> Object:
    """A pod that knows who it is: by name, host name, labels and volumes."""
    metadata = stateful_set.metadata
    body = podmaking.pod_from(stateful_set.spec.template, resources.STATEFUL_SET, metadata)
    name = f"{metadata.name}-{ordinal}"
    del body["metadata"]["generateName"]
    body["metadata"]["name"] = name
    body["metadata"]["labels"] = {
        **body["metadata"].get("labels", {}),
        REVISION_LABEL: revision,
        POD_NAME_LABEL: name,
        INDEX_LABEL: str(ordinal),
    }
    body["spec"]["hostname"] = name
    if stateful_set.spec.service_name:
        body["spec"]["subdomain"] = stateful_set.spec.service_name
    if stateful_set.spec.volume_claim_templates:
        body["spec"]["volumes"] = _volumes(stateful_set, ordinal, body["spec"])
    return body


def _volumes(stateful_set: StatefulSet, ordinal: int, spec: dict[str, Any]) -> list[Any]:
    """Volumes of the claim templates take the place of others with their name."""
    claimed = {
        template["metadata"]["name"]: _claim_name(stateful_set, template, ordinal)
        for template in stateful_set.spec.volume_claim_templates
    }
    others = [each for each in spec.get("volumes") or () if each["name"] not in claimed]
    return others + [
        {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        for name, claim in claimed.items()
    ]


def _claim_name(stateful_set: StatefulSet, template: dict[str, Any], ordinal: int) -> str:
    return f"{template['metadata']['name']}-{stateful_set.metadata.name}-{ordinal}"


def volume_claims(stateful_set: StatefulSet, ordinal: int) -> list[Object]:
    """The volume claims of one pod; they outlive it."""
    selector = stateful_set.spec.selector
    labels = selector.match_labels if selector else {}
    return [
        {
            **resources.identity(VOLUME_CLAIM),
            "metadata": {
                **{
                    key: value
                    for key, value in template["metadata"].items()
                    if key in ("annotations", "labels")
                },
                "name": _claim_name(stateful_set, template, ordinal),
                "labels": {**(template["metadata"].get("labels") or {}), **labels},
            },
            "spec": template.get("spec") or {},
        }
        for template in stateful_set.spec.volume_claim_templates
    ]
