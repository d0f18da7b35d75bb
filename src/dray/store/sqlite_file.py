"""The file of the SQLite store: its schema and format, writes and loading.

One table is the truth: a log of changes in which each value is written once. The newest row of a
key is its current entry, `previous` leads from a row to the one it replaced, and compaction removes
rows that were replaced. There is no index to keep up: keys and holds are indexed in memory.

Everything here blocks; a database belongs to the one thread that opened it.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from dray import durable_files
from dray.store import committed_state, store

FORMAT = 1
APPLICATION_ID = int.from_bytes(b"dray")
PLACES = 256  # part of the format, and more than a transaction can have
PAGE_BYTES = 8_192
SWEPT_AT_ONCE = 1_000
RESERVED_BYTES = 8 * 2**20

Connect = Callable[[Path], sqlite3.Connection]

_SCHEMA = (
    """
    CREATE TABLE log (
        ordinal  INTEGER PRIMARY KEY,  -- the revision times PLACES, plus the place in its commit
        key      TEXT NOT NULL,
        value    BLOB,                 -- NULL: deleted
        created  INTEGER NOT NULL,
        previous INTEGER NOT NULL,     -- revision of the row that this one replaces; 0: none
        holds    TEXT                  -- JSON array of tokens; NULL: none
    )
    """,
    """
    CREATE TABLE meta (
        compacted INTEGER NOT NULL,    -- history reaches back to this revision
        swept     INTEGER NOT NULL,    -- rows replaced up to this ordinal are gone
        clean     INTEGER NOT NULL     -- 1: closed in order
    )
    """,
    "INSERT INTO meta VALUES (0, 0, 1)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
)

_CURRENT = """
    SELECT log.ordinal, key, value, created, holds
    FROM log JOIN (SELECT max(ordinal) AS ordinal FROM log GROUP BY key) USING (ordinal)
    WHERE value IS NOT NULL
"""

# The plus keeps SQLite from building an index over all keys: the range holds few rows.
REPLACED = f"""
    old.ordinal >= new.previous * {PLACES} AND old.ordinal < (new.previous + 1) * {PLACES}
    AND +old.key = new.key
"""
"""Joins a row `new` of the log with the row `old` that it replaced."""

_SWEEP = f"""
    DELETE FROM log WHERE ordinal IN (
        SELECT old.ordinal FROM log AS new CROSS JOIN log AS old ON {REPLACED}
        WHERE new.ordinal > :swept AND new.ordinal <= :end
        UNION ALL
        SELECT ordinal FROM log WHERE ordinal > :swept AND ordinal <= :end AND value IS NULL
    )
"""


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection that starts no transactions by itself."""
    return sqlite3.connect(path, isolation_level=None, cached_statements=256)


def ordinal(revision: int, place: int = 0) -> int:
    return revision * PLACES + place


def revision_of(row_ordinal: int) -> int:
    return row_ordinal // PLACES


class Loaded(NamedTuple):
    """The content of a database when it was opened."""

    image: committed_state.StateSnapshot
    compacted: int


