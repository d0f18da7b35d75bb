"""The scheduler's figures: how long pods wait, how many wait, and for what."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

from dray import telemetry
from dray.scheduler.queue import WORKED_ON, Entry, Queue
from dray.scheduler.refusals import Refusal

WAIT_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    def __init__(self, registry: telemetry.Registry, queue: Queue) -> None:
        self._queue = queue
        self._refused: dict[object, tuple[str, int]] = {}
        """What each cohort of waiting pods waits for, and how many claims each pod has open."""
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
        self.pending = telemetry.Gauge(
            "dray_claims_pending",
            "Claims of waiting pods that have no devices, by what the pods wait for.",
            ("reason",),
            self._pending_claims,
        )
        registry.register(self.decisions, self.waits, self.lengths, self.pending)

    def decided(self, entry: Entry, seconds: float) -> None:
        self.decisions.observe(seconds, "placed" if entry.where == WORKED_ON else "refused")

    def bound(self, entry: Entry) -> None:
        self.waits.observe(asyncio.get_running_loop().time() - entry.since)

    def refused(self, question: object, refusal: Refusal, open_claims: int) -> None:
        self._refused[question] = (refusal.category, open_claims)

    def _lengths(self) -> Iterator[tuple[telemetry.Labels, float]]:
        for state, count in self._queue.lengths().items():
            yield (state,), count

    def _pending_claims(self) -> Iterator[tuple[telemetry.Labels, float]]:
        counts: Counter[str] = Counter()
        known = {}
        for cohort, pods in self._queue.waiting():
            found = self._refused.get(cohort.question)
            if found is not None:
                known[cohort.question] = found
                counts[found[0]] += found[1] * pods
        self._refused = known
        for reason, count in counts.items():
            yield (reason,), count
