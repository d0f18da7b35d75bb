"""dray runs in a process of its own with the packages of this one, installed or not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dray
from dray import own_process


def test_it_is_this_dray() -> None:
    done = subprocess.run(
        [*own_process.command(), "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"dray, version {dray.__version__}\n"


def test_packages_that_are_not_installed_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere.py").write_text("import sys; print(sys.argv[1:])", "utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    command = [*own_process.command("elsewhere"), "a", "b c"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "['a', 'b c']\n"
