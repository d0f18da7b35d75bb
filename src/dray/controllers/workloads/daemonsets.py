"""DaemonSets: one pod on every suitable node. Behaviour of pkg/controller/daemon.

The scheduler binds the pods: each names its node in its affinity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dray.api import errors, kinds, well_known
from dray.api.selectors import node_selectors
from dray.api.semantics import pod_status, tolerations
from dray.api.types.meta import JsonObject
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod, PodSpec
from dray.api.types.workloads import ControllerRevision, DaemonSetStatus
from dray.client.cache import ObjectChange
from dray.controllers import status_patches
from dray.controllers.loops import Context
from dray.controllers.slim_types import DaemonSet
from dray.controllers.workloads import daemon_updates, pod_control, workload_loop
from dray.controllers.workloads.controller_revisions import POD_LABEL, RevisionHistory
from dray.controllers.workloads.daemon_updates import DaemonNodes, Daemons
from dray.controllers.workloads.workload_loop import WorkloadLoop

COMPONENT = "daemonset-controller"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
FAILED_POD_DELAY_SECONDS = 1.0

_TOLERATED = (
    (well_known.NODE_NOT_READY, well_known.NO_EXECUTE),
    (well_known.NODE_UNREACHABLE, well_known.NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", well_known.NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", well_known.NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", well_known.NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", well_known.NO_SCHEDULE),
)
_TOLERATED_ON_HOST_NETWORK = (("node.kubernetes.io/network-unavailable", well_known.NO_SCHEDULE),)


class DaemonSets(WorkloadLoop[DaemonSet, Pod]):
    def __init__(self, context: Context) -> None:
        shared = context.caches
        super().__init__("daemonsets", COMPONENT, context, shared.daemon_sets, shared.pods)
        self._nodes, revisions = shared.nodes, shared.controller_revisions
        self._history = RevisionHistory(self.client, kinds.DAEMON_SET, revisions, POD_LABEL)
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
                by_node.setdefault(target_node(pod), []).append(pod)
        return Daemons(daemon_set, revision, self._suitable_nodes(daemon_set), by_node, self.now())

    def _suitable_nodes(self, daemon_set: DaemonSet) -> DaemonNodes:
        template: dict[str, Any] = daemon_set.spec.template.get("spec") or {}
        spec = status_patches.decode({**template, "tolerations": _tolerations(template)}, PodSpec)
        matching = [node for node in self._nodes if matches(spec, node)]
        stay, come = (well_known.NO_EXECUTE,), (well_known.NO_SCHEDULE, well_known.NO_EXECUTE)
        return DaemonNodes(
            existing={node.metadata.name for node in self._nodes},
            desired={node.metadata.name for node in matching if tolerates(spec, node, come)},
            tolerable={node.metadata.name for node in matching if tolerates(spec, node, stay)},
        )

    async def _move(self, daemons: Daemons) -> None:
        """Create missing pods, delete surplus and ended ones, then update old ones."""
        moves = daemon_updates.placement(daemons)
        if not (moves.nodes or moves.pods):
            moves = daemon_updates.update(daemons)
        owner = daemons.daemon_set.metadata
        bodies = [pod_body(daemons.daemon_set, node, daemons.revision) for node in moves.nodes]
        deleted = await self._control.delete_all(owner, moves.pods)
        created = await self._control.create_all(owner, bodies)
        pod_control.check(deleted)
        pod_control.check(created)


def _hash(revision: ControllerRevision) -> str:
    """Return the value of the revision label of a revision's pods."""
    return revision.metadata.labels.get(POD_LABEL) or revision.metadata.name


def _surplus(
    daemon_set: DaemonSet, old: Sequence[ControllerRevision], pods: Iterable[Pod]
) -> Sequence[ControllerRevision]:
    """Return the oldest revisions beyond the history limit that no pod has."""
    limit = daemon_set.spec.revision_history_limit
    live = {pod.metadata.labels.get(POD_LABEL) for pod in pods}
    unused = [revision for revision in old if _hash(revision) not in live]
    return () if limit is None else unused[: max(len(old) - limit, 0)]


def _seconds_to_next_look(daemons: Daemons) -> float | None:
    pods = [pod for node_pods in daemons.by_node.values() for pod in node_pods]
    min_ready_seconds = daemons.daemon_set.spec.min_ready_seconds
    wait = workload_loop.seconds_to_availability(pods, min_ready_seconds, daemons.now)
    if any(map(pod_status.has_ended, pods)):
        return min(wait or FAILED_POD_DELAY_SECONDS, FAILED_POD_DELAY_SECONDS)
    return wait


def target_node(pod: Pod) -> str:
    """Return the node of a pod, or the one that its affinity requires."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    for term in required.node_selector_terms if required else ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.values:
                return field.values[0]
    return ""


def matches(spec: PodSpec, node: Node) -> bool:
    """Return whether the name, labels and affinity of a daemon pod allow the node."""
    if spec.node_name not in ("", node.metadata.name):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    fits = node_selectors.compile_required_affinity(spec.node_selector, required)
    return fits(node.metadata.labels, node.metadata.name)


def tolerates(spec: PodSpec, node: Node, effects: Sequence[str]) -> bool:
    """Return whether a daemon pod tolerates the node's taints with one of the effects."""
    return all(
        tolerations.is_tolerated(taint, spec.tolerations)
        for taint in node.spec.taints
        if taint.effect in effects
    )


def _placement(node: Node) -> tuple[Any, ...]:
    """Return the fields of a node that decide whether daemons run on it."""
    return node.metadata.labels, node.spec.taints, node.spec.unschedulable


def _tolerations(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tolerations of daemon pods.

    Daemons stay on failing nodes: they may be what repairs or observes them.
    """
    always = [*_TOLERATED, *(_TOLERATED_ON_HOST_NETWORK if spec.get("hostNetwork") else ())]
    own: list[dict[str, Any]] = spec.get("tolerations") or []
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in always]
    return [toleration for toleration in own if toleration not in added] + added


def pod_body(daemon_set: DaemonSet, node: str, revision: str) -> JsonObject:
    body = pod_control.pod_from(daemon_set.spec.template, kinds.DAEMON_SET, daemon_set.metadata)
    labels = {**body["metadata"].get("labels", {}), POD_LABEL: revision}
    if generation := daemon_updates.generation_of(daemon_set):
        labels[daemon_updates.GENERATION_LABEL] = generation
    body["metadata"]["labels"] = labels
    spec = body["spec"]
    spec["tolerations"] = _tolerations(spec)
    affinity = dict(spec.get("affinity") or {})
    on_node = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    affinity["nodeAffinity"] = {
        **(affinity.get("nodeAffinity") or {}),
        REQUIRED: {"nodeSelectorTerms": [{"matchFields": on_node}]},
    }
    spec["affinity"] = affinity
    return body


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
