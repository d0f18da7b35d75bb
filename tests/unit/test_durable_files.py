"""Files that are replaced whole: content, mode, the version before, and what a failure leaves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray import durable_files


def test_a_file_is_made_and_replaced_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content, mode in ((b"one", 0o644), (b"two", 0o600)):
        durable_files.replace_file(path, content, mode=mode)
        assert path.read_bytes() == content
        assert path.stat().st_mode & 0o777 == mode
    assert os.listdir(tmp_path) == ["file"]


def test_the_version_before_is_kept_under_another_name(tmp_path: Path) -> None:
    path, previous = tmp_path / "file", tmp_path / "previous"
    durable_files.replace_file(path, b"one", previous=previous)
    assert not previous.exists()
    for before, content in ((b"one", b"two"), (b"two", b"three")):
        durable_files.replace_file(path, content, previous=previous)
        assert (previous.read_bytes(), path.read_bytes()) == (before, content)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failure_changes_nothing_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "file"
    durable_files.replace_file(path, b"one")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail)
        with pytest.raises(OSError, match="No space"):
            durable_files.replace_file(path, b"two")
    assert path.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["file"]


def test_the_version_before_survives_a_write_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, previous = tmp_path / "file", tmp_path / "previous"
    for content in (b"one", b"two"):
        durable_files.replace_file(path, content, previous=previous)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="No space"):
            durable_files.replace_file(path, b"three", previous=previous)
    assert (previous.read_bytes(), path.read_bytes()) == (b"one", b"two")


def test_what_a_killed_single_writer_left_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "file"
    (tmp_path / "file.new").write_bytes(b"half of it")
    durable_files.replace_file(path, b"one", single_writer=True)
    assert os.listdir(tmp_path) == ["file"]


def test_writers_of_several_processes_have_files_of_their_own(tmp_path: Path) -> None:
    other = tmp_path / "file.new"
    other.write_bytes(b"of another process")
    durable_files.replace_file(tmp_path / "file", b"one")
    assert other.read_bytes() == b"of another process"
