"""DaemonSets: one pod on every node that will have it. Behaviour of pkg/controller/daemon.

The pods are bound by the scheduler: each names its node in its affinity.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dray.api import ownership, selectors
from dray.api.nodes import Node
from dray.api.pods import Pod, PodSpec, Toleration
from dray.api.workloads import DaemonSetStatus
from dray.client.cache import Change, ObjectKey
from dray.client.verbs import Object
from dray.controllers import caches, loops, podstate, resources, wire
from dray.controllers.loops import Context, Loop
from dray.controllers.nodes import node_eviction
from dray.controllers.ownwrites import UNSEEN_RETRY_SECONDS, OwnWrites
from dray.controllers.templated import DaemonSet
from dray.controllers.workloads import deletionorder, podmaking, rollouts
from dray.controllers.workloads.adoption import Adopter
from dray.controllers.workloads.podmaking import PodMaker
from dray.controllers.workloads.templatehash import template_hash

COMPONENT = "daemonset-controller"
REVISION_LABEL = "controller-revision-hash"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
FAILED_POD_DELAY_SECONDS = 1.0

_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_TOLERATED_ON_HOST_NETWORK = (("node.kubernetes.io/network-unavailable", "NoSchedule"),)

PodsByNode = Mapping[str, Sequence[Pod]]


class DaemonSets(Loop[ObjectKey]):
    def __init__(self, context: Context) -> None:
        super().__init__("daemonsets", context)
        shared = context.caches
        self._sets, self._pods, self._nodes = shared.daemon_sets, shared.pods, shared.nodes
        self._written: OwnWrites[ObjectKey] = OwnWrites(self._sets)
        self._pod_writes: OwnWrites[ObjectKey] = OwnWrites(self._pods)
        recorder = context.recorder(COMPONENT)
        self._maker = PodMaker(self.client, resources.DAEMON_SET, recorder, self._pod_writes)
        self._adopter: Adopter[Pod] = Adopter(self.client, resources.POD, resources.DAEMON_SET)
        self.follow(self._sets, lambda change: self.queue.add(change.key))
        self.follow(self._pods, self._pod_changed)
        self.follow(self._nodes, self._node_changed)

    def resync(self) -> None:
        loops.add_all(self.queue, self._sets)

    def _pod_changed(self, change: Change[Pod]) -> None:
        for pod in (change.old, change.new):
            owner = ownership.controlled_by(pod.metadata, resources.DAEMON_SET) if pod else None
            if owner is not None:
                self.queue.add(ObjectKey(change.key.namespace, owner.name))

    def _node_changed(self, change: Change[Node]) -> None:
        old, new = change.old, change.new
        if old is None or new is None or _placement(old) != _placement(new):
            self.resync()

    async def reconcile(self, key: ObjectKey) -> float | None:
        daemon_set = self._sets.get(key.name, key.namespace)
        if daemon_set is None:
            self._written.forget(key)
            self._pod_writes.forget(key)
            return None
        if not (self._written.are_seen(key) and self._pod_writes.are_seen(key)):
            return UNSEEN_RETRY_SECONDS
        by_node = await self._claim(daemon_set)
        revision, again = revision_of(daemon_set), None
        fitting = self._fitting(daemon_set)
        if not daemon_set.metadata.deletion_timestamp:
            again = await self._place(daemon_set, by_node, fitting, revision)
        now = self.now()
        status = next_status(daemon_set, by_node, fitting, revision, now)
        written = await wire.patch_status(
            self.client, resources.DAEMON_SET, daemon_set.metadata, daemon_set.status, status
        )
        if written:
            self._written.note(key, written)
        return again

    async def _claim(self, daemon_set: DaemonSet) -> dict[str, list[Pod]]:
        metadata = daemon_set.metadata
        owned = await self._adopter.claim(
            metadata,
            selectors.label_selector(daemon_set.spec.selector),
            self._pods.find(caches.OWNER, metadata.uid),
            self._pods.find(caches.ORPHAN, metadata.namespace),
        )
        by_node: dict[str, list[Pod]] = {}
        for pod in owned:
            by_node.setdefault(target_node(pod), []).append(pod)
        return by_node

    def _fitting(self, daemon_set: DaemonSet) -> set[str]:
        """The nodes that should have a pod of the set."""
        raw = (daemon_set.spec.template.get("spec") or {}) | {
            "tolerations": _tolerations(daemon_set.spec.template.get("spec") or {})
        }
        spec = wire.decode(raw, PodSpec)
        return {node.metadata.name for node in self._nodes if should_run(spec, node)}

    async def _place(
        self, daemon_set: DaemonSet, by_node: PodsByNode, fitting: set[str], revision: str
    ) -> float | None:
        """Make what is missing, delete what is too much or has failed, roll what is old."""
        missing, surplus, failed = [], [], []
        for node in sorted(fitting | by_node.keys()):
            pods = by_node.get(node, ())
            alive = [pod for pod in pods if not podstate.has_ended(pod)]
            failed += [pod for pod in pods if podstate.has_ended(pod)]
            if node not in fitting:
                surplus += alive
            elif not alive and not pods:
                missing.append(node)
            elif alive:
                surplus += deletionorder.first_to_go(alive, self.now())[:-1]
        unwanted = [pod for pod in (*surplus, *failed) if not podstate.is_deleted(pod)]
        podmaking.check(await self._maker.delete_all(daemon_set.metadata, unwanted))
        bodies = [pod_body(daemon_set, node, revision) for node in missing]
        podmaking.check(await self._maker.create_all(daemon_set.metadata, bodies))
        if not missing and not unwanted:
            await self._update(daemon_set, by_node, fitting, revision)
        return FAILED_POD_DELAY_SECONDS if failed else None

    async def _update(
        self, daemon_set: DaemonSet, by_node: PodsByNode, fitting: set[str], revision: str
    ) -> None:
        """Delete pods of older revisions as far as availability allows."""
        if daemon_set.spec.update_strategy.type == "OnDelete":
            return
        rolling = daemon_set.spec.update_strategy.rolling_update
        allowed = rolling.max_unavailable if rolling else None
        budget = max(rollouts.scaled(allowed, len(fitting), up=True), 1)
        pods = [pod for node in sorted(fitting) for pod in by_node.get(node, ())]
        min_ready, now = daemon_set.spec.min_ready_seconds, self.now()
        old = []
        for pod in pods:
            is_up = podstate.is_active(pod) and podstate.is_available(pod, min_ready, now)
            budget -= not is_up
            if pod.metadata.labels.get(REVISION_LABEL) != revision and podstate.is_active(pod):
                old.append((is_up, pod))
        unavailable = [pod for is_up, pod in old if not is_up]
        available = [pod for is_up, pod in old if is_up]
        chosen = unavailable + available[: max(budget, 0)]
        podmaking.check(await self._maker.delete_all(daemon_set.metadata, chosen))


def revision_of(daemon_set: DaemonSet) -> str:
    return template_hash(daemon_set.spec.template, daemon_set.status.collision_count)


def target_node(pod: Pod) -> str:
    """The node a pod is on, or asks for in its affinity."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    for term in required.node_selector_terms if required else ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.values:
                return field.values[0]
    return ""


