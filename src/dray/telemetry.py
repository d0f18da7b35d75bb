"""Logs and metrics: one log format, one registry that prints itself for Prometheus."""

from __future__ import annotations

import logging
import sys
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TextIO

LATENCY_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

Labels = tuple[str, ...]


def configure_logging(level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """One line per record on stderr: time, level, component, message."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname).1s %(name)s: %(message)s", "%H:%M:%S")
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)


class Counter:
    """A number that only grows, for each combination of label values.

    With `ask`, the values are read from that function when the metrics are printed.
    """

    kind = "counter"

    def __init__(
        self,
        name: str,
        help_text: str,
        labels: Labels = (),
        ask: Callable[[], Iterable[tuple[Labels, float]]] | None = None,
    ) -> None:
        self.name, self.help_text, self.labels = name, help_text, labels
        self._values: dict[Labels, float] = {}
        self._ask = ask

    def add(self, *values: str, amount: float = 1) -> None:
        self._values[values] = self._values.get(values, 0) + amount

    def value(self, *values: str) -> float:
        return self._values.get(values, 0)

    def lines(self) -> Iterator[str]:
        if self._ask is not None:
            self._values = dict(self._ask())
        for values, number in sorted(self._values.items()):
            yield sample(self.name, self.labels, values, number)


class Gauge(Counter):
    """A number that is set, or asked for."""

    kind = "gauge"

    def set(self, *values: str, to: float) -> None:
        self._values[values] = to


class Histogram:
    """The distribution of values over fixed buckets."""

    kind = "histogram"

    def __init__(
        self,
        name: str,
        help_text: str,
        labels: Labels = (),
        buckets: tuple[float, ...] = LATENCY_SECONDS,
    ) -> None:
        self.name, self.help_text, self.labels, self._buckets = name, help_text, labels, buckets
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, *values: str) -> None:
        counts = self._counts.get(values)
        if counts is None:
            counts = self._counts[values] = [0] * (len(self._buckets) + 1)
            self._sums[values] = 0.0
        counts[bisect_left(self._buckets, value)] += 1
        self._sums[values] += value

    def lines(self) -> Iterator[str]:
        bounds = (*map(_number, self._buckets), "+Inf")
        for values, counts in sorted(self._counts.items()):
            total = 0
            for bound, count in zip(bounds, counts, strict=True):
                total += count
                braces = _braces((*self.labels, "le"), (*values, bound))
                yield f"{self.name}_bucket{braces} {total}"
            braces = _braces(self.labels, values)
            yield f"{self.name}_sum{braces} {_number(self._sums[values])}"
            yield f"{self.name}_count{braces} {total}"


Metric = Counter | Histogram


class Registry:
    """The metrics of one process."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}
        self._collectors: list[Callable[[], Awaitable[None]]] = []

    def collect_with(self, collector: Callable[[], Awaitable[None]]) -> None:
        """Await `collector` before metrics are shown, so that it can bring them up to date."""
        self._collectors.append(collector)

    async def collected(self) -> str:
        """Bring all metrics up to date, and return them in Prometheus' text format."""
        for collector in self._collectors:
            await collector()
        return self.render()

    def register(self, *metrics: Metric) -> None:
        for metric in metrics:
            self._metrics[metric.name] = metric

    def render(self) -> str:
        """Return all metrics in Prometheus' text format."""
        lines: list[str] = []
        for metric in self._metrics.values():
            lines += (
                f"# HELP {metric.name} {metric.help_text}",
                f"# TYPE {metric.name} {metric.kind}",
            )
            lines += metric.lines()
        return "\n".join(lines) + "\n"


def sample(name: str, labels: Labels, values: Labels, number: float) -> str:
    """Return one line of Prometheus' text format."""
    return f"{name}{_braces(labels, values)} {_number(number)}"


def _braces(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    pairs = ",".join(f'{n}="{_escaped(v)}"' for n, v in zip(names, values, strict=True))
    return f"{{{pairs}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
