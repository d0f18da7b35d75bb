"""Reads of the SQLite store's history: old events, old entries, and the copy for a backup.

A connection of its own, used by one thread, so that neither a long read nor a backup holds up the
writer. Everything here blocks.
"""

from __future__ import annotations

import functools
import os
import sqlite3
from pathlib import Path
from typing import Any

from dray.store import committed_state, sqlite_file, store, watch

ROWS_AT_ONCE = 500

_EVENTS = f"""
    SELECT new.ordinal, new.key, new.value, new.created, old.ordinal, old.value, old.created
    FROM log AS new LEFT JOIN log AS old ON {sqlite_file.REPLACED}
    WHERE new.ordinal >= ? AND new.ordinal < ? AND new.key > ? AND new.key < ?
    ORDER BY new.ordinal LIMIT ?
"""

# With one min() in it, SQLite takes the other columns from the row that has the minimum.
_BEFORE = f"""
    SELECT new.key, old.ordinal, old.value, old.created, min(new.ordinal)
    FROM log AS new LEFT JOIN log AS old ON {sqlite_file.REPLACED}
    WHERE new.ordinal >= ? AND new.ordinal < ? AND new.key > ? AND new.key < ?
    GROUP BY new.key
"""


class History:
    """The history of one database."""

    def __init__(self, path: Path, connect: sqlite_file.Connect) -> None:
        self._path, self._connect = path, connect

    @functools.cached_property
    def _connection(self) -> sqlite3.Connection:
        return self._connect(self._path)

    def events(self, after: int, until: int, span: store.Span) -> watch.Stretch:
        """Return the next events after a revision: whole transactions, some hundred rows."""
        bounds = (sqlite_file.ordinal(after + 1), sqlite_file.ordinal(until + 1))
        rows = self._connection.execute(_EVENTS, (*bounds, *span, ROWS_AT_ONCE)).fetchall()
        if len(rows) < ROWS_AT_ONCE:
            return watch.Stretch([_event(*row) for row in rows], until)
        cut = sqlite_file.revision_of(rows[-1][0])
        whole = [_event(*row) for row in rows if sqlite_file.revision_of(row[0]) < cut]
        return watch.Stretch(whole, cut - 1)

    def before(self, revision: int, until: int, span: store.Span) -> committed_state.Before:
        """Return the entries at `revision` of the keys that changed after it, up to `until`."""
        bounds = (sqlite_file.ordinal(revision + 1), sqlite_file.ordinal(until + 1))
        rows = self._connection.execute(_BEFORE, (*bounds, *span)).fetchall()
        return {key: _entry(key, *columns) for key, *columns, _ in rows}

    def copy(self, target: Path) -> None:
        """Write a consistent, compact copy into a file that is empty or absent."""
        self._connection.execute("VACUUM INTO ?", (os.fspath(target),))

    def close(self) -> None:
        if "_connection" in vars(self):
            self._connection.close()


def _event(
    ordinal: int, key: str, value: bytes | None, created: int, *previous: Any
) -> store.Event:
    revision = sqlite_file.revision_of(ordinal)
    current = None if value is None else store.Entry(key, value, revision, created)
    return store.Event(key, revision, current, _entry(key, *previous))


def _entry(key: str, ordinal: int | None, value: bytes, created: int) -> store.Entry | None:
    if ordinal is None:
        return None
    return store.Entry(key, value, sqlite_file.revision_of(ordinal), created)
