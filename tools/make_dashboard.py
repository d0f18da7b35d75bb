"""Writes deploy/monitoring/dashboard.json, for Grafana: a panel for each metric of the exporter.

`python -m tools.make_dashboard`, or `make generate`. A test holds the file against the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dray.exporter import metric_table as table
from dray.exporter.metric_table import Metric, MetricType

TARGET = Path(__file__).parents[1] / "deploy" / "monitoring" / "dashboard.json"
COLUMNS = 24
"""The width of a dashboard."""
SHOWN = 20
"""The most lines of a panel with a line for each node."""
UNITS = {"": "short", "ratio": "percentunit", "seconds": "s"}
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
VARIABLES = {"node": table.DEVICES, "device_class": table.CLASS_DEVICES}
"""Labels that the reader can choose values of, and a metric with all of them."""
TIMESTAMP = "_timestamp_seconds"


class Query(NamedTuple):
    expression: str
    legend: str


class Stat(NamedTuple):
    """Numbers at the top of the dashboard. They are red from the limit on; 0 for none."""

    title: str
    query: Query
    unit: str = "short"
    limit: float = 0


def _in_all(metric: Metric, aggregate: str = "sum") -> Query:
    # Two exporters of one cluster show the same figures. A figure that is absent is 0, but not if
    # there is no exporter.
    value = f"{aggregate}(max by ({', '.join(metric.labels)}) ({metric.name}))"
    return Query(f"{value} or 0 * max({table.LAST_UPDATE.name})", "")


def _of_classes(state: str) -> Query:
    # A device can be of several classes, so these are not added.
    value = f'{table.CLASS_DEVICES.name}{{device_class=~"$device_class",state="{state}"}}'
    return Query(f"max by (device_class) ({value})", "{{device_class}}")


STATS = (
    Stat("Free devices", _of_classes("free")),
    Stat("Devices in use", _of_classes("in_use")),
    Stat("Unhealthy devices", _in_all(table.DEVICES_UNHEALTHY), limit=1),
    Stat("Pending claims", _in_all(table.CLAIMS_PENDING)),
    Stat("Longest wait", _in_all(table.CLAIMS_PENDING_OLDEST, "max"), "s", 15 * 60),
    Stat("Pools of drivers that are gone", _in_all(table.POOLS_GONE), limit=1),
)
ROWS: dict[str, dict[str, Metric]] = {
    "Devices of all nodes": {
        "Devices by class and state": table.CLASS_DEVICES,
        "Pods that still fit": table.CLASS_FITS,
        "Stranded devices": table.CLASS_STRANDED,
    },
    "Claims": {
        "Claims by state": table.CLAIMS,
        "Pending claims by cause": table.CLAIMS_PENDING,
        "Longest wait by cause": table.CLAIMS_PENDING_OLDEST,
        "Time until a claim has devices": table.CLAIM_ALLOCATION,
    },
    "Nodes": {
        "Devices": table.DEVICES,
        "Tainted devices": table.DEVICES_TAINTED,
        "Unhealthy devices": table.DEVICES_UNHEALTHY,
        "Largest partition that a claim could get": table.LARGEST_PARTITION,
    },
    "Pools and drivers": {
        "Pools": table.POOLS,
        "ResourceSlices": table.SLICES,
        "Pools of drivers that are gone": table.POOLS_GONE,
    },
    "Exporter": {
        "Objects": table.OBJECTS,
        "Unreadable objects": table.UNREADABLE,
        "Changes per second": table.CHANGES,
        "Time since the last contact": table.LAST_CONTACT,
        "Age of the figures": table.LAST_UPDATE,
    },
}
LOW_IS_BAD = frozenset({table.LARGEST_PARTITION})
"""Metrics of which the smallest values are shown, where there are too many."""


def page() -> str:
    return json.dumps(dashboard(), indent=2) + "\n"


def dashboard() -> dict[str, Any]:
    panels = [*_stats()]
    for title, metrics in ROWS.items():
        panels += _row(title, metrics, top=_bottom(panels))
    for number, panel in enumerate(panels, 1):
        panel["id"] = number
    return {
        "uid": "dray-devices",
        "title": "dray: devices and claims",
        "tags": ["dray", "dra"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_datasource(), *_variables()]},
        "panels": panels,
    }


def _datasource() -> dict[str, Any]:
    return {
        "name": "datasource",
        "type": "datasource",
        "query": "prometheus",
        "label": "Prometheus",
    }


def _variables() -> Iterator[dict[str, Any]]:
    for label, metric in VARIABLES.items():
        query = f"label_values({metric.name}, {label})"
        yield {
            "name": label,
            "label": label.replace("_", " "),
            "type": "query",
            "datasource": DATASOURCE,
            "query": {"query": query, "refId": label},
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
        }


def _stats() -> Iterator[dict[str, Any]]:
    width = COLUMNS // len(STATS)
    for number, stat in enumerate(STATS):
        steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
        if stat.limit:
            steps.append({"color": "red", "value": stat.limit})
        panel = _panel("stat", stat.title, "", [stat.query], stat.unit)
        panel["fieldConfig"]["defaults"]["thresholds"] = {"mode": "absolute", "steps": steps}
        yield {**panel, "gridPos": {"x": number * width, "y": 0, "w": width, "h": 4}}


def _row(title: str, metrics: Mapping[str, Metric], top: int) -> Iterator[dict[str, Any]]:
    yield {
        "type": "row",
        "title": title,
        "collapsed": False,
        "panels": [],
        "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1},
    }
    width = COLUMNS // len(metrics)
    for number, (words, metric) in enumerate(metrics.items()):
        unit = UNITS[metric.unit]
        panel = _panel("timeseries", words, metric.help, list(queries(metric)), unit)
        yield {**panel, "gridPos": {"x": number * width, "y": top + 1, "w": width, "h": 9}}


def _panel(
    kind: str, title: str, description: str, shown: Sequence[Query], unit: str
) -> dict[str, Any]:
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "targets": [
            {"refId": chr(ord("A") + number), "expr": expression, "legendFormat": legend}
            for number, (expression, legend) in enumerate(shown)
        ],
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
    }


def queries(metric: Metric) -> Iterator[Query]:
    """Yield the queries for the panel of a metric."""
    chosen = [f'{label}=~"${label}"' for label in metric.labels if label in VARIABLES]
    selected = f"{{{','.join(chosen)}}}" if chosen else ""
    legend = " ".join(f"{{{{{label}}}}}" for label in metric.labels) or "all"
    if metric.type is MetricType.HISTOGRAM:
        for quantile in (0.5, 0.95, 0.99):
            rate = f"sum by (le) (rate({metric.name}_bucket{selected}[$__rate_interval]))"
            yield Query(f"histogram_quantile({quantile}, {rate})", f"{quantile:.0%}")
        return
    value = f"{metric.name}{selected}"
    if metric.type is MetricType.COUNTER:
        value = f"rate({value}[$__rate_interval])"
    elif metric.name.endswith(TIMESTAMP):
        value = f"time() - {value}"
    merged = f"max by ({', '.join(metric.labels)}) ({value})"
    if "node" in metric.labels:
        merged = f"{'bottomk' if metric in LOW_IS_BAD else 'topk'}({SHOWN}, {merged})"
    yield Query(merged, legend)


def _bottom(panels: Sequence[dict[str, Any]]) -> int:
    grids: list[dict[str, int]] = [panel["gridPos"] for panel in panels]
    return max(grid["y"] + grid["h"] for grid in grids)


def main() -> None:
    TARGET.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
