"""The format of the file: its tables, its version, and connections to it.

A *period* is a fact with the time for which it was true. Names that repeat are stored once, in
`name`. Periods that are over have a `fork` (see `interval_tree`).
"""

from __future__ import annotations

import contextlib
import enum
import shlex
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = [
    "HistoryUnusable",
    "PeriodKind",
    "check",
    "check_format",
    "create_tables",
    "damaged",
    "reading",
    "refusing",
    "writing",
]

FORMAT: Final = 1
APPLICATION_ID: Final = int.from_bytes(b"dryh")
HEADER: Final = b"SQLite format 3\0"
BUSY_SECONDS: Final = 10.0
CACHE_KIBIBYTES: Final = 16 * 1024


class HistoryUnusable(Exception):
    """The file cannot be read or written; `advice` is what the user can do."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


class PeriodKind(enum.IntEnum):
    """The kind of a fact; below each its subject and its object."""

    HELD = 1
    """device, object (claim)"""
    USED = 2
    """object (claim), object (pod)"""
    TAINTED = 3
    """device, name (key)"""
    UNHEALTHY = 4
    """device, name (key)"""
    WAITING = 5
    """object (pod), the reason as text"""
    TOTAL = 6
    """name (class), the number of devices"""


_SCHEMA: Final = (
    "CREATE TABLE name (id INTEGER PRIMARY KEY, text TEXT NOT NULL)",
    """
    CREATE TABLE device (
        id     INTEGER PRIMARY KEY,
        driver INTEGER NOT NULL,  -- name
        pool   INTEGER NOT NULL,  -- name
        name   INTEGER NOT NULL,  -- name
        root   INTEGER NOT NULL   -- name: of the device that it is a part of, or its own
    )
    """,
    """
    CREATE TABLE object (
        id        INTEGER PRIMARY KEY,
        namespace INTEGER NOT NULL,  -- name
        name      TEXT NOT NULL,
        uid       NOT NULL,          -- 16 bytes; TEXT if it is no UUID
        user      TEXT NOT NULL      -- who created it
    )
    """,
    """
    CREATE TABLE period (
        id      INTEGER PRIMARY KEY,
        kind    INTEGER NOT NULL,
        subject INTEGER NOT NULL,
        object  NOT NULL,
        node    INTEGER NOT NULL,  -- name
        class   INTEGER NOT NULL,  -- name
        since   INTEGER NOT NULL,
        until   INTEGER,           -- NULL: it goes on
        about   INTEGER NOT NULL,  -- 1: it ended at an unknown time after `until`
        fork    INTEGER            -- NULL: it goes on
    )
    """,
    "CREATE TABLE followed (kind TEXT PRIMARY KEY, version TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE run (id INTEGER PRIMARY KEY, since INTEGER NOT NULL, until INTEGER NOT NULL)",
    """
    CREATE TABLE meta (
        cluster TEXT NOT NULL,     -- the UID of its namespace kube-system, or ''
        clean   INTEGER NOT NULL   -- 1: closed in order
    )
    """,
    "INSERT INTO meta VALUES ('', 1)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
)

# They are no part of the format: a file gets those that it does not have. SQLite uses one with a
# condition only for a question that says the same condition.
_INDEXES: Final = (
    "period_open ON period (kind) WHERE until IS NULL",
    "period_past ON period (fork, since, until) WHERE fork IS NOT NULL",
    "period_subject ON period (subject, kind)",
    "period_object ON period (object) WHERE kind <= 2",
    "period_node ON period (node) WHERE kind = 1",
    "object_name ON object (name)",
)


def writing(path: Path) -> sqlite3.Connection:
    """Open a connection that starts no transactions by itself, and commits durably.

    Not bound to a thread: the caller has one for all its work.
    """
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS
    )
    try:
        check_format(connection, path)
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise HistoryUnusable(
                f"{path}: the file system cannot hold a write-ahead log",
                "Choose a file on a local disk.",
            )
        connection.execute("PRAGMA synchronous = FULL").fetchall()
        connection.execute("PRAGMA journal_size_limit = 16777216").fetchall()
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def reading(path: Path) -> sqlite3.Connection:
    """Open a connection that cannot write. Not bound to a thread."""
    connection = _look_into(path)
    try:
        if not connection.execute("PRAGMA user_version").fetchone()[0]:
            raise HistoryUnusable(f"{path} has no history yet", "Try again when it is recorded.")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def check(path: Path) -> None:
    """Look at a file, if there is one, before anything about it is changed, its mode included."""
    if path.exists() and (not path.is_file() or path.stat().st_size):
        _look_into(path).close()


def _look_into(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        what = "is not a file" if path.exists() else "does not exist"
        raise HistoryUnusable(f"{path} {what}", "Is that the file of a recorder?")
    with path.open("rb") as file:
        # SQLite takes a very short file of anything for an empty database.
        if file.read(len(HEADER)) not in (HEADER, b""):
            raise HistoryUnusable(f"{path} is not a history", "Choose another file.")
    uri = f"{path.absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS
    )
    try:
        check_format(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raise HistoryUnusable for a file of another program or of a newer dray."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != APPLICATION_ID:
        raise HistoryUnusable(f"{path} is not a history", "Choose another file.")
    if version > FORMAT:
        raise HistoryUnusable(
            f"{path} has format {version}; this version of dray knows up to {FORMAT}",
            "Use the dray that wrote it or a later one, or choose another file.",
        )


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables of a new file, and the indexes that a file does not have."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA if not version else ():
        connection.execute(statement)
    for index in _INDEXES:
        connection.execute(f"CREATE INDEX IF NOT EXISTS {index}")
    connection.execute("COMMIT")


@contextlib.contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Raise errors of the file as HistoryUnusable."""
    try:
        yield
    except OSError as error:
        raise HistoryUnusable(f"{path} cannot be opened: {error.strerror}") from error
    except sqlite3.OperationalError as error:
        raise HistoryUnusable(f"{path} cannot be used: {error}") from error
    except sqlite3.DatabaseError as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception) -> HistoryUnusable:
    return HistoryUnusable(
        f"{path} is damaged or not a history ({error})",
        f"Move it away, and a new one is begun: mv {shlex.quote(f'{path}')} "
        f"{shlex.quote(f'{path}.damaged')}",
    )
