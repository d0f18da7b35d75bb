"""Runs of the benchmarks are held against the recorded one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tools import bench, make_performance

SMALL = bench.Benchmark(
    ("allocate", "--family", "taints", "--nodes", "2", "--claims", "3"),
    lambda printed: {"claims": printed["claims_per_s"]},
    rounds=1,
)


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(bench, "RESULTS", tmp_path)
    monkeypatch.setattr(bench, "LAST", tmp_path / "last.json")
    monkeypatch.setattr(bench, "RECORDED", tmp_path / "recorded.json")
    monkeypatch.setattr(bench, "benchmarks", lambda _folder: {"small": SMALL})
    return tmp_path


def test_a_run_is_recorded_and_a_slower_one_fails(results: Path) -> None:
    first = CliRunner().invoke(bench.main, ["--record"])
    assert first.exit_code == 0, first.output
    recorded = json.loads((results / "recorded.json").read_bytes())
    assert set(recorded) == {"machine", "versions", "ratios"}
    recorded["ratios"]["small: claims"] *= 1000
    (results / "recorded.json").write_text(json.dumps(recorded), "utf-8")
    second = CliRunner().invoke(bench.main)
    assert second.exit_code == 1
    assert "slower than in the recorded run:\n  small: claims: -" in second.output
    assert (results / "last.json").exists()


def test_without_a_recorded_run_it_says_how_to_record_one(results: Path) -> None:
    result = CliRunner().invoke(bench.main)
    assert result.exit_code == 1
    assert "--record" in result.output


def test_an_unknown_benchmark_is_refused(results: Path) -> None:
    result = CliRunner().invoke(bench.main, ["--only", "smal"])
    assert result.exit_code == 2
    assert "there is no benchmark smal: small" in result.output


def test_a_loss_counts_from_a_fifth_on() -> None:
    before = {"a": 10.0, "b": 10.0, "gone": 1.0}
    assert list(bench.losses(before, {"a": 8.1, "b": 7.9, "new": 1.0})) == ["b: -21%"]


def test_the_page_has_the_recorded_figures() -> None:
    written = make_performance.TARGET.read_text("utf-8")
    assert written == make_performance.page(), "run `python -m tools.make_performance`"
