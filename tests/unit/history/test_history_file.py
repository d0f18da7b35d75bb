"""The file: what it refuses, who may read it, what it forgets, and what a failed write leaves."""

from __future__ import annotations

import contextlib
import datetime
import multiprocessing
import sqlite3
import stat
from pathlib import Path

import pytest

from dray.api.ids import DeviceId
from dray.history.facts import (
    Fact,
    FactBegin,
    FactChange,
    FactDetails,
    FactEnd,
    FactRevision,
    HeldFact,
    MarkedFact,
    ObjectRef,
    RecordProgress,
    TotalFact,
    UsedFact,
    WaitingFact,
    from_milliseconds,
)
from dray.history.history_file import HistoryFile, HistoryUnusable, is_in_use
from dray.history.queries import DeviceHistory

UID = "6c0df70e-5677-44a3-9e26-51c962b080df"
NOW = 1_763_520_000_000
DAY = 24 * 3600 * 1000


def device(number: int = 0) -> DeviceId:
    return DeviceId("gpu.example.com", "n1", f"gpu-{number}")


def claim(number: int = 0) -> ObjectRef:
    return ObjectRef("default", f"claim-{number}", f"{UID[:-4]}{number:04d}")


def held(number: int = 0, since: int = NOW) -> FactBegin:
    return FactBegin(
        HeldFact(device(number), claim(number)), FactDetails(node="n1", user="ann"), since
    )


def write(path: Path, *changes: FactChange, until: int = NOW + 1, anew: bool = False) -> None:
    with HistoryFile.open(path) as file:
        file.load()
        file.commit(changes, RecordProgress(until, {"pods": "7"}, anew, "cluster"))


def test_everything_that_is_open_is_loaded_as_it_was_written(tmp_path: Path) -> None:
    pod = ObjectRef("default", "p", "not-a-uuid")
    upper = ObjectRef("default", "q", UID.upper())
    facts: dict[Fact, FactDetails] = {
        HeldFact(device(), claim()): FactDetails(NOW, "n1", "gpu", "gpu-0", "ann"),
        HeldFact(device(1), claim()): FactDetails(NOW, "n1", "gpu", "whole", "ann"),
        UsedFact(claim(), pod): FactDetails(NOW, user="ann"),
        UsedFact(claim(), upper): FactDetails(NOW, user="ann"),
        MarkedFact(device(), "tainted", "k"): FactDetails(NOW, root="gpu-0"),
        MarkedFact(device(), "unhealthy", "k"): FactDetails(NOW, root="gpu-0"),
        WaitingFact(pod, "gpu"): FactDetails(NOW, reason="no room", user=""),
        TotalFact("gpu", 4): FactDetails(NOW),
    }
    path = tmp_path / "h.db"
    write(path, *(FactBegin(fact, details, NOW) for fact, details in facts.items()))
    with HistoryFile.open(path) as file:
        found = file.load()
        assert found.facts == facts
        assert (found.until, found.versions, found.cluster) == (NOW + 1, {"pods": "7"}, "cluster")
        again = FactRevision(WaitingFact(pod, "gpu"), "still no room")
        file.commit([again, FactEnd(TotalFact("gpu", 4), NOW + 5)], RecordProgress(NOW + 5, {}))
        found = file.load()
        assert TotalFact("gpu", 4) not in found.facts
        assert found.facts[WaitingFact(pod, "gpu")].reason == "still no room"


