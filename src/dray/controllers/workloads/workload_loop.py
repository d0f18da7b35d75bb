"""The base of the loops over workloads that own pods or ReplicaSets."""

from __future__ import annotations

import abc
import datetime
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from dray.api.ids import ObjectKey
from dray.api.selectors import label_selectors
from dray.api.semantics import owner_references, pod_status
from dray.api.templates.workload_types import (
    DaemonSet,
    Deployment,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from dray.api.types.meta import Wire
from dray.api.types.pods import Pod
from dray.client.cache import Cache, ObjectChange
from dray.controllers import caches, status_patches
from dray.controllers.loops import Context, ObjectLoop
from dray.controllers.own_writes import UNSEEN_RETRY_SECONDS, OwnWrites
from dray.controllers.workloads import adoption
from dray.controllers.workloads.pod_control import PodControl

WorkloadT = TypeVar(
    "WorkloadT", Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet
)
OwnedT = TypeVar("OwnedT", Pod, ReplicaSet)


class WorkloadLoop(ObjectLoop, Generic[WorkloadT, OwnedT]):
    """A loop over workloads of one kind. `component` is the source of its events."""

    def __init__(
        self,
        name: str,
        component: str,
        context: Context,
        workloads: Cache[WorkloadT],
        owned: Cache[OwnedT],
    ) -> None:
        super().__init__(name, context, workloads)
        self._workloads: Cache[WorkloadT] = workloads
        self._owned: Cache[OwnedT] = owned
        self._written: OwnWrites[ObjectKey] = OwnWrites(workloads)
        self._owned_writes: OwnWrites[ObjectKey] = OwnWrites(owned)
        self._every_write = [self._written, self._owned_writes]
        recorder = context.recorder(component)
        self._control = PodControl(self.client, workloads.kind, recorder, self._owned_writes)
        self._adopter: adoption.Adopter[OwnedT] = adoption.Adopter(
            self.client, owned.kind, workloads.kind
        )
        self.follow(owned, self._owned_changed)

    def _owned_changed(self, change: ObjectChange[OwnedT]) -> None:
        self._queue_owners(change)
        for key in adoption.possible_owners(change, self._workloads):
            self.queue.add(key)

    def _queue_owners(self, change: ObjectChange[Any]) -> None:
        kind = self._workloads.kind
        for item in (change.old, change.new):
            owner = owner_references.controlled_by(item.metadata, kind) if item else None
            if owner is not None:
                self.queue.add(ObjectKey(change.key.namespace, owner.name))

    async def reconcile(self, key: ObjectKey) -> float | None:
        workload = self._workloads.get(key.name, key.namespace)
        if workload is None:
            for writes in self._every_write:
                writes.forget(key)
            return None
        if not all(writes.are_seen(key) for writes in self._every_write):
            return UNSEEN_RETRY_SECONDS
        return await self._reconcile(workload)

    @abc.abstractmethod
    async def _reconcile(self, workload: WorkloadT) -> float | None:
        """Reconcile a workload when the caches show all own writes for it."""

    async def _claim(
        self, workload: WorkloadT, may_adopt: Callable[[OwnedT], bool] = bool
    ) -> list[OwnedT]:
        """Return the objects of the workload, including orphans that it adopts now."""
        metadata = workload.metadata
        return await self._adopter.claim(
            metadata,
            label_selectors.label_selector(workload.spec.selector),
            self._owned.find(caches.OWNER, metadata.uid),
            filter(may_adopt, self._owned.find(caches.ORPHAN, metadata.namespace)),
        )

    async def _write_status(self, workload: WorkloadT, before: Wire, status: Wire) -> None:
        written = await status_patches.patch_status(
            self.client, self._workloads.kind, workload.metadata, before, status
        )
        if written:
            self._written.record(workload.metadata.key, written)


def seconds_to_availability(
    pods: Sequence[Pod], min_ready_seconds: int, now: datetime.datetime
) -> float | None:
    """Return the seconds until the next ready pod becomes available, or None."""
    waits = [pod_status.seconds_until_available(pod, min_ready_seconds, now) for pod in pods]
    return min((wait for wait in waits if wait), default=None)
