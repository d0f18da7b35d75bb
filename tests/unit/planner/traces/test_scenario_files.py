"""Errors in scenario files name line and column."""

from __future__ import annotations

import json

import pytest

from dray.planner.traces import scenario_files
from dray.planner.traces.errors import TraceError


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ('{"nodes": [', "1:12", "no JSON: Input data was truncated"),
        ('{\n  "nodes": [,]}', "2:13", "no JSON: invalid character"),
        ('{\n "nodes": [{}, {"metadata": 3}]}', "2:29", "nodes[1].metadata: Expected `object`"),
        ('{"nodes":\n   7}', "2:4", "nodes: Expected `array`, got `int`"),
        (
            '{"slices": [{"spec": {}},\n {"spec": {"driver": "a", "pool": 1}}]}',
            "2:35",
            "slices[1].spec.pool: Expected `object`",
        ),
        ("[]", "1:1", "the file: Expected `object`, got `array`"),
    ],
)
def test_an_error_names_file_line_and_column(text: str, place: str, problem: str) -> None:
    with pytest.raises(TraceError) as error:
        scenario_files.read(text.encode(), "s.json")
    assert str(error.value).startswith(f"s.json:{place}: {problem}")


def test_a_scenario_is_read() -> None:
    scenario = scenario_files.read(json.dumps({"name": "x", "nodes": []}).encode(), "s.json")
    assert scenario.name == "x"
