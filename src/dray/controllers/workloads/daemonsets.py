"""DaemonSets: one pod on every suitable node. Behaviour of pkg/controller/daemon.

The scheduler binds the pods: each names its node in its affinity.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from dray.api import errors, kinds
from dray.api.semantics import pod_status
from dray.api.templates import daemon_pods
from dray.api.templates.workload_types import DaemonSet
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.api.types.workloads import ControllerRevision, DaemonSetStatus
from dray.api.well_known import REVISION_LABEL
from dray.client.cache import ObjectChange
from dray.controllers.loops import Context
from dray.controllers.workloads import daemon_updates, pod_control, workload_loop
from dray.controllers.workloads.controller_revisions import RevisionHistory
from dray.controllers.workloads.daemon_updates import DaemonNodes, Daemons
from dray.controllers.workloads.workload_loop import WorkloadLoop

COMPONENT = "daemonset-controller"
FAILED_POD_DELAY_SECONDS = 1.0


class DaemonSets(WorkloadLoop[DaemonSet, Pod]):
    def __init__(self, context: Context) -> None:
        shared = context.caches
        super().__init__("daemonsets", COMPONENT, context, shared.daemon_sets, shared.pods)
        self._nodes, revisions = shared.nodes, shared.controller_revisions
        self._history = RevisionHistory(self.client, kinds.DAEMON_SET, revisions, REVISION_LABEL)
        self._every_write.append(self._history.writes)
        self.follow(revisions, self._queue_owners)
        self.follow(self._nodes, self._node_changed)

    def _node_changed(self, change: ObjectChange[Node]) -> None:
        old, new = change.old, change.new
        if old is None or new is None or _placement(old) != _placement(new):
            self.resync()

    async def _reconcile(self, daemon_set: DaemonSet) -> float | None:
        if daemon_set.metadata.deletion_timestamp:
            return None
        pods = await self._claim(daemon_set)
        revisions = await self._history.of(daemon_set)
        current, collisions = await self._history.record(daemon_set, revisions)
        daemons = self._daemons(daemon_set, pods, _hash(current))
        failure = None
        try:
            await self._move(daemons)
        except errors.StatusError as error:
            failure = error
        await self._write_status(daemon_set, daemon_set.status, next_status(daemons, collisions))
        if failure is not None:
            raise failure
        name = current.metadata.name
        old = [revision for revision in revisions if revision.metadata.name != name]
        await self._history.delete(daemon_set, _surplus(daemon_set, old, pods))
        return _seconds_to_next_look(daemons)

    def _daemons(self, daemon_set: DaemonSet, pods: Iterable[Pod], revision: str) -> Daemons:
        """Return the pods by node, without those that have ended and are being deleted."""
        by_node: dict[str, list[Pod]] = {}
        for pod in pods:
            if not (pod_status.has_ended(pod) and pod_status.is_deleted(pod)):
                by_node.setdefault(daemon_pods.target_node(pod), []).append(pod)
        return Daemons(daemon_set, revision, self._suitable_nodes(daemon_set), by_node, self.now())

    def _suitable_nodes(self, daemon_set: DaemonSet) -> DaemonNodes:
        spec = daemon_pods.spec_of(daemon_set)
        matching = [node for node in self._nodes if daemon_pods.matches(spec, node)]
        come, stay = daemon_pods.COME, daemon_pods.STAY
        return DaemonNodes(
            existing=_names(self._nodes),
            desired=_names(node for node in matching if daemon_pods.tolerates(spec, node, come)),
            tolerable=_names(node for node in matching if daemon_pods.tolerates(spec, node, stay)),
        )

    async def _move(self, daemons: Daemons) -> None:
        """Create missing pods, delete surplus and ended ones, then update old ones."""
        moves = daemon_updates.placement(daemons)
        if not (moves.nodes or moves.pods):
            moves = daemon_updates.update(daemons)
        owner = daemons.daemon_set.metadata
        bodies = [
            daemon_pods.pod_body(daemons.daemon_set, node, daemons.revision) for node in moves.nodes
        ]
        deleted = await self._control.delete_all(owner, moves.pods)
        created = await self._control.create_all(owner, bodies)
        pod_control.check(deleted)
        pod_control.check(created)


def _hash(revision: ControllerRevision) -> str:
    """Return the value of the revision label of a revision's pods."""
    return revision.metadata.labels.get(REVISION_LABEL) or revision.metadata.name


def _surplus(
    daemon_set: DaemonSet, old: Sequence[ControllerRevision], pods: Iterable[Pod]
) -> Sequence[ControllerRevision]:
    """Return the oldest revisions beyond the history limit that no pod has."""
    limit = daemon_set.spec.revision_history_limit
    live = {pod.metadata.labels.get(REVISION_LABEL) for pod in pods}
    unused = [revision for revision in old if _hash(revision) not in live]
    return () if limit is None else unused[: max(len(old) - limit, 0)]


def _seconds_to_next_look(daemons: Daemons) -> float | None:
    pods = [pod for node_pods in daemons.by_node.values() for pod in node_pods]
    min_ready_seconds = daemons.daemon_set.spec.min_ready_seconds
    wait = workload_loop.seconds_to_availability(pods, min_ready_seconds, daemons.now)
    if any(map(pod_status.has_ended, pods)):
        return min(wait or FAILED_POD_DELAY_SECONDS, FAILED_POD_DELAY_SECONDS)
    return wait


def _names(nodes: Iterable[Node]) -> set[str]:
    return {node.metadata.name for node in nodes}


def _placement(node: Node) -> tuple[Any, ...]:
    """Return the fields of a node that decide whether daemons run on it."""
    return node.metadata.labels, node.spec.taints, node.spec.unschedulable


def next_status(daemons: Daemons, collisions: int) -> DaemonSetStatus:
    """Return the status, computed from the oldest pod of each node."""
    nodes, daemon_set = daemons.nodes, daemons.daemon_set
    oldest = {node: daemon_updates.by_age(pods)[0] for node, pods in daemons.by_node.items()}
    placed = [pod for node, pod in oldest.items() if node in nodes.desired]
    available = sum(map(daemons.is_available, placed))
    return msgspec.structs.replace(
        daemon_set.status,
        desired_number_scheduled=len(nodes.desired),
        current_number_scheduled=len(placed),
        number_misscheduled=len(oldest.keys() & (nodes.existing - nodes.desired)),
        number_ready=sum(map(pod_status.is_ready, placed)),
        number_available=available,
        number_unavailable=len(nodes.desired) - available,
        updated_number_scheduled=sum(map(daemons.is_updated, placed)),
        observed_generation=daemon_set.metadata.generation,
        collision_count=collisions or daemon_set.status.collision_count,
    )
