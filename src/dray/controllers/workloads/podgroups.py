"""Keeps a deleted PodGroup until the last of its pods has ended.

Behaviour of pkg/controller/scheduling/podgroupprotection.
"""

from __future__ import annotations

import contextlib

from dray.api import errors, kinds
from dray.api.ids import ObjectKey
from dray.api.semantics import pod_claims, pod_status
from dray.api.types.pods import Pod
from dray.api.well_known import POD_GROUP_FINALIZER
from dray.client import object_writes
from dray.client.cache import ObjectChange
from dray.controllers import caches
from dray.controllers.loops import Context, ObjectLoop


class PodGroups(ObjectLoop):
    def __init__(self, context: Context) -> None:
        super().__init__("podgroups", context, context.caches.pod_groups, workers=1)
        self._groups, self._pods = context.caches.pod_groups, context.caches.pods
        self.follow(self._pods, self._pod_changed)

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        if change.old is not None and pod_claims.group_name(change.old):
            name = pod_claims.group_name(change.old)
            self.queue.add(ObjectKey(change.key.namespace, name))

    async def reconcile(self, key: ObjectKey) -> None:
        group = self._groups.get(key.name, key.namespace)
        if group is None or not group.metadata.deletion_timestamp:
            return
        if POD_GROUP_FINALIZER not in group.metadata.finalizers:
            return
        if all(map(pod_status.has_ended, self._pods.find(caches.GROUP, key))):
            with contextlib.suppress(errors.NotFound):
                await object_writes.remove_finalizer(
                    self.client, kinds.POD_GROUP, group.metadata, POD_GROUP_FINALIZER
                )
