"""Node lifecycle: marks nodes without a heartbeat as Unknown, and turns conditions into taints.

Behaviour of pkg/controller/nodelifecycle. A change of the lease or the heartbeat shows that a node
is alive. The time since then is measured on the monotonic clock of this process, so that a jump of
a clock, here or on the node, makes no node unreachable. Simulated nodes of one process may share a
lease, which they name in an annotation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from dray.api import errors, kinds, well_known
from dray.api.formats import gotime
from dray.api.semantics import pod_status
from dray.api.semantics.conditions import find_condition, is_condition_true
from dray.api.types.core import Lease
from dray.api.types.nodes import Node, NodeCondition, Taint
from dray.api.well_known import NO_EXECUTE, NO_SCHEDULE, NODE_NOT_READY, NODE_UNREACHABLE
from dray.client import events, object_writes
from dray.client.cache import ObjectChange
from dray.controllers import caches
from dray.controllers.loops import Context, Loop
from dray.controllers.nodes import pod_disruption

COMPONENT = "node-controller"
GRACE_SECONDS, STARTUP_GRACE_SECONDS = 50.0, 60.0
WORKERS = 32
"""Each waits for the disk; thousands of nodes may appear or be lost at once."""

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"

_TAINT_BY_CONDITION = {
    ("Ready", "False"): NODE_NOT_READY,
    ("Ready", "Unknown"): NODE_UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
_MANAGED = frozenset({*_TAINT_BY_CONDITION.values(), UNSCHEDULABLE})
_EVICTING = (NODE_NOT_READY, NODE_UNREACHABLE)
_REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


class NodeLifecycle(Loop[str]):
    """The loop over nodes. Keys are their names."""

    def __init__(self, context: Context, *, grace_seconds: float = GRACE_SECONDS) -> None:
        super().__init__("nodes", context, workers=WORKERS)
        self._grace_seconds = grace_seconds
        self._nodes, self._leases = context.caches.nodes, context.caches.leases
        self._pods = context.caches.pods
        self._recorder = context.recorder(COMPONENT)
        self._last_heartbeat: dict[str, float] = {}
        self._renewed: dict[str, float] = {}
        self._healthy: set[str] = set()
        self._lost: set[str] = set()
        self.follow(self._nodes, self._node_changed)
        self.follow(self._leases, self._lease_changed)

    def resync(self) -> None:
        for node in self._nodes:
            self.queue.add(node.metadata.name)

    def _lease_changed(self, change: ObjectChange[Lease]) -> None:
        if change.key.namespace != well_known.NODE_LEASE_NAMESPACE:
            return
        if change.new is None:
            self._renewed.pop(change.key.name, None)
        elif change.old is None or change.old.spec.renew_time != change.new.spec.renew_time:
            self._renewed[change.key.name] = _clock()

    def _node_changed(self, change: ObjectChange[Node]) -> None:
        name, node = change.key.name, change.new
        if node is None:
            self._forget(change)
            return
        before = find_condition(change.old.status.conditions, "Ready") if change.old else None
        ready = find_condition(node.status.conditions, "Ready")
        if change.old is None or _heartbeat(before) != _heartbeat(ready):
            self._last_heartbeat[name] = _clock()
        if before is not None and before.status == "True" and not is_ready(node):
            self._lost.add(name)
        self._count_healthy(name, is_ready(node))
        self.queue.add(name)

    def _forget(self, change: ObjectChange[Node]) -> None:
        name = change.key.name
        if change.old is not None and caches.is_gone(self._nodes, change.key):
            self._record_event(change.old, "RemovingNode", f"Removing Node {name} from Controller")
            self._last_heartbeat.pop(name, None)
            self._lost.discard(name)
            self._count_healthy(name, False)

    def _count_healthy(self, name: str, healthy: bool) -> None:
        """Count healthy nodes. The first and the last one concern all nodes."""
        had_any = bool(self._healthy)
        (self._healthy.add if healthy else self._healthy.discard)(name)
        if bool(self._healthy) != had_any:
            self.resync()

    async def reconcile(self, key: str) -> float | None:
        node = self._nodes.get(key)
        if node is None:
            return None
        left = self._seconds_left(node)
        if left <= 0:
            if not _is_unknown(node):
                await self._mark_unknown(node)
            left = self._grace_seconds
        if key in self._lost and not is_ready(node):
            await self._mark_pods(node)
        self._lost.discard(key)
        await self._taint(node)
        return left

    def _seconds_left(self, node: Node) -> float:
        """Return the seconds until the node counts as lost."""
        name = node.metadata.name
        lease = node.metadata.annotations.get(well_known.LEASE_ANNOTATION, name)
        last = max(self._last_heartbeat.get(name, 0.0), self._renewed.get(lease, 0.0))
        is_new = find_condition(node.status.conditions, "Ready") is None
        return last + (STARTUP_GRACE_SECONDS if is_new else self._grace_seconds) - _clock()

    async def _mark_unknown(self, node: Node) -> None:
        if await self._is_alive(node):
            return
        status = {"conditions": [self._unknown(node, type_) for type_ in _REPORTED]}
        await object_writes.patch_status(
            self.client, kinds.NODE, node.metadata, status, at_version=True, merges_lists=True
        )

    async def _is_alive(self, node: Node) -> bool:
        """Return whether the lease on the server is newer: the cache may be behind."""
        name = node.metadata.annotations.get(well_known.LEASE_ANNOTATION, node.metadata.name)
        lease = self._leases.get(name, well_known.NODE_LEASE_NAMESPACE)
        try:
            live = await self.client.get(kinds.LEASE, name, well_known.NODE_LEASE_NAMESPACE)
        except errors.NotFound:
            return False
        renewed = (live.get("spec") or {}).get("renewTime")
        if lease is not None and lease.spec.renew_time == renewed:
            return False
        self._renewed[name] = _clock()
        return True

    def _unknown(self, node: Node, type_: str) -> dict[str, Any]:
        current = find_condition(node.status.conditions, type_)
        since: str | None = gotime.write(self.now())
        if current is None:
            created = node.metadata.creation_timestamp
            current = NodeCondition(type=type_, last_heartbeat_time=created)
            reason, message = "NodeStatusNeverUpdated", "Kubelet never posted node status."
        else:
            reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
            if current.status == "Unknown":
                since = current.last_transition_time
        encoded: dict[str, Any] = msgspec.to_builtins(current)
        unknown = {"status": "Unknown", "reason": reason, "message": message}
        return {**encoded, **unknown, "lastTransitionTime": since}

    async def _mark_pods(self, node: Node) -> None:
        """Set the pods of a lost node to not ready."""
        name = node.metadata.name
        self._record_event(node, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
        for pod in self._pods.find(caches.NODE, name):
            if not pod_status.is_ready(pod):
                continue
            now = gotime.write(self.now())
            not_ready = {"type": "Ready", "status": "False", "lastTransitionTime": now}
            await pod_disruption.set_condition(self.client, pod, not_ready)
            reference = events.reference(kinds.POD, pod.metadata)
            self._recorder.record(reference, events.WARNING, "NodeNotReady", "Node is not ready")

    async def _taint(self, node: Node) -> None:
        desired = [
            *(taint for taint in node.spec.taints if not _is_managed(taint)),
            *self._desired_taints(node),
        ]
        before = {(taint.key, taint.effect) for taint in node.spec.taints}
        if before == {(taint.key, taint.effect) for taint in desired}:
            return
        version = node.metadata.resource_version
        taints = msgspec.to_builtins(desired) or None
        patch = {"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}
        await self.client.patch(kinds.NODE, node.metadata.name, patch)

    def _desired_taints(self, node: Node) -> Iterable[Taint]:
        keys = [
            key
            for (type_, status), key in _TAINT_BY_CONDITION.items()
            if (condition := find_condition(node.status.conditions, type_)) is not None
            and condition.status == status
        ]
        if find_condition(node.status.conditions, "Ready") is None:
            keys.append(NODE_NOT_READY)
        if node.spec.unschedulable:
            keys.append(UNSCHEDULABLE)
        for key in keys:
            yield self._taint_of(node, key, NO_SCHEDULE)
            # When every node is lost, we are probably the ones who are: nobody is evicted then.
            if key in _EVICTING and self._healthy:
                yield self._taint_of(node, key, NO_EXECUTE)

    def _taint_of(self, node: Node, key: str, effect: str) -> Taint:
        for taint in node.spec.taints:
            if (taint.key, taint.effect) == (key, effect):
                return taint
        return Taint(key=key, effect=effect, time_added=gotime.write(self.now()))

    def _record_event(self, node: Node, reason: str, note: str) -> None:
        reference = events.reference(kinds.NODE, node.metadata)
        self._recorder.record(reference, events.NORMAL, reason, note)


def is_ready(node: Node) -> bool:
    return is_condition_true(node.status.conditions, "Ready")


def _is_unknown(node: Node) -> bool:
    ready = find_condition(node.status.conditions, "Ready")
    return ready is not None and ready.status == "Unknown"


def _heartbeat(ready: NodeCondition | None) -> tuple[str, str | None] | None:
    return (ready.status, ready.last_heartbeat_time) if ready else None


def _is_managed(taint: Taint) -> bool:
    if taint.effect == NO_EXECUTE:
        return taint.key in _EVICTING
    return taint.effect == NO_SCHEDULE and taint.key in _MANAGED


def _clock() -> float:
    return asyncio.get_running_loop().time()