def should_run(spec: PodSpec, node: Node) -> bool:
    """Whether a daemon pod fits the node by name, affinity and taints."""
    if spec.node_name not in ("", node.metadata.name):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    fits = selectors.compile_required_affinity(spec.node_selector, required)
    if not fits(node.metadata.labels, node.metadata.name):
        return False
    return _tolerates_all(spec.tolerations, node)


def _tolerates_all(tolerations: Iterable[Toleration], node: Node) -> bool:
    given = tuple(tolerations)
    return all(
        any(node_eviction.tolerates(toleration, taint) for toleration in given)
        for taint in node.spec.taints
        if taint.effect in ("NoSchedule", "NoExecute")
    )


def _placement(node: Node) -> tuple[Any, ...]:
    """What of a node decides whether daemons run on it."""
    return node.metadata.labels, node.spec.taints, node.spec.unschedulable


def _tolerations(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Daemons stay on nodes in trouble: what they do may be what ends it."""
    always = [*_TOLERATED, *(_TOLERATED_ON_HOST_NETWORK if spec.get("hostNetwork") else ())]
    given: list[dict[str, Any]] = spec.get("tolerations") or []
    return given + [{"key": key, "operator": "Exists", "effect": effect} for key, effect in always]


def pod_body(daemon_set: DaemonSet, node: str, revision: str) -> Object:
    body = podmaking.pod_from(daemon_set.spec.template, resources.DAEMON_SET, daemon_set.metadata)
    labels = body["metadata"].get("labels", {})
    body["metadata"]["labels"] = {**labels, REVISION_LABEL: revision}
    spec = body["spec"]
    spec["tolerations"] = _tolerations(spec)
    affinity = dict(spec.get("affinity") or {})
    required = (affinity.get("nodeAffinity") or {}).get(REQUIRED) or {}
    given: list[dict[str, Any]] = required.get("nodeSelectorTerms") or [{}]
    on_node = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    terms = [{**term, "matchFields": on_node} for term in given]
    affinity["nodeAffinity"] = {
        **(affinity.get("nodeAffinity") or {}),
        REQUIRED: {"nodeSelectorTerms": terms},
    }
    spec["affinity"] = affinity
    return body


def next_status(
    daemon_set: DaemonSet,
    by_node: PodsByNode,
    fitting: set[str],
    revision: str,
    now: datetime.datetime,
) -> DaemonSetStatus:
    placed = [
        pods[0]
        for node in sorted(fitting)
        if (pods := [pod for pod in by_node.get(node, ()) if not podstate.has_ended(pod)])
    ]
    misplaced = sum(
        any(podstate.is_active(pod) for pod in pods)
        for node, pods in by_node.items()
        if node not in fitting
    )
    min_ready = daemon_set.spec.min_ready_seconds
    available = sum(podstate.is_available(pod, min_ready, now) for pod in placed)
    return msgspec.structs.replace(
        daemon_set.status,
        desired_number_scheduled=len(fitting),
        current_number_scheduled=len(placed),
        number_misscheduled=misplaced,
        number_ready=sum(map(podstate.is_ready, placed)),
        number_available=available,
        number_unavailable=len(fitting) - available,
        updated_number_scheduled=sum(
            pod.metadata.labels.get(REVISION_LABEL) == revision for pod in placed
        ),
        observed_generation=daemon_set.metadata.generation,
    )
