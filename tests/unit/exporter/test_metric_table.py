"""The table of metrics keeps to Prometheus' conventions, and the documentation has all of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dray.allocator.device_states import DeviceState
from dray.exporter import metric_table, node_series
from dray.exporter.metric_table import METRICS, Metric, MetricType

PAGE = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text("utf-8")
UNITS = ("seconds", "bytes", "ratio")


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric: Metric) -> None:
    assert re.fullmatch(r"dray(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") is (metric.type is MetricType.COUNTER)
    assert (metric.unit in UNITS) == bool(metric.unit)
    assert metric.unit == next((unit for unit in UNITS if metric.name.endswith(f"_{unit}")), "")
    assert metric.help.endswith(".")
    for label in metric.labels:
        assert re.fullmatch(r"[a-z_]+", label)
        assert label not in metric.name.split("_")[-1:], "a label is no part of the name"


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_the_documentation_has_every_metric(metric: Metric) -> None:
    labels = f"{{{','.join(metric.labels)}}}" if metric.labels else ""
    assert f"`{metric.name}{labels}`" in PAGE


def test_the_documentation_has_no_other_metric_of_the_exporter() -> None:
    section = PAGE[PAGE.index("## Devices and claims of any cluster") :]
    named = set(re.findall(r"`(dray_[a-z_]+)", section))
    assert named == {metric.name for metric in METRICS}


def test_the_documentation_has_every_cause_and_label_values_have_no_spaces() -> None:
    for cause in metric_table.CAUSES:
        assert f"`{cause}`" in PAGE
        assert " " not in cause
    assert [node_series.label(state) for state in DeviceState] == [
        "free", "shared", "in_use", "blocked", "missing",
    ]  # fmt: skip
