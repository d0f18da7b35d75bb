"""The figures of a cluster as metrics of a registry."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterable, Iterator

from dray import telemetry
from dray.allocator.device_states import DeviceState
from dray.exporter import device_figures, metric_table, node_series
from dray.exporter.cluster_figures import ClusterFigures
from dray.exporter.metric_table import NONE, Metric, MetricType

ALLOCATION_SECONDS = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)

Samples = Iterable[tuple[telemetry.Labels, float]]


class _NodeGauge(telemetry.Gauge):
    """A metric whose lines are written when a node changes, and not when they are read."""

    def __init__(self, metric: Metric, texts: Callable[[], Iterable[str]]) -> None:
        super().__init__(metric.name, metric.help, metric.labels)
        self._texts = texts

    def lines(self) -> Iterator[str]:
        yield from self._texts()


def latencies() -> telemetry.Histogram:
    """Return the histogram of the time until claims have devices."""
    metric = metric_table.CLAIM_ALLOCATION
    return telemetry.Histogram(metric.name, metric.help, buckets=ALLOCATION_SECONDS)


def register(registry: telemetry.Registry, figures: Callable[[], ClusterFigures]) -> None:
    """Register the metrics of the figures that `figures` returns when they are read."""
    for metric in metric_table.NODE_METRICS:
        registry.register(_NodeGauge(metric, functools.partial(_node_lines, metric, figures)))
    for metric, read in _READERS.items():
        register_one(registry, metric, functools.partial(_read, read, figures))


def register_one(registry: telemetry.Registry, metric: Metric, ask: Callable[[], Samples]) -> None:
    """Register a metric of the table that `ask` returns."""
    kind = telemetry.Counter if metric.type is MetricType.COUNTER else telemetry.Gauge
    registry.register(kind(metric.name, metric.help, metric.labels, ask))


def _read(
    read: Callable[[ClusterFigures], Samples], figures: Callable[[], ClusterFigures]
) -> Samples:
    return read(figures())


def _node_lines(metric: Metric, figures: Callable[[], ClusterFigures]) -> Iterable[str]:
    return figures().devices.lines.get(metric, {}).values()


def _class_devices(figures: ClusterFigures) -> Samples:
    counts = figures.devices.by_class
    classes = {name for (name, _), count in counts.items() if count} | set(figures.classes())
    for name in classes:
        for state in DeviceState:
            # Devices that are missing match no class.
            if name == NONE or state is not DeviceState.MISSING:
                yield (name, node_series.label(state)), counts[name, state]


def _stranded(figures: ClusterFigures) -> Samples:
    for name in figures.classes():
        yield (name,), figures.devices.stranded[name]


def _fits(figures: ClusterFigures) -> Samples:
    for (name, devices), pods in figures.fits.figures().items():
        yield (name, str(devices)), pods


def _claims(figures: ClusterFigures) -> Samples:
    yield ("allocated",), figures.claims.allocated
    yield ("pending",), figures.claims.pending


def _pending(figures: ClusterFigures) -> Samples:
    by_cause = figures.claims.by_cause
    for cause in metric_table.CAUSES:
        yield (cause,), by_cause[cause].claims if cause in by_cause else 0


def _oldest(figures: ClusterFigures) -> Samples:
    now = figures.now()
    for cause, waiting in figures.claims.by_cause.items():
        if waiting.since is not None:
            yield (cause,), _seconds(now - waiting.since)


def _gone(figures: ClusterFigures) -> Samples:
    for driver, pools in figures.gone.by_driver().items():
        yield (driver,), pools


def _seconds(age: datetime.timedelta) -> float:
    return max(age.total_seconds(), 0.0)


_READERS: dict[Metric, Callable[[ClusterFigures], Samples]] = {
    metric_table.CLASS_DEVICES: _class_devices,
    metric_table.CLASS_STRANDED: _stranded,
    metric_table.CLASS_FITS: _fits,
    metric_table.CLAIMS: _claims,
    metric_table.CLAIMS_PENDING: _pending,
    metric_table.CLAIMS_PENDING_OLDEST: _oldest,
    metric_table.POOLS: lambda figures: device_figures.by_driver(figures.devices.pools),
    metric_table.SLICES: lambda figures: device_figures.by_driver(figures.devices.slices),
    metric_table.POOLS_GONE: _gone,
}
