"""Metrics and labels that expressions of PromQL use, compared with the exporter's table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from dray.exporter.metric_table import METRICS, Metric, MetricType

SELECTOR = re.compile(r"(?<![\w:])(dray_\w+)(?:\{(.*?)\})?")
MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\((.*?)\)")
OF_THE_SERVER = {"instance", "pod", "le"}
"""Labels that Prometheus and histograms add."""


def _series(metric: Metric) -> Iterator[str]:
    if metric.type is MetricType.HISTOGRAM:
        yield from (f"{metric.name}{end}" for end in ("_bucket", "_count", "_sum"))
    else:
        yield metric.name


SERIES = {name: metric for metric in METRICS for name in _series(metric)}


def metrics_of(expression: str) -> set[Metric]:
    """The metrics that an expression reads. Fails for one that the table does not have."""
    return {SERIES[name] for name, _ in SELECTOR.findall(expression)}


def unknown_labels(expression: str) -> set[str]:
    """Labels of an expression that its metrics do not have."""
    wrong: set[str] = set()
    for name, matchers in SELECTOR.findall(expression):
        wrong |= set(MATCHER.findall(matchers)) - set(SERIES[name].labels)
    known = {label for metric in metrics_of(expression) for label in metric.labels}
    grouped = [label.strip() for text in GROUPING.findall(expression) for label in text.split(",")]
    return wrong | (set(filter(None, grouped)) - known - OF_THE_SERVER)


def labels_in(texts: Iterable[str]) -> set[str]:
    """The labels that templates of alerts show."""
    return {label for text in texts for label in re.findall(r"\$labels\.(\w+)", text)}
