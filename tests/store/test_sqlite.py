"""What only the SQLite store promises: durability, groups, format, full disks."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dray.store import sqlite, sqlite_file, store, watch
from tests.store.steps import commit, delete, keys, put, take, values


class Interceptor:
    """Connects to SQLite; lets a test step in before the log is appended to or read back."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.before_append: Callable[[sqlite3.Connection], object] = lambda connection: None
        self.before_history: Callable[[sqlite3.Connection], object] = lambda connection: None

    @property
    def appends(self) -> int:
        return sum(sql.startswith("INSERT INTO log") for sql in self.statements)

    def connect(self, path: Path) -> sqlite3.Connection:
        interceptor = self

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
                interceptor.statements.append(sql)
                if sql.startswith("INSERT INTO log"):
                    interceptor.before_append(self)
                if sql.strip().startswith("SELECT new."):
                    interceptor.before_history(self)
                return super().execute(sql, parameters)

        return sqlite3.connect(path, isolation_level=None, factory=Connection)


class Gate:
    """Holds the writer until the test opens it."""

    def __init__(self) -> None:
        self._reached, self._open = threading.Event(), threading.Event()

    def wait(self, connection: sqlite3.Connection) -> None:
        self._reached.set()
        self._open.wait()

    async def reached(self) -> None:
        await asyncio.to_thread(self._reached.wait)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


async def test_files_are_for_their_owner_only(path: Path) -> None:
    path.touch(0o644)
    async with sqlite.open(path) as target:
        await put(target, "/pods/a/x")
        await target.backup(path.with_name("backup.db"))
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes.keys() >= {"store.db", "store.db-wal", "store.db.lock", "backup.db"}
    assert set(modes.values()) == {0o600}


async def test_everything_is_there_after_reopening(path: Path) -> None:
    async with sqlite.open(path) as target:
        first = await put(target, "/pods/a/x", b"1")
        second = await put(target, "/pods/a/x", b"2")
        await put(target, "/pods/a/y")
        third = await delete(target, "/pods/a/y")
    async with sqlite.open(path) as target:
        page = await target.list("/")
        assert page.entries == [store.Entry("/pods/a/x", b"2", second, first)]
        assert page.revision == third
        assert await put(target, "/pods/a/z") == third + 1


async def test_store_opens_for_one_process_at_a_time(path: Path) -> None:
    async with sqlite.open(path):
        with pytest.raises(store.StoreUnusable, match="in use"):
            async with sqlite.open(path):
                pass
    async with sqlite.open(path):
        pass


async def test_newer_format_is_refused_and_left_alone(path: Path) -> None:
    async with sqlite.open(path):
        pass
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {sqlite_file.FORMAT + 1}")
    before = path.read_bytes()
    with pytest.raises(store.StoreUnusable, match=f"format {sqlite_file.FORMAT + 1}"):
        async with sqlite.open(path):
            pass
    assert path.read_bytes() == before


