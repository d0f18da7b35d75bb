"""Find the PodDisruptionBudgets at which draining nodes stops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dray.api.ids import ObjectKey
from dray.api.types.core import PodDisruptionBudget
from dray.api.types.pods import Pod
from dray.planner.cluster_model import ClusterModel
from dray.planner.placement.place import Plan
from dray.scheduling.nodes import pod_affinity


class BlockedDrain(NamedTuple):
    """A budget that keeps some pods on the nodes that are drained."""

    budget: ObjectKey
    allowed: int
    """How many of its pods may be evicted now."""
    pods: int
    """How many of its pods have to go."""
    waiting: int
    """How many of these get no node, and so never count as healthy again."""


def blocked(cluster: ClusterModel, drained: Sequence[Pod], after: Plan) -> list[BlockedDrain]:
    """Return the budgets that do not allow all evictions, even one after the other.

    An eviction that is refused is tried again, so a pod that runs elsewhere makes room in the
    budget for the next one. A pod that waits does not, and it may be the first that is evicted.
    """
    running = {planned.submitted.pod.metadata.key for planned in after.pods if planned.node}
    return list(_blocked(cluster.of(PodDisruptionBudget), drained, running))


def _blocked(
    budgets: Iterable[PodDisruptionBudget], drained: Sequence[Pod], running: set[ObjectKey]
) -> Iterator[BlockedDrain]:
    for budget in budgets:
        selector = pod_affinity.selector_or_nothing(budget.spec.selector)
        covered = [
            pod.metadata.key
            for pod in drained
            if pod.metadata.namespace == budget.metadata.namespace
            and selector.matches(pod.metadata.labels)
        ]
        waiting = sum(key not in running for key in covered)
        allowed = budget.status.disruptions_allowed
        if len(covered) > allowed and waiting >= allowed:
            yield BlockedDrain(budget.metadata.key, allowed, len(covered), waiting)
