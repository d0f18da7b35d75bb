"""The dashboard: made from the table of metrics, with queries that Prometheus can read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools import make_dashboard

from dray.exporter.metric_table import METRICS
from tests.monitoring import expressions
from tests.monitoring.promtool import check_expressions

DASHBOARD: dict[str, Any] = json.loads(make_dashboard.TARGET.read_text("utf-8"))
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
QUERIES = [target["expr"] for panel in PANELS for target in panel.get("targets", ())]


def test_the_dashboard_is_current() -> None:
    written = make_dashboard.TARGET.read_text("utf-8")
    assert written == make_dashboard.page(), "run `make generate`"


def test_every_metric_has_one_panel() -> None:
    shown = [metric for row in make_dashboard.ROWS.values() for metric in row.values()]
    assert sorted(shown) == sorted(METRICS)


def test_queries_use_metrics_and_labels_of_the_table() -> None:
    assert set.union(*map(expressions.metrics_of, QUERIES)) == set(METRICS)
    assert {query: wrong for query in QUERIES if (wrong := expressions.unknown_labels(query))} == {}


def test_prometheus_can_read_the_queries(tmp_path: Path) -> None:
    # Grafana puts values for these before it asks.
    queries = [query.replace("$__rate_interval", "5m").replace('"$', '"') for query in QUERIES]
    code, printed = check_expressions(tmp_path, queries)
    assert code == 0, printed


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        grid = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < make_dashboard.COLUMNS
        taken |= cells
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
