"""Backups of a SQLite store: written while it runs, restored while it is stopped."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from dray import durable_files
from dray.store import sqlite_file, store

REVISION_JUMP = 10**12
"""Added by a restore: far beyond any revision given out since the backup was taken, so that
a client that still has one of those gets Expired instead of missing changes."""

_FORGET_HISTORY = """
    DELETE FROM log
    WHERE value IS NULL OR ordinal NOT IN (SELECT max(ordinal) FROM log GROUP BY key)
"""


def write(copy: Callable[[Path], None], target: Path) -> None:
    """Write a file with `copy`; it appears as `target` once it is complete and durable."""
    with _appearing_as(target) as unfinished:
        copy(unfinished)


def restore(backup: Path, path: Path) -> int:
    """Replace the store at `path`, which must not be open, by a backup. Returns the revision."""
    with sqlite_file.locked(path), _appearing_as(path) as unfinished:
        shutil.copyfile(backup, unfinished)
        with sqlite_file.refusing(backup):
            revision = _start_over(unfinished)
        # A log of the replaced file would be replayed into the new one.
        for companion in ("-wal", "-shm"):
            Path(f"{path}{companion}").unlink(missing_ok=True)
    return revision


def _start_over(path: Path) -> int:
    """Check a copy, drop its history and move its revision far ahead."""
    with contextlib.closing(sqlite_file.connect(path)) as connection:
        sqlite_file.check_format(connection, path)
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()
        sqlite_file.check_pages(connection)
        (newest,) = connection.execute(
            "SELECT max(compacted, ifnull((SELECT max(ordinal) FROM log), 0) / ?) FROM meta",
            (sqlite_file.PLACES,),
        ).fetchone()
        revision = int(newest) + REVISION_JUMP
        connection.execute(_FORGET_HISTORY)
        connection.execute(
            "UPDATE meta SET compacted = ?, swept = ?, clean = 1",
            (revision, sqlite_file.ordinal(revision)),
        )
    return revision


@contextlib.contextmanager
def _appearing_as(target: Path) -> Iterator[Path]:
    """Yield a file in a private folder beside `target`, which takes its place at the end.

    SQLite writes more than one file and opens them by name. In a folder of its own, nobody else can
    put a link or a journal there, not even in /tmp.
    """
    folder = target.with_name(f".{target.name}.unfinished")
    _make_private(folder)
    unfinished = folder / target.name
    try:
        durable_files.create_private(unfinished)
        yield unfinished
        durable_files.sync(unfinished)
        unfinished.replace(target)
        durable_files.sync(target.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make_private(folder: Path) -> None:
    """Make an empty folder; what an interrupted backup of this user left there goes."""
    try:
        folder.mkdir(mode=0o700)
        return
    except FileExistsError:
        found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise store.StoreUnusable(f"{folder} is in the way, and it is not a folder of this user")
    shutil.rmtree(folder)
    folder.mkdir(mode=0o700)
