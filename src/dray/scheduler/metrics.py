"""Metrics of the scheduler: how long pods wait, and how many. Gauges are computed when read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from dray import telemetry
from dray.scheduler.cluster_state import SchedulerState
from dray.scheduler.queue import IN_PROGRESS, QueueEntry

WAIT_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


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
