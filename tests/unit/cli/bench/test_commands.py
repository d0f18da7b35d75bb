"""Tests of the commands of `dray bench`: their options."""

from __future__ import annotations

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
    ],
)
def test_sizes_of_which_nothing_could_be_measured_are_refused(
    arguments: tuple[str, ...],
) -> None:
    result = run("bench", *arguments)
    assert result.exit_code == 2
    assert f"Invalid value for '{arguments[1]}'" in result.stderr


def test_more_pods_than_the_cluster_has_gpus_are_refused() -> None:
    result = run("bench", "cluster", "--nodes", "2", "--pods", "17")
    assert result.exit_code == 2
    assert "17 pods do not fit: each needs a GPU, and 2 nodes have 16." in result.stderr
