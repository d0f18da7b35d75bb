"""State that survives crashes and damage."""

from __future__ import annotations

import asyncio
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
    for _ in range(2):
        with pytest.raises(CheckpointError, match=r"nor the one before it .* remove it if no pod"):
            checkpoint(tmp_path).read()
    assert (tmp_path / "state.json").read_bytes() == b"{"


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


def test_what_another_process_wrote_is_noticed(tmp_path: Path) -> None:
    mine, other = checkpoint(tmp_path), checkpoint(tmp_path)

    def stale() -> tuple[bool, bool]:
        return mine.is_stale, other.is_stale

    mine.write({"a": 1})
    assert stale() == (False, True)
    assert other.read() == {"a": 1}
    other.write({"a": 2})
    assert stale() == (True, False)


def test_one_process_at_a_time_is_in_the_block(tmp_path: Path) -> None:
    async def test() -> list[str]:
        order: list[str] = []

        async def enter(name: str, inside: asyncio.Event, leave: asyncio.Event) -> None:
            async with checkpoint(tmp_path).exclusive():
                order.append(f"{name} in")
                inside.set()
                await leave.wait()
                order.append(f"{name} out")

        events = [asyncio.Event() for _ in range(3)]
        async with asyncio.TaskGroup() as group:
            group.create_task(enter("first", events[0], events[1]))
            await events[0].wait()
            group.create_task(enter("second", events[2], events[0]))
            await asyncio.sleep(0)
            events[1].set()
        return order

    assert asyncio.run(test()) == ["first in", "first out", "second in", "second out"]
