"""Metrics of the scheduler: how long pods wait, how many wait and for what, devices by state.

Gauges are computed when they are read.
"""

from __future__ import annotations

import asyncio
import operator
from collections import Counter
from collections.abc import Callable, Hashable, Iterator

from dray import telemetry
from dray.allocator.device_counts import DeviceCounts, DeviceGroupKey
from dray.api.ids import ClaimKey
from dray.api.semantics import pod_claims
from dray.api.types.pods import Pod
from dray.scheduler.cluster_state import SchedulerState
from dray.scheduler.queue import IN_PROGRESS, QueueEntry

WAIT_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    """The scheduler's metrics in a registry."""

    def __init__(self, registry: telemetry.Registry, state: SchedulerState) -> None:
        self._state, self._queue = state, state.queue
        self._device_counts = DeviceCounts(state.scheduling.inventory)
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
        self.devices = telemetry.Gauge(
            "dray_devices",
            "Devices by state and by each class that they match.",
            ("state", "class"),
            lambda: self._devices(lambda group: (group.state, group.class_name)),
        )
        self.tainted = telemetry.Gauge(
            "dray_devices_tainted",
            "Devices that only claims with a toleration can get, in whatever state.",
            ("class",),
            lambda: self._devices(
                lambda group: (group.class_name,), operator.attrgetter("is_tainted")
            ),
        )
        self.unhealthy = telemetry.Gauge(
            "dray_devices_unhealthy",
            "Devices that their driver has marked as unhealthy, in whatever state.",
            ("class",),
            lambda: self._devices(
                lambda group: (group.class_name,), operator.attrgetter("is_unhealthy")
            ),
        )
        registry.register(self.decisions, self.waits, self.lengths, self.pending)
        registry.register(self.devices, self.tainted, self.unhealthy)

    def decided(self, entry: QueueEntry, seconds: float) -> None:
        """Count a decision and its duration."""
        self.decisions.observe(seconds, "placed" if entry.state == IN_PROGRESS else "refused")

    def bound(self, entry: QueueEntry) -> None:
        """Count a bound pod and the time that it waited."""
        self.waits.observe(asyncio.get_running_loop().time() - entry.since)

    def _lengths(self) -> Iterator[tuple[telemetry.Labels, float]]:
        for state, count in self._queue.lengths().items():
            yield (state,), count

    def _pending_claims(self) -> Iterator[tuple[telemetry.Labels, float]]:
        counts: Counter[str] = Counter()
        seen: set[Hashable] = set()
        for entry in self._queue.unschedulable():
            pod = self._state.pod(entry.key)
            for claim in self._without_devices(pod) if pod else ():
                if claim not in seen:
                    seen.add(claim)
                    counts[entry.reason] += 1
        for reason, count in counts.items():
            yield (reason,), count

    def _without_devices(self, pod: Pod) -> Iterator[Hashable]:
        """Yield a key per claim of a pod without devices, also for claims not created yet."""
        for used in pod_claims.claims_of_pod(pod):
            if used.name is None:
                yield pod.metadata.uid, used.pod_claim
                continue
            key = ClaimKey(pod.metadata.namespace, used.name)
            claim = self._state.claim(key)
            if claim is None or claim.status.allocation is None:
                yield key

    def _devices(
        self,
        labels: Callable[[DeviceGroupKey], telemetry.Labels],
        counts: Callable[[DeviceGroupKey], bool] = lambda _: True,
    ) -> Iterator[tuple[telemetry.Labels, float]]:
        """Yield the number of devices by label, of the groups for which `counts` holds."""
        totals: Counter[telemetry.Labels] = Counter()
        for group, count in self._device_counts.counts().items():
            totals[labels(group)] += count if counts(group) else 0
        yield from totals.items()
