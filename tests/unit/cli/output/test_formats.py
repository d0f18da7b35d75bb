"""How texts come out: columns, YAML, JSON, durations, goals, and what is said about bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.api.formats import serialization
from dray.cli.command_errors import WrongUsage
from dray.cli.inputs import manifests
from dray.cli.output import durations, tables
from dray.cli.verbs import wait
from dray.cli.verbs.descriptions import command as describe
from tests.unit.cli.conftest import run


def test_columns_are_as_wide_as_their_longest_cell() -> None:
    rows = [["NAME", "AGE"], ["a-long-name", "5s"], ["b", "10d"]]
    assert tables.aligned(rows) == [
        "NAME          AGE",
        "a-long-name   5s",
        "b             10d",
    ]


def test_a_column_ends_where_a_line_does_not_have_it() -> None:
    rows = [["a:", "1"], ["long name:", "2"], ["Nested:"], ["  b:", "3"]]
    assert tables.aligned(rows, min_width=0, padding=2) == [
        "a:          1",
        "long name:  2",
        "Nested:",
        "  b:  3",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "<none>"), (True, "true"), (3, "3"), ("one\ntwo", "one...")],
)
def test_cells_are_one_line(value: object, text: str) -> None:
    assert tables.cell_text(value) == text


def test_columns_of_a_table_that_are_shown() -> None:
    columns = [{"name": "Name", "priority": 0}, {"name": "IP", "priority": 1}]
    metadata = {"namespace": "ns", "labels": {"b": "2", "a": "1"}}
    table = {
        "columnDefinitions": columns,
        "rows": [{"cells": ["x", "10.0.0.1"], "object": {"metadata": metadata}}],
    }
    assert tables.rows(table, tables.TableOptions()) == [["NAME"], ["x"]]
    everything = tables.TableOptions(wide=True, namespace=True, kind="pod", labels=True)
    assert tables.rows(table, everything) == [
        ["NAMESPACE", "NAME", "IP", "LABELS"],
        ["ns", "pod/x", "10.0.0.1", "a=1,b=2"],
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("plain", "plain", id="plain"),
        pytest.param("1", '"1"', id="number"),
        pytest.param("1e3", '"1e3"', id="go-number"),
        pytest.param("yes", '"yes"', id="bool"),
        pytest.param("n", '"n"', id="short-bool"),
        pytest.param("2026-01-01T00:00:00Z", '"2026-01-01T00:00:00Z"', id="time"),
        pytest.param("", '""', id="empty"),
        pytest.param("a: b", "'a: b'", id="colon"),
        pytest.param("*", "'*'", id="star"),
        pytest.param("two\nlines\n", "|\n  two\n  lines", id="lines"),
        pytest.param(1, "1", id="int"),
        pytest.param({}, "{}", id="empty-map"),
        pytest.param([], "[]", id="empty-list"),
        pytest.param(["a"], "\n- a", id="list"),
    ],
)
def test_yaml_is_quoted_as_go_quotes_it(value: object, text: str) -> None:
    assert serialization.write_yaml({"key": value}) == f"key: {text}\n".replace(": \n", ":\n")


def test_json_escapes_what_go_escapes() -> None:
    assert (
        serialization.write_json({"b": "<&>", "a": "ä"}) == '{"a":"ä","b":"\\u003c\\u0026\\u003e"}'
    )


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("1m30s", 90), ("500ms", 0.5), ("2", 2), ("1h", 3600)]
)
def test_durations(text: str, seconds: float) -> None:
    assert durations.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "5x", "5s5", "-1s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        durations.seconds(text)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("deviceClassName", "Device Class Name"),
        ("apiVersion", "API Version"),
        ("uid", "UID"),
        ("shareID", "Share ID"),
        ("nodeSelectorTerms", "Node Selector Terms"),
        ("gpu.example.com/x", "gpu.example.com/x"),
    ],
)
def test_field_titles(name: str, title: str) -> None:
    assert describe.field_title(name) == title


READY = {
    "metadata": {"generation": 2},
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "Old", "status": "True", "observedGeneration": 1},
            {"type": "Off", "status": "False"},
        ],
    },
}


@pytest.mark.parametrize(
    ("goal", "is_met"),
    [
        ("condition=Ready", True),
        ("condition=ready", True),
        ("condition=Ready=False", False),
        ("condition=Off=False", True),
        ("condition=Old", False),
        ("condition=Missing", False),
        ("jsonpath={.status.phase}=Running", True),
        ("jsonpath='{.status.phase}'=Running".replace("'", ""), True),
        ("jsonpath={.status.phase}=Pending", False),
        ("jsonpath={.status.phase}", True),
        ("jsonpath={.status.nosuch}", False),
        ("create", True),
        ("delete", False),
    ],
)
def test_goals(goal: str, is_met: bool) -> None:
    assert wait.parse_goal(goal).is_met(READY) is is_met


def test_what_is_gone_meets_only_its_deletion() -> None:
    assert wait.parse_goal("delete").is_met(None)
    assert not wait.parse_goal("condition=Ready").is_met(None)
    assert not wait.parse_goal("jsonpath={.status}").is_met(None)


@pytest.mark.parametrize("goal", ["nonsense", "condition", "condition=", "jsonpath="])
def test_what_is_no_goal(goal: str) -> None:
    with pytest.raises(WrongUsage):
        wait.parse_goal(goal)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("a: [1", "is not YAML: line", id="yaml"),
        pytest.param("- 1", "an object is expected", id="list"),
        pytest.param("{", "is not YAML", id="json"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(WrongUsage, match=complaint):
        manifests.read([str(file)])


def test_lists_and_directories_are_taken_apart(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "apiVersion: v1\nkind: PodList\nitems: [{metadata: {name: a}}]\n---\n---\n"
        "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Node, metadata: {name: b}}]}",
        "utf-8",
    )
    (tmp_path / "b.txt").write_text("no manifest", "utf-8")
    found = manifests.read([str(tmp_path)])
    assert [(*each.type, each.name) for each in found] == [
        ("v1", "Pod", "a"),
        ("v1", "Node", "b"),
    ]


def test_an_unknown_command_gets_a_suggestion() -> None:
    result = run("gett")
    assert result.exit_code == 2
    assert "Did you mean get?" in result.output


@pytest.mark.parametrize("format", ["xml", "jsonpath"])
def test_an_unknown_format_says_which_there_are(format: str) -> None:
    result = run("get", "pods", "-o", format)
    assert result.exit_code == 2
    assert "jsonpath=" in result.output
