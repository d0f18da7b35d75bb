"""PodDisruptionBudgets: computes how many of their pods may be disrupted now.

Behaviour of pkg/controller/disruption. The eviction API and preemption use these numbers.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.ids import ObjectKey
from dray.api.selectors import label_selectors
from dray.api.semantics import owner_references, pod_status
from dray.api.templates import workload_types
from dray.api.types.core import PodDisruptionBudget, PodDisruptionBudgetStatus
from dray.api.types.meta import Condition, OwnerReference
from dray.api.types.pods import Pod
from dray.client.cache import ObjectChange
from dray.controllers import caches, status_patches
from dray.controllers.loops import Context, ObjectLoop
from dray.controllers.workloads import rollouts

DELETION_SECONDS = 120.0
"""Time for which a pod counts as disrupted after its eviction was allowed."""
ALLOWED = "DisruptionAllowed"


class Expected(NamedTuple):
    """The expected number of pods, and of healthy ones."""

    pods: int
    healthy: int


class Budgets(ObjectLoop):
    def __init__(self, context: Context) -> None:
        super().__init__("budgets", context, context.caches.budgets, workers=1)
        shared = context.caches
        self._budgets, self._pods = shared.budgets, shared.pods
        self._deployments, self._replica_sets = shared.deployments, shared.replica_sets
        self._stateful_sets = shared.stateful_sets
        self._replication_controllers = shared.replication_controllers
        self.follow(self._pods, self._pod_changed)

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        for budget in self._budgets.find(caches.NAMESPACE, change.key.namespace):
            selector = label_selectors.label_selector(budget.spec.selector)
            pods = (pod for pod in (change.old, change.new) if pod is not None)
            if any(selector.matches(pod.metadata.labels) for pod in pods):
                self.queue.add(ObjectKey(change.key.namespace, budget.metadata.name))

    async def reconcile(self, key: ObjectKey) -> float | None:
        budget = self._budgets.get(key.name, key.namespace)
        if budget is None or budget.metadata.deletion_timestamp:
            return None
        matches = label_selectors.label_selector(budget.spec.selector).matches
        everyone = self._pods.find(caches.NAMESPACE, key.namespace)
        pods = [pod for pod in everyone if matches(pod.metadata.labels)]
        now = self.now()
        leaving = _leaving(budget, pods, now)
        status = next_status(budget, pods, self._expected(budget, pods), leaving, now)
        with contextlib.suppress(errors.NotFound):
            await status_patches.patch_status(
                self.client, kinds.POD_DISRUPTION_BUDGET, budget.metadata, budget.status, status
            )
        ends = (DELETION_SECONDS - (now - since).total_seconds() for since in leaving.values())
        return min(ends, default=None)

    def _expected(self, budget: PodDisruptionBudget, pods: Sequence[Pod]) -> Expected:
        least, most_missing = budget.spec.min_available, budget.spec.max_unavailable
        if most_missing is not None:
            scale = self._scale(pods)
            missing = rollouts.scaled(most_missing, scale, up=True)
            return Expected(scale, max(scale - missing, 0))
        if isinstance(least, int) or least is None:
            return Expected(len(pods), least or 0)
        scale = self._scale(pods)
        return Expected(scale, rollouts.scaled(least, scale, up=True))

    def _scale(self, pods: Sequence[Pod]) -> int:
        """Return the replicas that the controllers of the pods want, each controller once."""
        sizes: dict[str, int] = {}
        for pod in pods:
            owner = owner_references.controller_of(pod.metadata)
            if owner is not None:
                uid, size = self._size(owner, pod.metadata.namespace)
                sizes[uid] = size
        return sum(sizes.values())

    def _size(self, owner: OwnerReference, namespace: str) -> tuple[str, int]:
        if owner.kind == kinds.STATEFUL_SET.kind:
            stateful_set = self._stateful_sets.get(owner.name, namespace)
            if stateful_set is not None:
                return owner.uid, workload_types.replicas(stateful_set)
        if owner.kind == kinds.REPLICATION_CONTROLLER.kind:
            controller = self._replication_controllers.get(owner.name, namespace)
            return owner.uid, workload_types.replicas(controller) if controller else 0
        replica_set = self._replica_sets.get(owner.name, namespace)
        if owner.kind != kinds.REPLICA_SET.kind or replica_set is None:
            return owner.uid, 0
        above = owner_references.controlled_by(replica_set.metadata, kinds.DEPLOYMENT)
        deployment = self._deployments.get(above.name, namespace) if above else None
        if above is not None and deployment is not None:
            return above.uid, workload_types.replicas(deployment)
        return owner.uid, workload_types.replicas(replica_set)


def _leaving(
    budget: PodDisruptionBudget, pods: Sequence[Pod], now: datetime.datetime
) -> dict[str, datetime.datetime]:
    """Return the pods whose eviction was allowed recently, with the time of that."""
    leaving = {}
    for pod in pods:
        text = budget.status.disrupted_pods.get(pod.metadata.name)
        if text is None or pod_status.is_deleted(pod):
            continue
        since = gotime.parse(text)
        if (now - since).total_seconds() <= DELETION_SECONDS:
            leaving[pod.metadata.name] = since
    return leaving


def next_status(
    budget: PodDisruptionBudget,
    pods: Sequence[Pod],
    expected: Expected,
    leaving: Mapping[str, datetime.datetime],
    now: datetime.datetime,
) -> PodDisruptionBudgetStatus:
    healthy = sum(
        pod_status.is_ready(pod) and not pod_status.is_deleted(pod)
        for pod in pods
        if pod.metadata.name not in leaving
    )
    allowed = max(healthy - expected.healthy, 0) if expected.pods else 0
    return PodDisruptionBudgetStatus(
        observed_generation=budget.metadata.generation,
        current_healthy=healthy,
        desired_healthy=expected.healthy,
        expected_pods=expected.pods,
        disruptions_allowed=allowed,
        disrupted_pods={name: gotime.write(since) for name, since in leaving.items()},
        conditions=_conditions(budget, allowed, now),
    )


def _conditions(
    budget: PodDisruptionBudget, allowed: int, now: datetime.datetime
) -> tuple[Condition, ...]:
    new = Condition(
        type=ALLOWED,
        status="True" if allowed else "False",
        reason="SufficientPods" if allowed else "InsufficientPods",
        observed_generation=budget.metadata.generation,
        last_transition_time=gotime.write(now),
    )
    others = []
    for condition in budget.status.conditions:
        if condition.type != ALLOWED:
            others.append(condition)
        elif condition.status == new.status:
            new = msgspec.structs.replace(new, last_transition_time=condition.last_transition_time)
    return (*others, new)