class Database:
    """The open file, locked against other processes. Written by one thread."""

    def __init__(self, path: Path, connect: Connect = connect) -> None:
        """Open or create the file. Raises StoreUnusable if it is damaged or in use."""
        self._path = path
        with refusing(path), contextlib.ExitStack() as undo:
            undo.enter_context(locked(path))
            durable_files.create_private(path)
            self._connection = undo.enter_context(contextlib.closing(connect(path)))
            prepare(self._connection, path)
            self._undo = undo.pop_all()

    def load(self) -> Loaded:
        with refusing(self._path):
            newest, compacted = self._connection.execute(
                "SELECT (SELECT max(ordinal) FROM log), compacted FROM meta"
            ).fetchone()
            rows = self._connection.execute(_CURRENT).fetchall()
        rows.sort(key=operator.itemgetter(1))
        entries = [
            store.Entry(key, value, revision_of(row), created)
            for row, key, value, created, _ in rows
        ]
        holds = {
            row[1]: msgspec.json.decode(row[4], type=tuple[str, ...]) for row in rows if row[4]
        }
        revision = max(revision_of(newest or 0), compacted)
        return Loaded(committed_state.StateSnapshot(revision, entries, holds), compacted)

    def append(self, changes: Sequence[committed_state.StateChange]) -> None:
        """Write changes as one durable transaction.

        One statement, because sqlite3 gives up the interpreter lock at every row it steps to: with
        a busy event loop a statement per change waits for that lock once per change.
        """
        values = [column for change in changes for column in _row(change)]
        self._connection.execute(_insertion(len(changes)), values)

    def compact(self, revision: int) -> None:
        self._connection.execute("UPDATE meta SET compacted = max(compacted, ?)", (revision,))

    def sweep(self) -> bool:
        """Remove some compacted rows, and return whether there may be more."""
        swept, compacted = self._connection.execute("SELECT swept, compacted FROM meta").fetchone()
        (end,) = self._connection.execute(
            "SELECT max(ordinal) FROM "
            "(SELECT ordinal FROM log WHERE ordinal > ? AND ordinal < ? ORDER BY ordinal LIMIT ?)",
            (swept, ordinal(compacted + 1), SWEPT_AT_ONCE),
        ).fetchone()
        if end is None:
            return False
        self._connection.execute(_SWEEP, {"swept": swept, "end": end})
        self._connection.execute("UPDATE meta SET swept = ?", (end,))
        return True

    def has_room(self) -> bool:
        return shutil.disk_usage(self._path.parent).free >= RESERVED_BYTES

    def close(self) -> None:
        """Close the file; if that cannot be written, the next opening checks the file."""
        with self._undo, contextlib.suppress(sqlite3.Error):
            self._connection.execute("UPDATE meta SET clean = 1")


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Prepare a connection for durable writes to a file that has been checked."""
    check_format(connection, path)
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}").fetchall()
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise store.StoreUnusable(f"{path}: the file system cannot hold a write-ahead log")
    connection.execute("PRAGMA synchronous = FULL").fetchall()
    connection.execute("PRAGMA journal_size_limit = 67108864").fetchall()
    _create_tables(connection)
    (clean,) = connection.execute("SELECT clean FROM meta").fetchone()
    if not clean:
        check_pages(connection)
    connection.execute("UPDATE meta SET clean = 0")


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StoreUnusable for a file of another program or of a newer dray."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != APPLICATION_ID:
        raise store.StoreUnusable(f"{path} is not a store")
    if version > FORMAT:
        raise store.StoreUnusable(f"{path} has format {version}; this version knows up to {FORMAT}")


@contextlib.contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Raise errors of the file as StoreUnusable."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        raise store.StoreUnusable(f"{path} cannot be opened: {error}") from error
    except sqlite3.DatabaseError as error:
        raise store.StoreUnusable(
            f"{path} is damaged ({error}); restore it from a backup"
        ) from error


def check_pages(connection: sqlite3.Connection) -> None:
    problems = [problem for (problem,) in connection.execute("PRAGMA quick_check").fetchall()]
    if problems != ["ok"]:
        raise sqlite3.DatabaseError(problems[0])


def _create_tables(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version:
        return
    connection.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute("COMMIT")


@functools.cache
def _insertion(rows: int) -> str:
    return "INSERT INTO log VALUES " + ",".join(["(?,?,?,?,?,?)"] * rows)


def _row(
    change: committed_state.StateChange,
) -> tuple[int, str, bytes | None, int, int, str | None]:
    event = change.event
    return (
        ordinal(event.revision, change.place),
        event.key,
        event.current.value if event.current else None,
        event.current.created if event.current else 0,
        event.previous.revision if event.previous else store.ABSENT,
        msgspec.json.encode(change.holds).decode() if change.holds else None,
    )


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out; the kernel releases the lock when this one ends.

    A file of its own, because closing any handle of the database would drop SQLite's own locks.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(durable_files.locked(Path(f"{path}.lock")))
        except BlockingIOError as error:
            raise store.StoreUnusable(f"{path} is in use by another process") from error
        yield
