"""The file of a history, as the recorder writes it.

A commit is one transaction: the changes, and up to where everything is recorded. When it returns,
the disk has both. Each table gets one statement for many rows, because sqlite3 gives up the
interpreter lock at every row it steps to: with a busy event loop in the same process, a statement
per row would wait for that lock once per row.
"""

from __future__ import annotations

import contextlib
import datetime
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from dray import durable_files
from dray.api.ids import DeviceId
from dray.history import file_format, interval_tree
from dray.history.facts import (
    MILLISECOND,
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
)
from dray.history.file_format import HistoryUnusable, PeriodKind
from dray.history.periods import MarkKind

__all__ = [
    "HistoryFile",
    "HistoryUnusable",
    "LastRecord",
    "is_in_use",
    "read_uid",
    "written_uid",
]

RETENTION: Final = datetime.timedelta(days=30)
ROWS_AT_ONCE: Final = 90
"""Rows of one statement: SQLite takes at most 999 values in its older versions."""
SWEPT_AT_ONCE: Final = 1_000
LOCK_TRIES, LOCK_PAUSE_SECONDS = 10, 0.02
UUID_BYTES: Final = 16
UUID_CHARACTERS: Final = 36

_OPEN = """
    SELECT id, kind, subject, object, node, class, since FROM period WHERE until IS NULL
"""
_SWEEP = """
    DELETE FROM period WHERE id IN (
        SELECT id FROM period WHERE fork < :before AND until < :before LIMIT :limit
    )
"""
# In the order of the ids: a later sweep goes on behind the objects that are still needed.
_SWEEP_OBJECTS = """
    DELETE FROM object WHERE id > :after AND id <= :end
    AND NOT EXISTS (SELECT 1 FROM period WHERE kind <= 2 AND period.object = object.id)
    AND NOT EXISTS (SELECT 1 FROM period WHERE subject = object.id AND kind IN (2, 5))
"""


_ENDED = """
    ON CONFLICT (id) DO UPDATE
    SET until = excluded.until, about = excluded.about, fork = excluded.fork
"""
# `object` is in an index: it is written only where it changes.
_MOVED = "ON CONFLICT (id) DO UPDATE SET root = excluded.root"
_REVISED = "ON CONFLICT (id) DO UPDATE SET object = excluded.object"


class LastRecord(NamedTuple):
    """The end of a file: all that goes on."""

    facts: dict[Fact, FactDetails]
    """Those that had not ended, with the time at which they began."""
    until: int | None
    """Until when everything is known; None for a new file."""
    versions: dict[str, str]
    cluster: str


class _Row(NamedTuple):
    """A period without its end, as it is stored."""

    id: int
    kind: int
    subject: int
    object: int | str
    node: int
    device_class: int
    since: int


