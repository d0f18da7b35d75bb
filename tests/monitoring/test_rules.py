"""The rules: promtool accepts and tests them, and they use metrics that the exporter has."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml

from dray.allocator.device_states import DeviceState
from dray.exporter import metric_table
from tests.monitoring import expressions
from tests.monitoring.promtool import ALERTS, FOLDER, RULES, promtool
from tests.pages import ROOT

RECORDED = {
    rule["record"]: rule["expr"]
    for group in RULES["groups"]
    for rule in group["rules"]
    if "record" in rule
}
ALL = RECORDED | {name: alert["expr"] for name, alert in ALERTS.items()}
VALUE = re.compile(r'(\w+)\s*[!=]~?\s*"([^"]*)"')


def test_promtool_accepts_the_rules() -> None:
    code, printed = promtool(FOLDER, "check", "rules", "rules.yaml")
    assert code == 0, printed
    assert f"{len(ALL)} rules found" in printed


def test_the_tests_of_the_rules_pass() -> None:
    code, printed = promtool(FOLDER, "test", "rules", "rules_test.yaml")
    assert code == 0, printed


@pytest.mark.parametrize("change", ["vector(1)", "vector(0) > 1"])
def test_each_alert_has_a_case_that_fires_and_one_that_is_silent(
    tmp_path: Path, change: str
) -> None:
    """Alerts that are always on, and those that are never on, fail the tests of the rules."""
    shutil.copy(FOLDER / "rules_test.yaml", tmp_path)
    changed = {"expr": change, "for": "0s"}
    groups = [
        {**group, "rules": [rule | (changed if "alert" in rule else {}) for rule in group["rules"]]}
        for group in RULES["groups"]
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}), "utf-8")
    code, printed = promtool(tmp_path, "test", "rules", "rules_test.yaml")
    assert code == 1
    assert set(re.findall(r"alertname: (\w+),", printed)) == ALERTS.keys()


@pytest.mark.parametrize("name", ALL)
def test_rules_use_metrics_and_labels_of_the_table(name: str) -> None:
    expression = ALL[name]
    for recorded, its_expression in RECORDED.items():
        expression = expression.replace(recorded, f"({its_expression})")
    assert expressions.metrics_of(expression)
    assert expressions.unknown_labels(expression) == set()


@pytest.mark.parametrize("name", ALL)
def test_rules_compare_with_values_that_labels_have(name: str) -> None:
    known = {
        "state": {state.replace(" ", "_") for state in DeviceState},
        "cause": set(metric_table.CAUSES),
        "complete": {"true", "false"},
    }
    for label, values in VALUE.findall(ALL[name]):
        assert set(values.split("|")) <= known[label]


@pytest.mark.parametrize("name", ALERTS)
def test_alerts_lead_to_their_section(name: str) -> None:
    alert = ALERTS[name]
    page = (ROOT / "docs" / "alerts.md").read_text("utf-8")
    assert alert["annotations"]["runbook_url"] == f"docs/alerts.md#{name.lower()}"
    assert f"\n## {name}\n" in page
    assert alert["labels"]["severity"] in ("warning", "critical")
    labels = {
        label
        for metric in expressions.metrics_of(
            RECORDED.get(alert["expr"].split(" ")[0], alert["expr"])
        )
        for label in metric.labels
    }
    assert expressions.labels_in(alert["annotations"].values()) <= labels | {"instance"}


def test_every_cause_is_on_the_page() -> None:
    page = (ROOT / "docs" / "alerts.md").read_text("utf-8")
    section = page[page.index("## DrayClaimWaits") : page.index("## DrayPoolIncomplete")]
    assert {cause for cause in metric_table.CAUSES if f"`{cause}`" not in section} == set()
