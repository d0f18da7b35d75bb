"""The metrics of the controllers, with client-go's names for work queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dray import telemetry


class Metrics:
    def __init__(self, registry: telemetry.Registry) -> None:
        self._registry = registry
        self.seconds = telemetry.Histogram(
            "workqueue_work_duration_seconds",
            "Time that a controller needs for one object.",
            ("name",),
        )
        self.retries = telemetry.Counter(
            "workqueue_retries_total", "Retries of a controller.", ("name",)
        )
        registry.register(self.seconds, self.retries)

    def count_waiting(self, lengths: Callable[[], Mapping[str, int]]) -> None:
        """Register a gauge of the queue lengths, read at each scrape."""

        def depths() -> Iterable[tuple[telemetry.Labels, float]]:
            return (((name,), length) for name, length in lengths().items())

        text = "Objects in the queue of a controller."
        self._registry.register(telemetry.Gauge("workqueue_depth", text, ("name",), depths))
