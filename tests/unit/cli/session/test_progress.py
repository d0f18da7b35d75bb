"""A progress bar, which is drawn on terminals only."""

from __future__ import annotations

import sys

import pytest

from dray.cli.session import progress


def test_nothing_is_drawn_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.bar("placing") as show:
        assert show is None
    assert capsys.readouterr() == ("", "")


def test_the_share_is_drawn_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.bar("placing") as show:
        assert show is not None
        show(64, 128)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "placing" in printed.err
    assert "50%" in printed.err
