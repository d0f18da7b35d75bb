"""`dray bench apiserver`, small: every figure comes, and says whether it is good enough."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from dray.bench.apiserver import measurement
from dray.cli.main import main


@pytest.mark.slow
def test_every_figure_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "STARTS", 1)
    sizes = ("--pairs", "60", "--watchers", "10", "--inside-pairs", "60")
    done = CliRunner().invoke(main, ["bench", "apiserver", *sizes, "--json"])
    assert done.exit_code == 0, done.output
    measured = json.loads(done.stdout)["measurements"]
    assert [each["name"] for each in measured] == [
        "start to ready",
        "creates over HTTPS",
        "list of 60 claims",
        "one change to 10 watchers",
        "creates without a socket",
        "the same with ten policies",
        "memory with 60 pods and 60 allocated claims",
    ]
    for each in measured:
        assert each["value"] > 0
        assert isinstance(each["is_met"], bool)
