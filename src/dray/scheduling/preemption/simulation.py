"""Pods that are removed from the state for a trial."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dray.api.ids import ClaimKey
from dray.api.semantics import pod_claims
from dray.api.types.dra import AllocationResult
from dray.api.types.pods import Pod
from dray.scheduling.nodes.node_fit import NodeState
from dray.scheduling.nodes.pod_requirements import PodUsage
from dray.scheduling.state import SchedulingState


class RemovalSimulation:
    """Pods removed from the state for a trial, with the devices that only they use.

    Removals bypass the log of changed nodes: everything is restored before anyone else reads the
    nodes, so cached rankings stay valid. With `is_logged` they do not, so that nodes can be chosen
    meanwhile. `kept` are claims that keep their devices in any case.
    """

    def __init__(
        self, state: SchedulingState, kept: Collection[ClaimKey] = (), *, is_logged: bool = False
    ) -> None:
        self._state, self._kept, self._is_logged = state, kept, is_logged
        self._usages: dict[str, tuple[NodeState, PodUsage]] = {}
        self._removed: dict[str, Pod] = {}
        self._released: dict[ClaimKey, AllocationResult] = {}

    def set(self, pods: Iterable[Pod]) -> None:
        """Remove exactly these pods, and restore all others."""
        target = {pod.metadata.uid: pod for pod in pods}
        for uid, pod in list(self._removed.items()):
            if uid not in target:
                self.restore(pod)
        for uid, pod in target.items():
            if uid not in self._removed:
                self.remove(pod)
        if not target:
            self._restore_claims(list(self._released))

    def release(self, claims: Iterable[ClaimKey]) -> None:
        """Release the devices of claims, until no pod is removed any more."""
        for key in claims:
            if key not in self._kept:
                self._release(key)

    def _release(self, key: ClaimKey) -> None:
        claim = self._state.claims.get(key)
        if claim is not None and claim.status.allocation is not None:
            self._released[key] = claim.status.allocation
            self._state.inventory.release(key)

    def remove(self, pod: Pod) -> None:
        """Remove one more pod."""
        uid, node = pod.metadata.uid, self._state.nodes.get(pod.spec.node_name)
        self._removed[uid] = pod
        self._state.affinity.hidden.add(uid)
        if node is not None and uid in node.usages:
            self._usages[uid] = (node, node.remove(uid))
            self._log(node)
        for key in pod_claims.used_claims(pod):
            claim = self._state.claims.get(key)
            if claim is None or claim.status.allocation is None or key in self._kept:
                continue
            # A shared claim frees its devices only with the last of its consumers.
            consumers = claim.status.reserved_for
            if consumers and all(consumer.uid in self._removed for consumer in consumers):
                self._release(key)

    def _restore_claims(self, keys: Iterable[ClaimKey]) -> None:
        for key in keys:
            if key in self._released:
                self._state.inventory.record_allocation(key, self._released.pop(key))

    def restore(self, pod: Pod) -> None:
        """Restore one of the removed pods."""
        uid = pod.metadata.uid
        del self._removed[uid]
        self._state.affinity.hidden.discard(uid)
        if uid in self._usages:
            node, usage = self._usages.pop(uid)
            node.add(uid, usage)
            self._log(node)
        self._restore_claims(pod_claims.used_claims(pod))

    def _log(self, node: NodeState) -> None:
        if self._is_logged:
            self._state.nodes.changes.add(node.index)