async def test_database_of_another_program_is_refused(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    with pytest.raises(store.StoreUnusable, match="not a store"):
        async with sqlite.open(path):
            pass


async def test_directory_must_exist(path: Path) -> None:
    with pytest.raises(store.StoreUnusable, match="No such file"):
        async with sqlite.open(path / "store.db"):
            pass


async def test_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_text("not a database, but long enough to be mistaken for one" * 100)
    with pytest.raises(store.StoreUnusable):
        async with sqlite.open(path):
            pass


async def test_only_an_unclean_stop_is_followed_by_a_check(path: Path, tmp_path: Path) -> None:
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    clean, unclean = Interceptor(), Interceptor()
    async with sqlite.open(path) as target:
        await put(target, "/pods/a/x")
        for file in path.parent.glob("store.db*"):
            shutil.copy(file, crashed)
    async with sqlite.open(path, connect=clean.connect):
        assert "PRAGMA quick_check" not in clean.statements
    async with sqlite.open(crashed / path.name, connect=unclean.connect) as target:
        assert "PRAGMA quick_check" in unclean.statements
        assert await keys(target) == ["/pods/a/x"]


async def test_damaged_file_is_refused(path: Path) -> None:
    async with sqlite.open(path) as target:
        for i in range(300):
            await put(target, f"/pods/a/{i}", bytes(1000))
    with path.open("r+b") as file:
        file.seek(10 * sqlite_file.PAGE_BYTES)
        file.write(b"\xff" * sqlite_file.PAGE_BYTES)
    with pytest.raises(store.StoreUnusable, match="restore it from a backup"):
        async with sqlite.open(path):
            pass


async def test_waiting_commits_share_one_write(path: Path) -> None:
    interceptor = Interceptor()
    async with sqlite.open(path, connect=interceptor.connect) as target:
        revisions = await asyncio.gather(*(put(target, f"/pods/a/{i}") for i in range(100)))
        assert sorted(revisions) == list(range(1, 101))
        assert interceptor.appends == 1


async def test_refused_transaction_does_not_disturb_its_group(path: Path) -> None:
    async with sqlite.open(path) as target:
        outcomes = await asyncio.gather(
            put(target, "/pods/a/x", b"first", expect=store.ABSENT, holds=("gpu-0",)),
            put(target, "/pods/a/x", b"second", expect=store.ABSENT),
            put(target, "/pods/a/y", b"third", holds=("gpu-0",)),
            put(target, "/pods/a/x", b"fourth", expect=1),
            put(target, "/pods/a/z", b"fifth"),
            return_exceptions=True,
        )
        kinds = [outcome if isinstance(outcome, int) else type(outcome) for outcome in outcomes]
        assert kinds == [1, store.GuardFailed, store.TokenAlreadyHeld, 2, 3]
        assert await values(target) == {"/pods/a/x": b"fourth", "/pods/a/z": b"fifth"}


async def test_nothing_is_seen_before_it_is_durable(path: Path) -> None:
    synced = Gate()
    interceptor = Interceptor()
    async with sqlite.open(path, connect=interceptor.connect) as target:
        start = await put(target, "/pods/a/x", b"old")
        interceptor.before_append = synced.wait
        watcher = await target.watch("/pods/", start)
        writing = asyncio.ensure_future(put(target, "/pods/a/x", b"new"))
        refused = asyncio.ensure_future(put(target, "/pods/a/x", expect=start))
        await synced.reached()
        assert await values(target) == {"/pods/a/x": b"old"}
        assert await target.revision() == watcher.revision == start
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(watcher)
        assert not refused.done()
        synced.open()
        assert [event.revision for event in await take(watcher, 1)] == [await writing]
        with pytest.raises(store.GuardFailed):
            await refused


async def test_commit_given_up_while_it_waits_is_not_done(path: Path) -> None:
    gate = Gate()
    interceptor = Interceptor()
    interceptor.before_append = gate.wait
    async with sqlite.open(path, connect=interceptor.connect) as target:
        in_writing = asyncio.ensure_future(put(target, "/pods/a/written"))
        await gate.reached()
        waiting = asyncio.ensure_future(put(target, "/pods/a/waiting"))
        await asyncio.sleep(0)
        in_writing.cancel()
        waiting.cancel()
        await asyncio.wait([in_writing, waiting])
        gate.open()
        await put(target, "/pods/a/later")
        assert await keys(target) == ["/pods/a/later", "/pods/a/written"]


async def test_closing_finishes_what_waits(path: Path) -> None:
    async with sqlite.open(path) as target:
        waiting = [asyncio.ensure_future(put(target, f"/pods/a/{i}")) for i in range(5)]
        await asyncio.sleep(0)
    assert sorted(await asyncio.gather(*waiting)) == [1, 2, 3, 4, 5]


async def test_full_disk_stops_writes_until_there_is_room(path: Path) -> None:
    pages = 60
    interceptor = Interceptor()
    interceptor.before_append = lambda c: c.cursor().execute(f"PRAGMA max_page_count = {pages}")
    async with sqlite.open(path, connect=interceptor.connect) as target:
        written = 0
        with contextlib.suppress(store.ReadOnly):
            for written in range(1000):
                await put(target, f"/pods/a/{written}", bytes(5000))
        assert 0 < written < 100
        watcher = await target.watch("/pods/", await target.revision())
        outcomes = await asyncio.gather(
            *(put(target, f"/pods/b/{i}", bytes(5000)) for i in range(3)), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [store.ReadOnly] * 3
        assert len(await keys(target)) == written == await target.revision()
        pages = 1000
        revision = await put(target, "/pods/a/after", bytes(5000))
        assert revision == written + 1
        assert target.health() == store.StoreHealth(writable=True)
        assert [event.revision for event in await take(watcher, 1)] == [revision]
    async with sqlite.open(path) as target:
        assert len(await keys(target)) == written + 1


async def test_writes_that_fail_though_there_is_room_are_told_until_one_succeeds(
    path: Path,
) -> None:
    pages = 1
    interceptor = Interceptor()
    interceptor.before_append = lambda c: c.cursor().execute(f"PRAGMA max_page_count = {pages}")
    async with sqlite.open(path, connect=interceptor.connect) as target:
        for _ in range(2):
            with pytest.raises(store.ReadOnly, match="full"):
                await put(target, "/pods/a/x", bytes(100_000))
            assert not target.health().writable
            assert "the last write failed: database or disk is full" in target.health().reason
        assert interceptor.appends == 2
        pages = 1000
        await put(target, "/pods/a/x", bytes(100_000))
        assert target.health() == store.StoreHealth(writable=True)


async def test_without_room_writes_are_not_even_tried(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 0
    interceptor = Interceptor()
    interceptor.before_append = lambda c: c.cursor().execute("PRAGMA max_page_count = 1")
    monkeypatch.setattr(sqlite_file.Database, "has_room", lambda _: free > 0)
    async with sqlite.open(path, connect=interceptor.connect) as target:
        for _ in range(3):
            with pytest.raises(store.ReadOnly, match="full"):
                await put(target, "/pods/a/x", bytes(100_000))
        assert interceptor.appends == 1
        assert not target.health().writable
        assert "full" in target.health().reason
        free = 1
        interceptor.before_append = lambda c: c.cursor().execute("PRAGMA max_page_count = 1000")
        assert target.health().writable
        await put(target, "/pods/a/x", bytes(100_000))


async def test_failed_sync_stops_writes_until_the_store_is_reopened(path: Path) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        raise error

    interceptor = Interceptor()
    async with sqlite.open(path, connect=interceptor.connect) as target:
        await put(target, "/pods/a/x")
        interceptor.before_append = fail
        with pytest.raises(store.Unavailable, match="disk I/O error"):
            await put(target, "/pods/a/y")
        interceptor.before_append = lambda connection: None
        with pytest.raises(store.ReadOnly, match="reopened"):
            await put(target, "/pods/a/y")
        assert not target.health().writable
        assert await keys(target) == ["/pods/a/x"]
    async with sqlite.open(path) as target:
        await put(target, "/pods/a/y")


async def test_compaction_removes_what_was_replaced(path: Path) -> None:
    async with sqlite.open(path) as target:
        for i in range(2500):
            await commit(target, store.Put("/pods/a/x", b"%d" % i), store.Put("/pods/a/y", b""))
            if i == 1200:
                await put(target, "/pods/a/gone")
                await delete(target, "/pods/a/gone")
        kept = await target.revision() - 3
        expected = await target.list("/", revision=kept)
        await target.compact(kept)
        assert await target.list("/", revision=kept) == expected
    assert _log_rows(path) == 2 + 3 * 2


async def test_interrupted_sweep_is_taken_up_by_the_next(path: Path) -> None:
    async with sqlite.open(path) as target:
        for i in range(30):
            await put(target, "/pods/a/x", b"%d" % i)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE meta SET compacted = 20")
        connection.commit()
    async with sqlite.open(path) as target:
        assert await values(target, revision=20) == {"/pods/a/x": b"19"}
        with pytest.raises(store.RevisionExpired):
            await target.list("/", revision=19)
        await target.compact(25)
    assert _log_rows(path) == 6


async def test_history_compacted_while_it_is_read_has_expired(path: Path) -> None:
    interceptor = Interceptor()
    small = watch.WatchLimits(window_events=1)
    async with sqlite.open(path, connect=interceptor.connect, limits=small) as target:
        start = await put(target, "/pods/a/x", b"old")
        for _ in range(5):
            await put(target, "/pods/a/x", b"new")
        with await target.watch("/pods/", start) as watcher:
            for read in (target.list("/pods/", revision=start), watcher.read()):
                gate = Gate()
                interceptor.before_history = gate.wait
                reading = asyncio.ensure_future(read)
                await gate.reached()
                await target.compact(await put(target, "/pods/a/x", b"newer"))
                gate.open()
                with pytest.raises(store.RevisionExpired):
                    await reading


def _log_rows(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (rows,) = connection.execute("SELECT count(*) FROM log").fetchone()
        return int(rows)
