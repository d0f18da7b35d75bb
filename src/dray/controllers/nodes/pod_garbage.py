"""Deletes pods that no node agent deletes: of missing nodes, without a node, or too many.

Behaviour of pkg/controller/podgc. Before pods are deleted, their node must be missing for a while,
and the API server must confirm that.
"""

from __future__ import annotations

import asyncio

from dray.api import errors, kinds
from dray.api.ids import ObjectKey
from dray.api.semantics import pod_status
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.client.cache import ObjectChange
from dray.controllers import caches
from dray.controllers.loops import Context, Loop
from dray.controllers.nodes import pod_disruption

QUARANTINE_SECONDS = 40.0
MAX_ENDED_PODS = 12_500


class PodGarbage(Loop[ObjectKey]):
    def __init__(
        self,
        context: Context,
        *,
        quarantine_seconds: float = QUARANTINE_SECONDS,
        max_ended: int = MAX_ENDED_PODS,
    ) -> None:
        super().__init__("pod-garbage", context)
        self._quarantine_seconds = quarantine_seconds
        self._max_ended = max_ended
        self._nodes, self._pods = context.caches.nodes, context.caches.pods
        self._missing_since: dict[str, float] = {}
        self._ended: set[ObjectKey] = set()
        self._excess: set[ObjectKey] = set()
        self.follow(self._nodes, self._node_changed)
        self.follow(self._pods, self._pod_changed)

    def resync(self) -> None:
        for pod in self._pods:
            self._consider(pod)

    def _node_changed(self, change: ObjectChange[Node]) -> None:
        if change.new is not None:
            self._missing_since.pop(change.key.name, None)
        elif caches.is_gone(self._nodes, change.key):
            for pod in self._pods.find(caches.NODE, change.key.name):
                self._consider(pod)

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        if change.new is None:
            self._ended.discard(change.key)
            self._excess.discard(change.key)
            return
        self._consider(change.new)
        if pod_status.has_ended(change.new):
            self._ended.add(change.key)
            if len(self._ended) - len(self._excess) > self._max_ended:
                self._choose_excess()

    def _consider(self, pod: Pod) -> None:
        node = pod.spec.node_name
        if (node and self._nodes.get(node) is None) or (not node and pod_status.is_deleted(pod)):
            self.queue.add(pod.metadata.key)

    def _choose_excess(self) -> None:
        """Queue the oldest pods that have ended, evicted ones first."""
        candidates = (self._pods.get(key.name, key.namespace) for key in self._ended - self._excess)
        ended = sorted(filter(None, candidates), key=_excess_rank)
        for pod in ended[: len(ended) - self._max_ended]:
            self._excess.add(pod.metadata.key)
            self.queue.add(pod.metadata.key)

    async def reconcile(self, key: ObjectKey) -> float | None:
        pod = self._pods.get(key.name, key.namespace)
        if pod is None:
            return None
        if key in self._excess or (pod_status.is_deleted(pod) and not pod.spec.node_name):
            await pod_disruption.end(self.client, pod, self.now(), "", "", at_once=True)
            return None
        if not pod.spec.node_name or self._nodes.get(pod.spec.node_name) is not None:
            return None
        return await self._collect_orphan(pod)

    async def _collect_orphan(self, pod: Pod) -> float | None:
        node, now = pod.spec.node_name, asyncio.get_running_loop().time()
        left = self._missing_since.setdefault(node, now) + self._quarantine_seconds - now
        if left > 0:
            return left
        try:
            await self.client.get(kinds.NODE, node)
        except errors.NotFound:
            reason, message = "DeletionByPodGC", "PodGC: node no longer exists"
            await pod_disruption.end(self.client, pod, self.now(), reason, message, at_once=True)
        return None


def _excess_rank(pod: Pod) -> tuple[bool, str, str]:
    metadata = pod.metadata
    return pod.status.reason != "Evicted", metadata.creation_timestamp or "", metadata.name
