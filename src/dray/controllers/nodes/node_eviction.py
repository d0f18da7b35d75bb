"""Evicts pods from nodes with NoExecute taints that they do not tolerate, or no longer.

Behaviour of pkg/controller/tainteviction.
"""

from __future__ import annotations

import asyncio

from dray.api import kinds
from dray.api.ids import ObjectKey
from dray.api.semantics import pod_status
from dray.api.semantics.node_taints import FOREVER, evicting_taints, tolerated_seconds
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.client import events
from dray.client.cache import ObjectChange
from dray.controllers import caches
from dray.controllers.loops import Context, Loop
from dray.controllers.nodes import pod_disruption

COMPONENT = "taint-eviction-controller"


class NodeEviction(Loop[ObjectKey]):
    """The loop over pods on tainted nodes. Keys are pods."""

    def __init__(self, context: Context) -> None:
        super().__init__("node-eviction", context)
        self._nodes, self._pods = context.caches.nodes, context.caches.pods
        self._recorder = context.recorder(COMPONENT)
        self._since: dict[str, float] = {}
        self.follow(self._nodes, self._node_changed)
        self.follow(self._pods, self._pod_changed)

    def resync(self) -> None:
        for node in self._nodes:
            self._add_pods(node)

    def _node_changed(self, change: ObjectChange[Node]) -> None:
        before = evicting_taints(change.old) if change.old else []
        after = evicting_taints(change.new) if change.new else []
        node = change.new or change.old
        if node is not None and before != after:
            self._add_pods(node, even_untainted=True)

    def _add_pods(self, node: Node, *, even_untainted: bool = False) -> None:
        if even_untainted or evicting_taints(node):
            for pod in self._pods.find(caches.NODE, node.metadata.name):
                self.queue.add(pod.metadata.key)

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        if change.new is None:
            if change.old is not None:
                self._since.pop(change.old.metadata.uid, None)
            return
        node = self._nodes.get(change.new.spec.node_name) if change.new.spec.node_name else None
        if node is not None and evicting_taints(node):
            self.queue.add(change.key)

    async def reconcile(self, key: ObjectKey) -> float | None:
        pod = self._pods.get(key.name, key.namespace)
        node = self._nodes.get(pod.spec.node_name) if pod and pod.spec.node_name else None
        if pod is None or node is None or not pod_status.is_active(pod):
            return None
        left = self._seconds_left(pod, node)
        if left == FOREVER:
            self._cancel(pod)
            return None
        if left > 0:
            return left
        self._record_event(pod, f"Marking for deletion Pod {key}")
        reason = "DeletionByTaintManager"
        message = "Taint manager: deleting due to NoExecute taint"
        await pod_disruption.end(self.client, pod, self.now(), reason, message)
        return None

    def _seconds_left(self, pod: Pod, node: Node) -> float:
        tolerated = tolerated_seconds(pod.spec.tolerations, evicting_taints(node))
        if tolerated == FOREVER:
            return FOREVER
        now = asyncio.get_running_loop().time()
        return self._since.setdefault(pod.metadata.uid, now) + tolerated - now

    def _cancel(self, pod: Pod) -> None:
        if self._since.pop(pod.metadata.uid, None) is not None:
            self._record_event(pod, f"Cancelling deletion of Pod {pod.metadata.key}")

    def _record_event(self, pod: Pod, note: str) -> None:
        reference = events.reference(kinds.POD, pod.metadata)
        self._recorder.record(reference, events.NORMAL, "TaintManagerEviction", note)
