"""The demo ends on the first thing that is not as it should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.cli.demo import terminal
from dray.cli.demo.terminal import Terminal, UnexpectedOutput


def test_a_command_that_says_something_else_is_a_surprise(tmp_path: Path) -> None:
    with pytest.raises(UnexpectedOutput, match="should have said 'a pony'"):
        Terminal(tmp_path).run("dray --version", expect="a pony")


def test_a_command_that_fails_is_a_surprise(tmp_path: Path) -> None:
    with pytest.raises(UnexpectedOutput, match="should have succeeded"):
        Terminal(tmp_path).run("dray fly")


def test_a_failure_that_is_expected_is_none(tmp_path: Path) -> None:
    assert "Did you mean" in Terminal(tmp_path).run("dray gett", expect="Did you mean get?")


def test_a_cluster_that_ends_at_once_is_a_surprise(tmp_path: Path) -> None:
    screen = Terminal(tmp_path)
    with (
        screen.running("dray up --fleet nowhere") as cluster,
        pytest.raises(UnexpectedOutput, match="--fleet"),
    ):
        screen.show(cluster, "dray is up")


def test_what_never_happens_is_a_surprise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "DEADLINE_SECONDS", 0.0)
    with pytest.raises(UnexpectedOutput, match="the moon falling did not happen"):
        Terminal(tmp_path).until(lambda: False, "the moon falling")