class _Known:
    """The ids of a file that later changes refer to."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.devices: dict[DeviceId, tuple[int, str]] = {}
        """The id and the root of each device."""
        self.objects: dict[ObjectRef, int] = {}
        """Those that a fact is about which has not ended."""
        self.uses: dict[ObjectRef, int] = {}
        """The number of these facts."""
        self.open: dict[Fact, _Row] = {}
        self.next = dict.fromkeys(("name", "device", "object", "period"), 1)

    def new_id(self, table: str) -> int:
        number = self.next[table]
        self.next[table] += 1
        return number

    def use(self, fact: Fact) -> None:
        """Keep in mind the objects that a fact is about, as long as it is true."""
        for reference in _objects_of(fact):
            self.uses[reference] = self.uses.get(reference, 0) + 1

    def release(self, fact: Fact) -> None:
        for reference in _objects_of(fact):
            left = self.uses[reference] - 1
            if left:
                self.uses[reference] = left
            else:
                del self.uses[reference], self.objects[reference]


class HistoryFile:
    """The open file, locked against other recorders. Used by one thread at a time."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, retention: datetime.timedelta
    ) -> None:
        """Only `open` makes one."""
        self.path = path
        self._connection = connection
        self._retention = retention // MILLISECOND
        self._known = _Known()
        self._swept_object = 0

    @classmethod
    @contextlib.contextmanager
    def open(
        cls, path: Path, *, retention: datetime.timedelta = RETENTION
    ) -> Iterator[HistoryFile]:
        """Open or create the file with mode 0600, and close it at the end of the block.

        Raises HistoryUnusable for a file that is damaged, in use, of a newer version or not a
        history; such a file is left as it is.
        """
        with contextlib.ExitStack() as stack:
            with file_format.refusing(path):
                _lock(path, stack)
                file_format.check(path)
                durable_files.create_private(path)
                connection = stack.enter_context(contextlib.closing(file_format.writing(path)))
                file_format.create_tables(connection)
                _check_after_crash(connection)
                file = cls(path, connection, retention)
            yield file
            # What is not closed in order is checked when it is opened the next time.
            with contextlib.suppress(sqlite3.Error):
                connection.execute("UPDATE meta SET clean = 1")

    def load(self) -> LastRecord:
        """Return what the disk has; after a commit that failed, go on from there."""
        try:
            return self._load()
        except KeyError as error:
            # A row refers to one that is not there.
            raise file_format.damaged(self.path, error) from error

    def _load(self) -> LastRecord:
        with file_format.refusing(self.path):
            known = self._known = _Known()
            rows = self._connection.execute(_OPEN).fetchall()
            names = dict(self._connection.execute("SELECT id, text FROM name").fetchall())
            known.names.update((text, number) for number, text in names.items())
            devices = self._load_devices(names)
            objects = self._load_objects(names)
            facts = {}
            for row in map(_Row._make, rows):
                fact, details = _fact(row, names, devices, objects)
                facts[fact] = details
                known.open[fact] = row
                known.use(fact)
            runs = self._connection.execute(
                "SELECT until FROM run ORDER BY id DESC LIMIT 1"
            ).fetchall()
            (cluster,) = self._connection.execute("SELECT cluster FROM meta").fetchone()
            versions = dict(self._connection.execute("SELECT kind, version FROM followed"))
            for table in known.next:
                (last,) = self._connection.execute(f"SELECT max(id) FROM {table}").fetchone()
                known.next[table] = (last or 0) + 1
        return LastRecord(facts, runs[0][0] if runs else None, versions, cluster)

    def commit(self, changes: Sequence[FactChange], progress: RecordProgress) -> None:
        """Write changes and progress durably. After a failure, only `load` may follow.

        Raises HistoryUnusable; then nothing of it is in the file.
        """
        with file_format.refusing(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._write(changes)
                self._write_progress(progress)
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def sweep(self, now: int) -> bool:
        """Remove some periods that are older than the retention; return whether there are more."""
        before = now - self._retention
        with file_format.refusing(self.path):
            gone = self._connection.execute(
                _SWEEP, {"before": before, "limit": SWEPT_AT_ONCE}
            ).rowcount
            if gone:
                # A history that has lost some of its first periods begins after them.
                self._connection.execute(
                    "UPDATE run SET since = max(since, ?) WHERE since < ?", (before, before)
                )
                self._connection.execute(
                    "DELETE FROM run WHERE until < ? AND id < (SELECT max(id) FROM run)", (before,)
                )
            has_more = gone == SWEPT_AT_ONCE or self._sweep_objects()
        return has_more

    def _sweep_objects(self) -> bool:
        """Remove some objects that no period is about; return whether the end is not reached."""
        (end,) = self._connection.execute(
            "SELECT max(id) FROM (SELECT id FROM object WHERE id > ? ORDER BY id LIMIT ?)",
            (self._swept_object, SWEPT_AT_ONCE),
        ).fetchone()
        if end is None:
            self._swept_object = 0
            return False
        self._connection.execute(_SWEEP_OBJECTS, {"after": self._swept_object, "end": end})
        self._swept_object = end
        return True

    def _load_devices(self, names: dict[int, str]) -> dict[int, tuple[DeviceId, str]]:
        found = {}
        rows = self._connection.execute("SELECT id, driver, pool, name, root FROM device")
        for number, driver, pool, name, root in rows.fetchall():
            device = DeviceId(names[driver], names[pool], names[name])
            found[number] = (device, names[root])
            self._known.devices[device] = (number, names[root])
        return found

    def _load_objects(self, names: dict[int, str]) -> dict[int, tuple[ObjectRef, str]]:
        """Return the objects that facts are about which have not ended."""
        rows = self._connection.execute(
            """
            SELECT id, namespace, name, uid, user FROM object WHERE id IN (
                SELECT object FROM period WHERE until IS NULL AND kind <= 2
                UNION SELECT subject FROM period WHERE until IS NULL AND kind IN (2, 5)
            )
            """
        )
        found = {}
        for number, namespace, name, uid, user in rows.fetchall():
            reference = ObjectRef(names[namespace], name, read_uid(uid))
            found[number] = (reference, user)
            self._known.objects[reference] = number
        return found

    def _write(self, changes: Iterable[FactChange]) -> None:
        rows = _NewRows()
        for change in changes:
            if isinstance(change, FactBegin):
                self._begin(change, rows)
            elif isinstance(change, FactEnd):
                self._end(change, rows)
            else:
                self._revise(change, rows)
        self._insert("name", 2, rows.names)
        self._insert("device", 5, [*rows.devices.values()], _MOVED)
        self._insert("object", 5, rows.objects)
        self._insert("period", 10, [*rows.begun.values()])
        self._insert("period", 10, [*rows.ended.values()], _ENDED)
        self._insert("period", 10, [*rows.revised.values()], _REVISED)

    def _begin(self, change: FactBegin, rows: _NewRows) -> None:
        fact, details = change.fact, change.details
        subject, held = self._parts(fact, details, rows)
        row = _Row(
            self._known.new_id("period"),
            _kind(fact),
            subject,
            held,
            self._name(details.node, rows),
            self._name(_class_of(fact, details), rows),
            change.since,
        )
        self._known.open[fact] = row
        self._known.use(fact)
        rows.begun[row.id] = (*row, None, 0, None)

    def _end(self, change: FactEnd, rows: _NewRows) -> None:
        row = self._known.open.pop(change.fact)
        until = max(change.until, row.since)
        fork = interval_tree.fork(row.since, until)
        ended = rows.begun if row.id in rows.begun else rows.ended
        ended[row.id] = (*row, until, int(change.is_about), fork)
        self._known.release(change.fact)

    def _revise(self, change: FactRevision, rows: _NewRows) -> None:
        row = self._known.open[change.fact]._replace(object=change.reason)
        self._known.open[change.fact] = row
        revised = rows.begun if row.id in rows.begun else rows.revised
        revised[row.id] = (*row, None, 0, None)

    def _parts(self, fact: Fact, details: FactDetails, rows: _NewRows) -> tuple[int, int | str]:
        match fact:
            case HeldFact():
                number = self._device(fact.device, details.root, rows)
                return number, self._object(fact.claim, details.user, rows)
            case UsedFact():
                claim = self._object(fact.claim, details.user, rows)
                return claim, self._object(fact.pod, "", rows)
            case MarkedFact():
                number = self._device(fact.device, details.root, rows)
                return number, self._name(fact.key, rows)
            case WaitingFact():
                return self._object(fact.pod, details.user, rows), details.reason
            case TotalFact():
                return self._name(fact.device_class, rows), fact.count

    def _name(self, text: str, rows: _NewRows) -> int:
        number = self._known.names.get(text)
        if number is None:
            number = self._known.names[text] = self._known.new_id("name")
            rows.names.append((number, text))
        return number

    def _device(self, device: DeviceId, root: str, rows: _NewRows) -> int:
        root = root or device.device
        number, known_root = self._known.devices.get(device, (0, ""))
        if root != known_root:
            number = number or self._known.new_id("device")
            self._known.devices[device] = (number, root)
            names = [self._name(name, rows) for name in (*device, root)]
            rows.devices[number] = (number, *names)
        return number

    def _object(self, reference: ObjectRef, user: str, rows: _NewRows) -> int:
        number = self._known.objects.get(reference)
        if number is None:
            number = self._known.objects[reference] = self._known.new_id("object")
            namespace = self._name(reference.namespace, rows)
            uid = written_uid(reference.uid)
            rows.objects.append((number, namespace, reference.name, uid, user))
        return number

    def _insert(
        self, table: str, width: int, rows: Sequence[tuple[Any, ...]], conflict: str = ""
    ) -> None:
        placeholders = f"({','.join('?' * width)})"
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = rows[start : start + ROWS_AT_ONCE]
            values = [value for row in part for value in row]
            lines = ",".join([placeholders] * len(part))
            self._connection.execute(f"INSERT INTO {table} VALUES {lines} {conflict}", values)

    def _write_progress(self, progress: RecordProgress) -> None:
        until = progress.until
        last = "WHERE id = (SELECT max(id) FROM run)"
        (runs,) = self._connection.execute("SELECT count(*) FROM run").fetchone()
        if progress.begins_anew or not runs:
            self._connection.execute("INSERT INTO run (since, until) VALUES (?, ?)", (until, until))
        else:
            self._connection.execute(f"UPDATE run SET until = max(since, ?) {last}", (until,))
        if progress.versions:
            conflict = "ON CONFLICT (kind) DO UPDATE SET version = excluded.version"
            self._insert("followed", 2, [*progress.versions.items()], conflict)
        self._connection.execute(
            "UPDATE meta SET clean = 0, cluster = ?",
            (progress.cluster,),
        )


class _NewRows:
    """The rows of one transaction; those of periods by id."""

    def __init__(self) -> None:
        self.names: list[tuple[int, str]] = []
        self.devices: dict[int, tuple[int, ...]] = {}
        self.objects: list[tuple[Any, ...]] = []
        self.begun: dict[int, tuple[Any, ...]] = {}
        self.ended: dict[int, tuple[Any, ...]] = {}
        self.revised: dict[int, tuple[Any, ...]] = {}


def written_uid(uid: str) -> bytes | str:
    """Return a UUID as its bytes, which are half as long."""
    if len(uid) == UUID_CHARACTERS:
        with contextlib.suppress(ValueError):
            written = bytes.fromhex(uid.replace("-", ""))
            # Other spellings of the same number are kept as they are.
            if len(written) == UUID_BYTES and read_uid(written) == uid:
                return written
    return uid


def read_uid(stored: bytes | str) -> str:
    if isinstance(stored, str):
        return stored
    text = stored.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_KINDS: Final = {
    HeldFact: int(PeriodKind.HELD),
    UsedFact: int(PeriodKind.USED),
    WaitingFact: int(PeriodKind.WAITING),
    TotalFact: int(PeriodKind.TOTAL),
}


def _kind(fact: Fact) -> int:
    if isinstance(fact, MarkedFact):
        return int(PeriodKind.TAINTED if fact.kind == "tainted" else PeriodKind.UNHEALTHY)
    return _KINDS[type(fact)]


def _class_of(fact: Fact, details: FactDetails) -> str:
    return fact.device_class if isinstance(fact, WaitingFact) else details.device_class


def _objects_of(fact: Fact) -> tuple[ObjectRef, ...]:
    """Return the objects that are kept in mind as long as the fact is true."""
    match fact:
        case HeldFact():
            return (fact.claim,)
        case UsedFact():
            return (fact.claim, fact.pod)
        case WaitingFact():
            return (fact.pod,)
        case _:
            return ()


def _fact(
    row: _Row,
    names: dict[int, str],
    devices: dict[int, tuple[DeviceId, str]],
    objects: dict[int, tuple[ObjectRef, str]],
) -> tuple[Fact, FactDetails]:
    """Return what a row says, and when it began."""
    if row.kind in (PeriodKind.USED, PeriodKind.WAITING):
        subject, user = objects[row.subject]
        details = FactDetails(row.since, user=user)
        if row.kind == PeriodKind.WAITING:
            revised = msgspec.structs.replace(details, reason=str(row.object))
            return WaitingFact(subject, names[row.device_class]), revised
        return UsedFact(subject, objects[int(row.object)][0]), details
    if row.kind == PeriodKind.TOTAL:
        return TotalFact(names[row.subject], int(row.object)), FactDetails(row.since)
    device, root = devices[row.subject]
    if row.kind == PeriodKind.HELD:
        claim, user = objects[int(row.object)]
        node, device_class = names[row.node], names[row.device_class]
        return HeldFact(device, claim), FactDetails(row.since, node, device_class, root, user)
    kind: MarkKind = "tainted" if row.kind == PeriodKind.TAINTED else "unhealthy"
    return MarkedFact(device, kind, names[int(row.object)]), FactDetails(row.since, root=root)


def _lock(path: Path, stack: contextlib.ExitStack) -> None:
    """Keep other recorders out; the kernel releases the lock when this process ends.

    A file of its own, because closing any handle of the database would drop SQLite's own locks.
    Tries again, because `is_in_use` holds the lock for a moment.
    """
    for tries_left in reversed(range(LOCK_TRIES)):
        try:
            stack.enter_context(durable_files.locked(_lock_path(path)))
            return
        except BlockingIOError as error:
            if not tries_left:
                raise HistoryUnusable(
                    f"{path} is in use by another recorder",
                    "Stop that one, or choose another file.",
                ) from error
            time.sleep(LOCK_PAUSE_SECONDS)


def is_in_use(path: Path) -> bool:
    """Return whether a recorder writes the file."""
    try:
        with durable_files.locked(_lock_path(path)):
            return False
    except BlockingIOError:
        return True
    except OSError:
        return False


def _lock_path(path: Path) -> Path:
    return Path(f"{path}.lock")


def _check_after_crash(connection: sqlite3.Connection) -> None:
    (clean,) = connection.execute("SELECT clean FROM meta").fetchone()
    if not clean:
        problems = connection.execute("PRAGMA quick_check").fetchall()
        if problems != [("ok",)]:
            raise sqlite3.DatabaseError(problems[0][0])
