"""Deployments move their ReplicaSets from one pod template to the next.

Behaviour of pkg/controller/deployment. `rollouts` computes the sizes, `deployment_status` the
status.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import msgspec

from dray.api import errors, kinds
from dray.api.ids import ObjectKey
from dray.api.semantics import owner_references, pod_status
from dray.api.semantics.conditions import find_condition
from dray.api.templates import workload_types
from dray.api.templates.workload_types import Deployment, ReplicaSet
from dray.api.types.meta import LabelSelector
from dray.api.types.pods import Pod
from dray.api.types.workloads import DeploymentStatus
from dray.client import events, object_writes
from dray.client.cache import ObjectChange
from dray.controllers import caches, conditions, status_patches
from dray.controllers.conditions import Conditions
from dray.controllers.loops import Context
from dray.controllers.workloads import (
    deployment_status,
    pod_control,
    replicaset_revisions,
    rollouts,
)
from dray.controllers.workloads.rollouts import Sizes
from dray.controllers.workloads.workload_loop import WorkloadLoop

COMPONENT = "deployment-controller"


class Deployments(WorkloadLoop[Deployment, ReplicaSet]):
    def __init__(self, context: Context) -> None:
        shared = context.caches
        super().__init__("deployments", COMPONENT, context, shared.deployments, shared.replica_sets)
        self._pods = shared.pods
        self.follow(self._pods, self._pod_changed)

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        """Queue a Recreate deployment when its last old pod has ended."""
        pod = change.new or change.old
        if pod is None or (change.new is not None and not pod_status.has_ended(change.new)):
            return
        owner = owner_references.controlled_by(pod.metadata, kinds.REPLICA_SET)
        replica_set = self._owned.get(owner.name, change.key.namespace) if owner else None
        if replica_set is not None:
            above = owner_references.controlled_by(replica_set.metadata, kinds.DEPLOYMENT)
            if above is not None:
                self.queue.add(ObjectKey(change.key.namespace, above.name))

    async def _reconcile(self, deployment: Deployment) -> float | None:
        if deployment.spec.selector == LabelSelector():
            await self._refuse_to_select_all(deployment)
            return None
        sets = await self._claim(deployment)
        before = deployment.status
        if not deployment.metadata.deletion_timestamp:
            deployment = _with(deployment, deployment_status.with_pause(deployment, self.now()))
        try:
            status = await self._roll(deployment, sets)
        except _Stop as stop:
            await self._write_status(deployment, before, stop.status)
            if stop.cause is not None:
                raise stop.cause from None
            return None
        await self._write_status(deployment, before, status)
        return deployment_status.seconds_to_deadline(deployment, status, self.now())

    async def _refuse_to_select_all(self, deployment: Deployment) -> None:
        note = "This deployment is selecting all pods. A non-empty selector is required."
        self._control.record_event(deployment.metadata, events.WARNING, "SelectingAll", note)
        generation = deployment.metadata.generation
        status = msgspec.structs.replace(deployment.status, observed_generation=generation)
        await self._write_status(deployment, deployment.status, status)

    async def _roll(self, deployment: Deployment, sets: Sequence[ReplicaSet]) -> DeploymentStatus:
        """Do one step of the rollout. Returns the status after it."""
        new = rollouts.find_new(deployment, sets)
        old = [set_ for set_ in sets if new is None or set_.metadata.uid != new.metadata.uid]
        if new is not None:
            deployment, new = await self._take_over(deployment, old, new)
        if deployment.metadata.deletion_timestamp:
            return deployment_status.counted(deployment, old, new, self.now())
        if deployment.spec.paused or _is_scaled(deployment, sets):
            return await self._scale(deployment, old, new)
        if rollouts.is_rolling(deployment):
            return await self._roll_on(deployment, old, new)
        return await self._recreate(deployment, old, new)

    async def _take_over(
        self, deployment: Deployment, old: Sequence[ReplicaSet], new: ReplicaSet
    ) -> tuple[Deployment, ReplicaSet]:
        """Bring annotations and revision of the current ReplicaSet and the deployment in sync."""
        annotations = replicaset_revisions.current_annotations(
            deployment, new, replicaset_revisions.following(old)
        )
        min_ready = deployment.spec.min_ready_seconds
        changes: dict[str, Any] = {}
        if annotations != new.metadata.annotations:
            changes["metadata"] = {"annotations": annotations}
        if min_ready != new.spec.min_ready_seconds:
            changes["spec"] = {"minReadySeconds": min_ready}
        if changes:
            new = await self._change_set(deployment, new, changes)
        deployment = await self._record_revision(deployment, rollouts.revision(new))
        if find_condition(deployment.status.conditions, deployment_status.PROGRESSING) is None:
            message = f'Found new replica set "{new.metadata.name}"'
            deployment = self._progressing(deployment, deployment_status.FOUND, message)
        return deployment, new

    def _progressing(
        self, deployment: Deployment, reason: str, message: str, status: str = conditions.TRUE
    ) -> Deployment:
        """Return the deployment with a Progressing condition, if it has a deadline."""
        changed = deployment_status.progressing(deployment, status, reason, message, self.now())
        return _with(deployment, changed)

    async def _record_revision(self, deployment: Deployment, revision: int) -> Deployment:
        annotations = {rollouts.REVISION: str(revision)}
        if deployment.metadata.annotations.get(rollouts.REVISION) == str(revision):
            return deployment
        raw = await object_writes.patch_metadata(
            self.client, kinds.DEPLOYMENT, deployment.metadata, {"annotations": annotations}
        )
        self._written.record(deployment.metadata.key, raw)
        metadata = status_patches.decode(raw, Deployment).metadata
        return msgspec.structs.replace(deployment, metadata=metadata)

    async def _change_set(
        self, deployment: Deployment, replica_set: ReplicaSet, changes: dict[str, Any]
    ) -> ReplicaSet:
        metadata = replica_set.metadata
        changes.setdefault("metadata", {})["resourceVersion"] = metadata.resource_version
        raw = await self.client.patch(kinds.REPLICA_SET, metadata.name, changes, metadata.namespace)
        self._owned_writes.record(deployment.metadata.key, raw)
        return status_patches.decode(raw, ReplicaSet)

    async def _scale(
        self, deployment: Deployment, old: Sequence[ReplicaSet], new: ReplicaSet | None
    ) -> DeploymentStatus:
        """Change sizes of a scaled or paused deployment without continuing the rollout."""
        replica_sets = [*old, new] if new else list(old)
        sizes = _scaled_sizes(deployment, old, new)
        resized = await self._resize_all(deployment, replica_sets, sizes)
        if new is not None:
            new = next(item for item in resized if item.metadata.uid == new.metadata.uid)
        old = [item for item in resized if new is None or item.metadata.uid != new.metadata.uid]
        if deployment.spec.paused:
            await self._clean_up(deployment, old)
        return deployment_status.counted(deployment, old, new, self.now())

    async def _resize_all(
        self, deployment: Deployment, sets: Sequence[ReplicaSet], sizes: Sizes
    ) -> list[ReplicaSet]:
        return [
            await self._resize(deployment, set_, sizes[set_.metadata.name])
            if set_.metadata.name in sizes
            else set_
            for set_ in sets
        ]

    async def _resize(
        self, deployment: Deployment, replica_set: ReplicaSet, size: int
    ) -> ReplicaSet:
        before = workload_types.replicas(replica_set)
        annotations = replicaset_revisions.size_annotations(deployment)
        has_annotations = annotations.items() <= replica_set.metadata.annotations.items()
        if before == size and has_annotations:
            return replica_set
        changes = {"metadata": {"annotations": annotations}, "spec": {"replicas": size}}
        resized = await self._change_set(deployment, replica_set, changes)
        if before != size:
            self._tell_scaled(deployment, replica_set.metadata.name, before, size)
        return resized

    def _tell_scaled(self, deployment: Deployment, name: str, before: int, after: int) -> None:
        direction = "up" if after > before else "down"
        note = f"Scaled {direction} replica set {name} from {before} to {after}"
        self._control.record_event(deployment.metadata, events.NORMAL, "ScalingReplicaSet", note)

    async def _roll_on(
        self, deployment: Deployment, old: Sequence[ReplicaSet], new: ReplicaSet | None
    ) -> DeploymentStatus:
        """Grow the new ReplicaSet as far as the surge allows, else shrink the old ones."""
        if new is None:
            deployment, new = await self._create_set(deployment, old)
        size = rollouts.new_size(deployment, old, new)
        if size != workload_types.replicas(new):
            new = await self._resize(deployment, new, size)
            return deployment_status.rolled(deployment, old, new, self.now())
        active = [item for item in old if workload_types.replicas(item)]
        sizes = _changes_only(active, rollouts.old_sizes(deployment, active, new))
        if sizes:
            old = await self._resize_all(deployment, old, sizes)
        elif deployment_status.is_complete(deployment, deployment.status):
            await self._clean_up(deployment, old)
        return deployment_status.rolled(deployment, old, new, self.now())

    async def _recreate(
        self, deployment: Deployment, old: Sequence[ReplicaSet], new: ReplicaSet | None
    ) -> DeploymentStatus:
        """Create the new ReplicaSet's pods when all old pods are gone."""
        sizes = {item.metadata.name: 0 for item in old if workload_types.replicas(item)}
        if sizes or self._are_running(old):
            old = await self._resize_all(deployment, old, sizes)
            return deployment_status.rolled(deployment, old, new, self.now())
        if new is None:
            deployment, new = await self._create_set(deployment, old)
        if workload_types.replicas(new) != workload_types.replicas(deployment):
            new = await self._resize(deployment, new, workload_types.replicas(deployment))
        if deployment_status.is_complete(deployment, deployment.status):
            await self._clean_up(deployment, old)
        return deployment_status.rolled(deployment, old, new, self.now())

    def _are_running(self, old: Sequence[ReplicaSet]) -> bool:
        pods = (pod for item in old for pod in self._pods.find(caches.OWNER, item.metadata.uid))
        return any(item.status.replicas for item in old) or not all(map(pod_status.has_ended, pods))

    async def _create_set(
        self, deployment: Deployment, old: Sequence[ReplicaSet]
    ) -> tuple[Deployment, ReplicaSet]:
        size = rollouts.first_size(deployment, old)
        revision = replicaset_revisions.following(old)
        body = replicaset_revisions.replica_set(deployment, size, revision)
        name = body["metadata"]["name"]
        try:
            raw = await self.client.create(kinds.REPLICA_SET, body, deployment.metadata.namespace)
        except errors.AlreadyExists as error:
            return deployment, await self._existing(deployment, name, error)
        except errors.StatusError as error:
            raise self._creation_failed(deployment, name, error) from error
        self._owned_writes.record(deployment.metadata.key, raw)
        if size:
            self._tell_scaled(deployment, name, 0, size)
        deployment = await self._record_revision(deployment, revision)
        message = f'Created new replica set "{name}"'
        deployment = self._progressing(deployment, deployment_status.CREATED, message)
        return deployment, status_patches.decode(raw, ReplicaSet)

    async def _existing(
        self, deployment: Deployment, name: str, error: errors.AlreadyExists
    ) -> ReplicaSet:
        """Return our own ReplicaSet that the cache did not have yet.

        Raises _Stop if another template has the same hash, with a higher collision count.
        """
        raw = await self.client.get(kinds.REPLICA_SET, name, deployment.metadata.namespace)
        existing = status_patches.decode(raw, ReplicaSet)
        owner = owner_references.controller_of(existing.metadata)
        is_ours = owner is not None and owner.uid == deployment.metadata.uid
        if is_ours and rollouts.are_equal(existing.spec.template, deployment.spec.template):
            return existing
        count = (deployment.status.collision_count or 0) + 1
        raise _Stop(msgspec.structs.replace(deployment.status, collision_count=count), error)

    def _creation_failed(
        self, deployment: Deployment, name: str, error: errors.StatusError
    ) -> _Stop:
        if pod_control.is_namespace_ending(error):
            return _Stop(deployment.status, None)
        message = f'Failed to create new replica set "{name}": {error}'
        reason = deployment_status.CREATE_FAILED
        self._control.record_event(deployment.metadata, events.WARNING, reason, message)
        failed = self._progressing(deployment, reason, message, conditions.FALSE)
        return _Stop(failed.status, error)

    async def _clean_up(self, deployment: Deployment, old: Sequence[ReplicaSet]) -> None:
        """Delete the oldest ReplicaSets without pods, beyond the history limit."""
        limit = deployment.spec.revision_history_limit
        if limit is None or limit == rollouts.UNLIMITED:
            return
        alive = [item for item in rollouts.by_age(old) if not item.metadata.deletion_timestamp]
        alive.sort(key=rollouts.revision)
        for item in alive[: max(len(alive) - limit, 0)]:
            if _has_no_pods(item):
                with contextlib.suppress(errors.NotFound):
                    await object_writes.delete(self.client, kinds.REPLICA_SET, item.metadata)


