"""Where the sockets of simulated machines are."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.cluster import simulated_nodes
from dray.drivers.simulated import fleet as fleets

SOCKETS = list(simulated_nodes.socket_paths(fleets.load("h100", nodes=2)))
LONG = "d" * 100


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a name that is short, as those of pytest are not."""
    made = Path(tempfile.mkdtemp(prefix="dray-"))
    yield made
    shutil.rmtree(made)


def test_a_short_data_directory_is_used_as_it_is(folder: Path) -> None:
    assert simulated_nodes.sockets_root(folder / "nodes", SOCKETS) == folder / "nodes"


def test_a_long_one_gets_a_short_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    long = folder / LONG / "nodes"
    for _ in range(2):
        root = simulated_nodes.sockets_root(long, SOCKETS)
        assert root.resolve() == long
        assert all(len(str(root / socket)) <= 107 for socket in SOCKETS)


def test_a_short_name_in_a_folder_of_somebody_else_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setattr("os.getuid", lambda: 12345)
    with pytest.raises(PermissionError, match="must be a folder that belongs to you alone"):
        simulated_nodes.sockets_root(folder / LONG, SOCKETS)
