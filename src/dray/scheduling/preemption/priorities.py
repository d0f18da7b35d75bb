"""Priorities of pods, and the cost of evicting them as kube-scheduler compares it."""

from __future__ import annotations

import functools
from typing import NamedTuple

from dray.api.formats import gotime
from dray.api.types.pods import Pod

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


def priority_of(pod: Pod) -> int:
    return pod.spec.priority or 0


def start_of(pod: Pod) -> int:
    """Return when a pod started, in seconds; a pod that did not start counts as the latest."""
    return _seconds(pod.status.start_time) if pod.status.start_time else NOT_STARTED


@functools.lru_cache(maxsize=1 << 16)
def _seconds(time: str) -> int:
    return int(gotime.parse(time).timestamp())
