"""State that survives crashes and damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.driverkit.checkpoint import Checkpoint, CheckpointError


def checkpoint(directory: Path, version: int = 1) -> Checkpoint[dict[str, int]]:
    return Checkpoint(directory / "state.json", dict[str, int], version=version)


def test_nothing_was_ever_written(tmp_path: Path) -> None:
    assert checkpoint(tmp_path).read() is None


def test_what_is_written_is_read(tmp_path: Path) -> None:
    checkpoint(tmp_path).write({"a": 1})
    assert checkpoint(tmp_path).read() == {"a": 1}


@pytest.mark.parametrize("cut", [0, 1, 20, -1])
def test_a_truncated_file_gives_the_one_before_and_is_kept_aside(
    tmp_path: Path, cut: int, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint(tmp_path).write({"a": 1})
    checkpoint(tmp_path).write({"a": 2})
    path = tmp_path / "state.json"
    damaged = path.read_bytes()[:cut]
    path.write_bytes(damaged)
    assert checkpoint(tmp_path).read() == {"a": 1}
    assert "state.json cannot be read" in caplog.text
    assert (tmp_path / "state.json.broken").read_bytes() == damaged


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    checkpoint(tmp_path).write({"a": 1})
    checkpoint(tmp_path).write({"a": 2})
    path = tmp_path / "state.json"
    path.write_bytes(path.read_bytes().replace(b'"a":2', b'"a":3'))
    assert checkpoint(tmp_path).read() == {"a": 1}


def test_damage_without_a_file_before_is_an_error(tmp_path: Path) -> None:
    checkpoint(tmp_path).write({"a": 1})
    (tmp_path / "state.json").write_bytes(b"{")
    with pytest.raises(CheckpointError, match="nor the one before it"):
        checkpoint(tmp_path).read()


def test_another_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    checkpoint(tmp_path, version=2).write({"a": 1})
    with pytest.raises(CheckpointError, match="has version 2, this program reads 1"):
        checkpoint(tmp_path, version=1).read()
    assert checkpoint(tmp_path, version=2).read() == {"a": 1}


def test_a_crash_before_the_rename_keeps_the_old_content(tmp_path: Path) -> None:
    checkpoint(tmp_path).write({"a": 1})
    (tmp_path / "state.json.new").write_bytes(b'{"half')
    assert checkpoint(tmp_path).read() == {"a": 1}
    checkpoint(tmp_path).write({"a": 2})
    assert checkpoint(tmp_path).read() == {"a": 2}
