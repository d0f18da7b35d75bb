"""Tests of the commands of `dray bench`: their options."""

from __future__ import annotations

import json

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


def test_victims_are_found_in_a_full_fleet() -> None:
    result = run("bench", "preemption", "--nodes", "2", "--gang", "5", "--runs", "1", "--json")
    assert result.exit_code == 0, result.stderr
    figures = json.loads(result.stdout)
    assert (figures["pod_victims"], figures["gang_victims"]) == (1, 5)


def test_a_gang_that_could_never_fit_is_refused() -> None:
    result = run("bench", "preemption", "--nodes", "1", "--gang", "9")
    assert result.exit_code == 1
    assert "a gang of 9 needs as many GPUs" in result.stderr
