"""Tests of the commands of `dray bench`: their options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import run


@pytest.mark.parametrize(
    "arguments",
    [
        ("apiserver", "--pairs", "0"),
        ("churn", "--steps", "-1"),
        ("cluster", "--quiet", "0"),
        ("exporter", "--seconds", "-1"),
        ("node", "--single", "0"),
        ("preemption", "--gang", "0"),
    ],
)
def test_sizes_of_which_nothing_could_be_measured_are_refused(
    arguments: tuple[str, ...],
) -> None:
    result = run("bench", *arguments)
    assert result.exit_code == 2
    assert f"Invalid value for '{arguments[1]}'" in result.stderr


def test_a_family_is_placed_and_written_for_others(tmp_path: Path) -> None:
    file, answers = tmp_path / "taints.json", tmp_path / "answers.json"
    size = ("--nodes", "4", "--claims", "6")
    made = ("allocate", "--family", "taints", "--seed", "5", *size, "--write", str(file))
    assert run("bench", *made, "--out", str(answers)).exit_code == 0
    written = json.loads(file.read_bytes())
    assert (written["name"], len(written["nodes"]), len(written["claims"])) == ("taints-5", 4, 6)
    again = run("bench", "allocate", str(file), "--answers", str(answers))
    assert again.exit_code == 0
    assert again.stdout.endswith(f"equal to {answers}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Name a scenario file, or a family with --family."),
        (("--family", "taint"), "there is no family taint; did you mean taints?"),
        (("FILE", "--family", "taints"), "Name a scenario file, or a family with --family."),
        (("FILE", "--seed", "2"), "--seed, --nodes, --claims and --write need --family."),
    ],
)
def test_a_scenario_is_a_file_or_a_family(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "scenario.json"
    file.write_text("{}")
    result = run("bench", "allocate", *[str(file) if it == "FILE" else it for it in arguments])
    assert result.exit_code == 2
    assert message in result.stderr


def test_victims_are_found_in_a_full_fleet() -> None:
    result = run("bench", "preemption", "--nodes", "2", "--gang", "5", "--runs", "1", "--json")
    assert result.exit_code == 0, result.stderr
    figures = json.loads(result.stdout)
    assert (figures["pod_victims"], figures["gang_victims"]) == (1, 5)


def test_a_gang_that_could_never_fit_is_refused() -> None:
    result = run("bench", "preemption", "--nodes", "1", "--gang", "9")
    assert result.exit_code == 1
    assert "a gang of 9 needs as many GPUs" in result.stderr


def test_more_pods_than_the_cluster_has_gpus_are_refused() -> None:
    result = run("bench", "cluster", "--nodes", "2", "--pods", "17")
    assert result.exit_code == 2
    assert "17 pods do not fit: each needs a GPU, and 2 nodes have 16." in result.stderr
