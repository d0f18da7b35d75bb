"""`dray driver`: what it says on a machine without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dray.cli.main import main
from dray.drivers.nvidia import driver as drivers
from dray.drivers.nvidia.hardware import Unavailable


def test_without_a_gpu_it_says_so_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object) -> None:
        raise Unavailable("the NVIDIA driver finds no GPU")

    monkeypatch.setattr(drivers, "find", nothing)
    ended = CliRunner().invoke(main, ["driver", "nvidia", "--plugins", str(tmp_path)])
    assert ended.exit_code == 1
    assert "There is no NVIDIA GPU to offer: the NVIDIA driver finds no GPU." in ended.output


def test_xids_are_numbers() -> None:
    ended = CliRunner().invoke(main, ["driver", "nvidia", "--skip-xids", "13,many"])
    assert ended.exit_code == 2
    assert "many is not a number" in ended.output
