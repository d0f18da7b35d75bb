"""A history on a file system that really is full: what was acknowledged stays, and more follows."""

from __future__ import annotations

import re
from pathlib import Path

from dray.history.facts import Progress
from dray.history.history_file import HistoryFile, HistoryUnusable
from tests.robustness import history_writer
from tests.robustness.history_writer import changes, time_of
from tests.robustness.test_store_disk_full import SIZE_BYTES, small_disk

__all__ = ["small_disk"]


def commit(file: HistoryFile, number: int) -> None:
    progress = Progress(time_of(number), {"commits": str(number)}, number == 1)
    file.commit(list(changes(number)), progress)


def fill(file: HistoryFile, reached: int) -> int:
    """Commit until the disk is full; return the last commit that was acknowledged."""
    reasons: list[str] = []
    while not reasons:
        try:
            commit(file, reached + 1)
            reached += 1
        except HistoryUnusable as error:
            reasons.append(str(error))
    assert re.search(r"full|I/O", reasons[0])
    return reached


def test_history_survives_a_full_disk(small_disk: Path) -> None:
    path, ballast = small_disk / "history.db", small_disk / "ballast"
    ballast.write_bytes(bytes(SIZE_BYTES * 15 // 16))
    with HistoryFile.open(path) as file:
        file.load()
        reached = fill(file, 0)
        assert reached > 10
        for _ in range(3):
            assert file.load().versions == {"commits": str(reached)}
            reached = fill(file, reached)
        ballast.unlink()
        file.load()
        for number in range(reached + 1, reached + 20):
            commit(file, number)
        expected = {
            fact
            for begun in range(reached + 20 - history_writer.LIFE, reached + 20)
            for pair in history_writer.claims(begun)
            for fact in pair
        }
        assert set(file.load().facts) == expected
