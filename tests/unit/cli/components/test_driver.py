"""`dray driver`: what it says on a machine without a GPU."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from dray.cli.main import main
from dray.drivers.nvidia import driver as drivers
from dray.drivers.nvidia.driver import NvidiaDriver, Options
from dray.drivers.nvidia.hardware import GpuUnavailable
from dray.drivers.nvidia.host import Host
from tests.nvidia import fake
from tests.unit.cli.conftest import Cluster


def test_without_a_gpu_it_says_so_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object) -> None:
        raise GpuUnavailable("the NVIDIA driver finds no GPU")

    monkeypatch.setattr(drivers, "find", nothing)
    ended = CliRunner().invoke(main, ["driver", "nvidia", "--plugins", str(tmp_path)])
    assert ended.exit_code == 1
    assert "no NVIDIA GPU was found: the NVIDIA driver finds no GPU." in ended.output


def test_metrics_need_an_address_that_is_free(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardware = fake.hardware(tmp_path / "machine")

    def find(folder: Path, options: Options, _root: Path) -> NvidiaDriver:
        return NvidiaDriver(hardware, folder, options, host=Host(hardware.root))

    monkeypatch.setattr(drivers, "find", find)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        folders = ["--plugins", str(tmp_path), "--registry", str(tmp_path), "--cdi", str(tmp_path)]
        ended = cluster.dray("driver", "nvidia", *folders, "--metrics-listen", address)
    assert ended.exit_code == 1
    assert f"cannot listen on {address}" in ended.stderr


def test_xids_are_numbers() -> None:
    ended = CliRunner().invoke(main, ["driver", "nvidia", "--skip-xids", "13,many"])
    assert ended.exit_code == 2
    assert "many is not a number" in ended.output