def test_the_file_is_private_and_its_companions_are_too(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    with HistoryFile.open(path) as file:
        file.load()
        file.commit([held()], RecordProgress(NOW, {}))
        modes = {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
        assert len(list(tmp_path.iterdir())) == 4
    assert modes == {0o600}


def test_a_second_recorder_is_refused_and_readers_are_not(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    with HistoryFile.open(path) as file:
        file.load()
        file.commit([held()], RecordProgress(NOW, {}))
        assert is_in_use(path)
        with (
            pytest.raises(HistoryUnusable, match="in use by another recorder"),
            HistoryFile.open(path),
        ):
            pass
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.apply(_holders, (path,)) == 1
    assert not is_in_use(path)
    assert _holders(path) == 1


def _holders(path: Path) -> int:
    with DeviceHistory(path) as history:
        return len(history.at(from_milliseconds(NOW)).holders)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"these are notes, and not a database at all" * 100, "not a history"),
        (b"x", "not a history"),
    ],
)
def test_a_foreign_file_stays_as_it_is(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    path.chmod(0o644)
    for open_ in (HistoryFile.open, DeviceHistory):
        with pytest.raises(HistoryUnusable, match=message):
            open_(path).__enter__()
    assert path.read_bytes() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_other_databases_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE notes (text)")
    before = path.read_bytes()
    with pytest.raises(HistoryUnusable, match="is not a history"):
        HistoryFile.open(path).__enter__()
    assert path.read_bytes() == before


def test_a_newer_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    write(path, held())
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 2")
    for open_ in (HistoryFile.open, DeviceHistory):
        with pytest.raises(HistoryUnusable, match="format 2; this version of dray knows") as found:
            open_(path).__enter__()
        assert "later one" in found.value.advice


def test_a_damaged_file_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    write(path, *(held(number) for number in range(2000)))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET clean = 0")
    content = bytearray(path.read_bytes())
    content[8192:65536] = bytes(65536 - 8192)
    path.write_bytes(content)
    with pytest.raises(HistoryUnusable, match="damaged") as found:
        HistoryFile.open(path).__enter__()
    assert f"mv {path}" in found.value.advice
    assert path.read_bytes()[8192:65536] == bytes(65536 - 8192)


def test_a_file_whose_parts_do_not_fit_together_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    write(path, held())
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM object")
    with HistoryFile.open(path) as file, pytest.raises(HistoryUnusable, match="damaged"):
        file.load()


def test_a_missing_file_is_not_created_by_a_reader(tmp_path: Path) -> None:
    with pytest.raises(HistoryUnusable, match="does not exist"):
        DeviceHistory(tmp_path / "h.db")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty.db").touch()
    with pytest.raises(HistoryUnusable, match="has no history yet"):
        DeviceHistory(tmp_path / "empty.db")


def test_old_periods_go_in_small_steps_and_what_goes_on_stays(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    old, new = NOW - 31 * DAY, NOW - 29 * DAY
    begun = [held(number, old) for number in range(2500)]
    recent = held(9000, old + 5)
    with HistoryFile.open(path, retention=datetime.timedelta(days=30)) as file:
        file.load()
        file.commit([*begun, recent, held(9001, old)], RecordProgress(old, {}, begins_anew=True))
        ends = [FactEnd(each.fact, old + 1000) for each in begun]
        file.commit([*ends, FactEnd(recent.fact, new)], RecordProgress(NOW, {}))
        steps = 1
        while file.sweep(NOW):
            steps += 1
        assert steps >= 4
        with DeviceHistory(path, now=lambda: from_milliseconds(NOW)) as history:
            assert [each.claim for each in history.periods()] == [
                "default/claim-9001",
                "default/claim-9000",
            ]
            span = history.span()
            assert span.first == from_milliseconds(NOW - 30 * DAY)
            assert not history.at(from_milliseconds(old)).is_known
    with sqlite3.connect(path) as connection:
        (objects,) = connection.execute("SELECT count(*) FROM object").fetchone()
        assert objects == 2


def test_a_failed_commit_leaves_what_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    with HistoryFile.open(path) as file:
        file.load()
        file.commit([held(0)], RecordProgress(NOW, {"pods": "1"}))
        file._connection.execute("PRAGMA max_page_count = 20")
        many = [held(number) for number in range(1, 5000)]
        with pytest.raises(HistoryUnusable, match="full"):
            file.commit(many, RecordProgress(NOW + 1, {"pods": "2"}))
        found = file.load()
        assert list(found.facts) == [held(0).fact]
        assert (found.until, found.versions) == (NOW, {"pods": "1"})
        file._connection.execute("PRAGMA max_page_count = 1000000")
        file.commit(many, RecordProgress(NOW + 2, {"pods": "2"}))
        assert len(file.load().facts) == 5000
