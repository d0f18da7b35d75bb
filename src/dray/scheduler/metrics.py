"""Metrics of the scheduler: how long pods wait, and how many. Gauges are computed when read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from dray import telemetry
from dray.scheduler.cluster_state import SchedulerState
from dray.scheduler.queue import IN_PROGRESS, QueueEntry
from dray.scheduling.unschedulable import Unschedulable

WAIT_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


VICTIMS = tuple(float(2**power) for power in range(7))
"""The buckets of kube-scheduler."""


class Metrics:
    """The scheduler's metrics in a registry."""

    def __init__(self, registry: telemetry.Registry, state: SchedulerState) -> None:
        self._queue = state.queue
        self.decisions = telemetry.Histogram(
            "dray_scheduling_decision_seconds",
            "Time to find a place for a pod, or to find that there is none.",
            ("result",),
        )
        self.waits = telemetry.Histogram(
            "dray_pod_scheduling_seconds",
            "Time from the first sight of a pod until it is bound.",
            buckets=WAIT_SECONDS,
        )
        self.lengths = telemetry.Gauge(
            "dray_scheduler_queue_pods", "Pods without a node.", ("state",), self._lengths
        )
        registry.register(self.decisions, self.waits, self.lengths)

    def decided(self, entry: QueueEntry, seconds: float) -> None:
        """Count a decision and its duration."""
        self.decisions.observe(seconds, "placed" if entry.state == IN_PROGRESS else "refused")

    def bound(self, entry: QueueEntry) -> None:
        """Count a bound pod and the time that it waited."""
        self.waits.observe(asyncio.get_running_loop().time() - entry.since)

    def _lengths(self) -> Iterator[tuple[telemetry.Labels, float]]:
        for state, count in self._queue.lengths().items():
            yield (state,), count


class PreemptionMetrics:
    """The metrics of preemption in a registry; the first two are those of kube-scheduler."""

    def __init__(self, registry: telemetry.Registry) -> None:
        self._attempts = telemetry.Counter(
            "scheduler_preemption_attempts_total", "Searches for pods to evict."
        )
        self._victims = telemetry.Histogram(
            "scheduler_preemption_victims", "Victims of a plan of preemption.", buckets=VICTIMS
        )
        self.in_vain = telemetry.Counter(
            "dray_scheduler_preemption_in_vain_total",
            "Pods that were evicted for a pod that could not be placed afterwards.",
        )
        self._plans = telemetry.Histogram(
            "dray_scheduler_preemption_plan_seconds",
            "Time to decide about a pod including the search for pods to evict.",
        )
        for counter in (self._attempts, self.in_vain):
            counter.add(amount=0)
        registry.register(self._attempts, self._victims, self.in_vain, self._plans)

    def attempted(self, result: Unschedulable, seconds: float) -> None:
        """Count a search for pods to evict and its duration."""
        if result.preemption_refusal is not None and result.preemption_refusal.message:
            return
        self._attempts.add()
        self._plans.observe(seconds)
        if result.preemption is not None:
            self._victims.observe(len(result.preemption.victims))