class _Stop(Exception):
    """The rollout cannot go on now: the status to write, and the error to raise after that."""

    def __init__(self, status: DeploymentStatus, cause: errors.StatusError | None) -> None:
        super().__init__()
        self.status, self.cause = status, cause


def _with(deployment: Deployment, changed: Conditions) -> Deployment:
    status = msgspec.structs.replace(deployment.status, conditions=changed)
    return msgspec.structs.replace(deployment, status=status)


def _is_scaled(deployment: Deployment, sets: Sequence[ReplicaSet]) -> bool:
    """Return whether the number of replicas changed since the sets were last sized."""
    desired = str(workload_types.replicas(deployment))
    recorded = (
        set_.metadata.annotations.get(rollouts.DESIRED_REPLICAS)
        for set_ in sets
        if workload_types.replicas(set_)
    )
    return any(text is not None and text.isdigit() and text != desired for text in recorded)


def _scaled_sizes(
    deployment: Deployment, old: Sequence[ReplicaSet], new: ReplicaSet | None
) -> Sizes:
    replica_sets = [*old, new] if new else list(old)
    active = [item for item in replica_sets if workload_types.replicas(item)]
    if len(active) <= 1:
        latest = active or ([new] if new else rollouts.by_age(old)[-1:])
        return {item.metadata.name: workload_types.replicas(deployment) for item in latest}
    if rollouts.is_saturated(deployment, new):
        return {item.metadata.name: 0 for item in active if item is not new}
    if rollouts.is_rolling(deployment):
        return rollouts.proportional_sizes(deployment, active)
    return {}


def _changes_only(sets: Sequence[ReplicaSet], sizes: Sizes) -> Sizes:
    before = {set_.metadata.name: workload_types.replicas(set_) for set_ in sets}
    return {name: size for name, size in sizes.items() if before[name] != size}


def _has_no_pods(replica_set: ReplicaSet) -> bool:
    status = replica_set.status
    is_observed = status.observed_generation >= replica_set.metadata.generation
    return is_observed and not status.replicas and not workload_types.replicas(replica_set)
