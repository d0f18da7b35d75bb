"""Decides which daemon pods are created and which are deleted.

Behaviour of pkg/controller/daemon: podsShouldBeOnNode of daemon_controller.go, rollingUpdate of
update.go.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from dray.api.semantics import pod_status
from dray.api.templates import daemon_pods
from dray.api.templates.workload_types import DaemonSet
from dray.api.types.pods import Pod
from dray.api.well_known import REVISION_LABEL
from dray.controllers.workloads import rollouts

PodsByNode = Mapping[str, Sequence[Pod]]


class Moves(NamedTuple):
    """The nodes that get a pod, and the pods to delete."""

    nodes: list[str]
    pods: list[Pod]


@dataclass(frozen=True, slots=True)
class DaemonNodes:
    """The names of all nodes, and of those that suit the set."""

    existing: Set[str]
    desired: Set[str]
    """Nodes that should have a pod."""
    tolerable: Set[str]
    """Nodes on which a running pod may stay."""


class UpdateBudget(NamedTuple):
    """The number of nodes that may have two pods, and none, during an update."""

    surge: int
    unavailable: int


class OnNode(NamedTuple):
    """The pod of the present revision on a node, and the one of an older revision."""

    new: Pod | None
    old: Pod | None


@dataclass(frozen=True, slots=True)
class Daemons:
    """The pods of a set at one moment; `revision` is the hash of its present revision."""

    daemon_set: DaemonSet
    revision: str
    nodes: DaemonNodes
    by_node: PodsByNode
    now: datetime.datetime

    def is_available(self, pod: Pod) -> bool:
        return pod_status.is_available(pod, self.daemon_set.spec.min_ready_seconds, self.now)

    def is_updated(self, pod: Pod) -> bool:
        labels, generation = pod.metadata.labels, daemon_pods.generation_of(self.daemon_set)
        has_generation = bool(generation) and labels.get(daemon_pods.GENERATION_LABEL) == generation
        return has_generation or labels.get(REVISION_LABEL) == self.revision

    def on_node(self, node: str) -> OnNode | None:
        """Return the pods of a node, or None if there are duplicates, which `placement` deletes."""
        staying = [pod for pod in self.by_node.get(node, ()) if not pod_status.is_deleted(pod)]
        new = [pod for pod in staying if self.is_updated(pod)]
        old = [pod for pod in staying if not self.is_updated(pod)]
        if len(new) > 1 or len(old) > 1:
            return None
        return OnNode(next(iter(new), None), next(iter(old), None))

    def on_nodes(self) -> Iterable[tuple[str, OnNode | None]]:
        for node in sorted(self.by_node.keys() | self.nodes.desired):
            yield node, self.on_node(node)


def budget(daemon_set: DaemonSet, desired: int) -> UpdateBudget:
    """Return the budget of an update. Percentages round up; at least one pod may be missing."""
    rolling = daemon_set.spec.update_strategy.rolling_update
    surge = rollouts.scaled(rolling.max_surge if rolling else None, desired, up=True)
    unavailable = rollouts.scaled(rolling.max_unavailable if rolling else None, desired, up=True)
    return UpdateBudget(surge, unavailable if surge or unavailable else 1)


def by_age(pods: Iterable[Pod]) -> list[Pod]:
    """Sort pods: those with a node first, then the oldest."""

    def rank(pod: Pod) -> tuple[bool, str, str]:
        metadata = pod.metadata
        return not pod.spec.node_name, metadata.creation_timestamp or "", metadata.name

    return sorted(pods, key=rank)


def placement(daemons: Daemons) -> Moves:
    """Return the moves to one pod on every suitable node, none ended, and none elsewhere."""
    moves = Moves([], [])
    nodes = daemons.nodes
    for node in sorted(nodes.existing):
        pods = daemons.by_node.get(node, ())
        staying = [pod for pod in pods if not pod_status.is_deleted(pod)]
        if node in nodes.desired and not pods:
            moves.nodes.append(node)
        elif node in nodes.tolerable:
            alive = by_age(pod for pod in staying if not pod_status.has_ended(pod))
            moves.pods.extend(pod for pod in staying if pod_status.has_ended(pod))
            moves.pods.extend(_excess(daemons, alive))
            if not alive and node in nodes.desired and _allows_surge(daemons.daemon_set):
                moves.nodes.append(node)
        else:
            moves.pods.extend(staying)
    moves.pods.extend(_unplaceable(daemons))
    return moves


def _allows_surge(daemon_set: DaemonSet) -> bool:
    is_rolling = daemon_set.spec.update_strategy.type != "OnDelete"
    return is_rolling and budget(daemon_set, 1).surge > 0


def _excess(daemons: Daemons, alive: Sequence[Pod]) -> Sequence[Pod]:
    """Return all pods but the oldest; with surge, all but an old and an unavailable new one."""
    if not _allows_surge(daemons.daemon_set):
        return alive[1:]
    new = [pod for pod in alive if pod.metadata.labels.get(REVISION_LABEL) == daemons.revision]
    old = [pod for pod in alive if pod not in new]
    excess = new[1:] + old[1:]
    if new and old and (not pod_status.is_ready(old[0]) or daemons.is_available(new[0])):
        excess.append(old[0])
    return excess


def _unplaceable(daemons: Daemons) -> Iterable[Pod]:
    """Return pods for nodes that are gone; the scheduler will never place them."""
    for node, pods in daemons.by_node.items():
        if node not in daemons.nodes.existing:
            waiting = (pod for pod in pods if not pod.spec.node_name)
            yield from (pod for pod in waiting if not pod_status.is_deleted(pod))


def update(daemons: Daemons) -> Moves:
    """Return the next step from old pods to new ones that the strategy allows."""
    if daemons.daemon_set.spec.update_strategy.type == "OnDelete":
        return Moves([], [])
    allowed = budget(daemons.daemon_set, len(daemons.nodes.desired))
    if allowed.surge:
        return _update_by_surge(daemons, allowed.surge)
    return _update_in_place(daemons, allowed.unavailable)


def _update_in_place(daemons: Daemons, allowed: int) -> Moves:
    """Delete old pods: unavailable ones, and others up to the allowed number."""
    missing, down, up = 0, [], []
    for _, pods in daemons.on_nodes():
        if pods is None or (pods.new is None) == (pods.old is None):
            missing += 1
        elif pods.new is not None:
            missing += not daemons.is_available(pods.new)
        elif pods.old is not None and daemons.is_available(pods.old):
            up.append(pods.old)
        elif pods.old is not None:
            missing += 1
            down.append(pods.old)
    return Moves([], down + up[: max(allowed - missing, 0)])


def _update_by_surge(daemons: Daemons, allowed: int) -> Moves:
    """Create new pods beside old ones, and delete an old one when the new one is available."""
    surging, available = 0, 0
    needy: list[str] = []
    candidates: list[str] = []
    replaced: list[Pod] = []
    misplaced: list[Pod] = []
    for node, pods in daemons.on_nodes():
        if pods is None:
            surging += 1
            continue
        oldest = pods.old or pods.new
        available += oldest is not None and daemons.is_available(oldest)
        if pods.old is None:
            continue
        is_up = daemons.is_available(pods.old)
        if pods.new is not None and daemons.is_available(pods.new):
            replaced.append(pods.old)
        elif pods.new is not None:
            surging += 1
        elif node in daemons.nodes.desired:
            (candidates if is_up else needy).append(node)
        else:
            (misplaced if is_up else replaced).append(pods.old)
    spare = max(available - len(daemons.nodes.desired), 0)
    return Moves(needy + candidates[: max(allowed - surging, 0)], replaced + misplaced[:spare])
