"""Priorities of pods, and the cost of evicting them as kube-scheduler compares it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from dray.api.formats import gotime
from dray.api.types.pods import Pod
from dray.scheduling.state import SchedulingState

PRIORITY_OFFSET = 1 << 31
"""Makes priorities positive, so that a further victim always costs more (as kube-scheduler)."""
NOT_STARTED = 1 << 62


class EvictionCost(NamedTuple):
    """The cost of a set of victims; of two sets, the one with the smaller cost is evicted.

    Pods that are being deleted already cost nothing.
    https://github.com/kubernetes/kubernetes/blob/release-1.37/pkg/scheduler/framework/preemption/preemption.go
    (pickOneNodeForPreemption)
    """

    violations: int
    """The victims that are more than their disruption budgets allow."""
    highest: int
    """The highest priority, plus `PRIORITY_OFFSET`; 0 also without victims."""
    total: int
    """The sum of the priorities, each plus `PRIORITY_OFFSET`."""
    pods: int
    start: int
    """When the first of the victims with the highest priority started, negative."""


NO_COST = EvictionCost(0, 0, 0, 0, -NOT_STARTED)


class Costly(Protocol):
    """A victim as far as its cost: a pod, or all pods of a PodGroup that are evicted as one."""

    @property
    def priority(self) -> int: ...

    @property
    def budgets(self) -> tuple[tuple[int, ...], ...]:
        """Return the numbers of the disruption budgets of each of the pods."""

    @property
    def start(self) -> int: ...


Evicted = TypeVar("Evicted", bound=Costly)


def cost_of(evicted: Sequence[Costly], allowed: Sequence[int]) -> EvictionCost:
    """Return the cost of a set of victims. `allowed` is what each budget allows."""
    if not evicted:
        return NO_COST
    left = list(allowed)
    violations = highest = total = pods = 0
    for one in in_budget_order(evicted):
        for budgets in one.budgets:
            for number in budgets:
                left[number] -= 1
            violations += any(left[number] < 0 for number in budgets)
            pods += 1
            total += one.priority + PRIORITY_OFFSET
        highest = max(highest, one.priority + PRIORITY_OFFSET)
    start = min(one.start for one in evicted if one.priority + PRIORITY_OFFSET == highest)
    return EvictionCost(violations, highest, total, pods, -start)


def in_budget_order(evicted: Iterable[Evicted]) -> list[Evicted]:
    """Return victims in the order in which they use up the budgets.

    As filterPodsWithPDBViolation, more important pods come first; of equally important pods, those
    with the budgets that come first by name.
    """
    return sorted(evicted, key=lambda one: (-one.priority, one.budgets))


def priority_of(pod: Pod) -> int:
    return pod.spec.priority or 0


def effective_priority(pod: Pod, state: SchedulingState) -> int:
    """Return the priority that counts for preemption: of a pod in a PodGroup, that of the group.

    https://github.com/kubernetes/kubernetes/blob/release-1.37/pkg/scheduler/framework/preemption/util.go
    (GetPodPriority)
    """
    # Most pods are in no group. This is asked of every pod of the cluster.
    if pod.spec.scheduling_group is None or not state.features.generic_workload:
        return priority_of(pod)
    group = state.group_of(pod)
    return priority_of(pod) if group is None else group.spec.priority or 0


def start_of(pod: Pod) -> int:
    """Return when a pod started, in seconds; a pod that did not start counts as the latest."""
    return _seconds(pod.status.start_time) if pod.status.start_time else NOT_STARTED


@functools.lru_cache(maxsize=1 << 16)
def _seconds(time: str) -> int:
    return int(gotime.parse(time).timestamp())
