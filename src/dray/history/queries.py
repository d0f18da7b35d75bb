"""Questions to the file of a history, while a recorder writes it or later."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from dray import clock
from dray.api.ids import DeviceId
from dray.history import file_format, interval_tree
from dray.history.facts import from_milliseconds, milliseconds
from dray.history.file_format import PeriodKind
from dray.history.history_file import is_in_use, read_uid
from dray.history.periods import (
    DeviceHolder,
    Gap,
    HeldPeriod,
    HistorySpan,
    MarkPeriod,
    Moment,
    UsageBucket,
    WaitPeriod,
)

__all__ = [
    "DeviceHistory",
]

Time = datetime.datetime | None

LAG: Final = datetime.timedelta(seconds=2)
"""After that time a recorder that runs has written what happened."""
ALIVE: Final = datetime.timedelta(seconds=15)
"""A recorder that runs says so more often."""
VALUES_AT_ONCE: Final = 500
FOREVER: Final = 1 << interval_tree.LEVELS - 1
_CREATED = "object IN (SELECT id FROM object WHERE user = :user)"
_COLUMNS = "id, kind, subject, object, node, class, since, until, about"


class _Row(NamedTuple):
    """A period as it is stored."""

    id: int
    kind: int
    subject: int
    object: int | str
    node: int
    device_class: int
    since: int
    until: int | None
    about: int


_Root = tuple[int, int, int]
"""The names of the driver, the pool and the device that a device is a part of."""


class _Claim(NamedTuple):
    """A claim or a pod."""

    text: str
    uid: str
    user: str


class DeviceHistory:
    """Reads one file over a read-only connection of its own. Blocks: ask it in a thread.

    Several threads may ask; each question waits for the one before.
    """

    def __init__(self, path: Path, *, now: Callable[[], datetime.datetime] = clock.utc_now) -> None:
        """Raises HistoryUnusable if the file is absent, damaged, newer or not a history."""
        self._path, self._now = path, now
        self._lock = threading.Lock()
        with file_format.refusing(path):
            self._connection = file_format.reading(path)
        self._known_names: dict[int, str] = {}
        self._known_devices: dict[int, DeviceId] = {}

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def span(self) -> HistorySpan:
        """Return the time that the file is about, and its gaps, the earliest first."""
        with self._reading():
            return self._span()

    def at(self, time: datetime.datetime) -> Moment:
        """Return what was held, tainted and unhealthy at one time."""
        with self._reading():
            rows = list(self._rows_at(milliseconds(time)))
            held = [row for row in rows if row[1] == PeriodKind.HELD]
            marked = [row for row in rows if row[1] in (PeriodKind.TAINTED, PeriodKind.UNHEALTHY)]
            used = sorted((row for row in rows if row[1] == PeriodKind.USED), key=_by_since)
            devices = self._devices({row[2] for row in (*held, *marked)})
            numbers = {row[3] for row in (*held, *used)} | {row[2] for row in used}
            objects = self._objects(numbers)
            is_known = self._span().knows(time)
        pods: dict[int, list[str]] = {}
        for row in used:
            pods.setdefault(row[2], []).append(objects[row[3]].text)
        holders: dict[DeviceId, tuple[DeviceHolder, ...]] = {}
        for row in held:
            text, uid, user = objects[row[3]]
            holder = DeviceHolder(text, uid, tuple(dict.fromkeys(pods.get(row[3], ()))), user)
            device = devices[row[2]]
            others = holders.get(device)
            # Few devices are shared.
            holders[device] = (
                tuple(sorted((*others, holder), key=_by_claim)) if others else (holder,)
            )
        tainted, unhealthy = (
            frozenset(devices[row[2]] for row in marked if row[1] == kind)
            for kind in (PeriodKind.TAINTED, PeriodKind.UNHEALTHY)
        )
        return Moment(time, is_known, holders, tainted, unhealthy)

    def periods(
        self,
        *,
        device: DeviceId | str | None = None,
        claim: str | None = None,
        node: str | None = None,
        user: str | None = None,
        since: Time = None,
        until: Time = None,
    ) -> list[HeldPeriod]:
        """Return when devices were held, the earliest first, as far as all arguments apply.

        A device is an id or a text: DRIVER/POOL/DEVICE or POOL/DEVICE. A claim is NAMESPACE/NAME.
        Of the time from `since` to `until`, each period that has a part in it is returned whole.
        """
        with self._reading():
            conditions = [f"kind = {int(PeriodKind.HELD)}"]
            if device is not None:
                conditions.append(_among("subject", self._device_ids(device)))
            if claim is not None:
                conditions.append(_among("object", self._claim_ids(claim)))
            if user is not None:
                conditions.append(_CREATED)
            if node is not None:
                conditions.append(f"node = {self._id(node)}")
            is_narrow = device is not None or claim is not None
            rows = self._rows_between(
                conditions, since, until, is_narrow=is_narrow, user=user or ""
            )
            return self._held_periods(rows)

    def knows(
        self,
        *,
        device: DeviceId | str | None = None,
        claim: str | None = None,
        node: str | None = None,
        user: str | None = None,
    ) -> bool:
        """Return whether something of that name ever held or was held, as far as is recorded."""
        with self._reading():
            if device is not None:
                return bool(self._device_ids(device))
            if claim is not None:
                return bool(self._claim_ids(claim))
            where = f"node = {self._id(node)}" if node is not None else _CREATED
            held = f"SELECT 1 FROM period WHERE kind = 1 AND {where} LIMIT 1"
            return bool(self._fetch(held, {"user": user}))

    def marks(self, device: DeviceId, since: Time = None, until: Time = None) -> list[MarkPeriod]:
        """Return when a device was tainted or unhealthy, the earliest first."""
        with self._reading():
            kinds = f"kind IN ({int(PeriodKind.TAINTED)}, {int(PeriodKind.UNHEALTHY)})"
            conditions = [kinds, _among("subject", self._device_ids(device))]
            rows = self._rows_between(conditions, since, until, is_narrow=True)
            names = self._names({int(row.object) for row in rows})
        return [
            MarkPeriod(
                device,
                "tainted" if row.kind == PeriodKind.TAINTED else "unhealthy",
                names[int(row.object)],
                from_milliseconds(row.since),
                _ended(row),
            )
            for row in rows
        ]

    def waits(self, since: Time = None, until: Time = None) -> list[WaitPeriod]:
        """Return when pods with claims waited, the earliest first."""
        with self._reading():
            rows = self._rows_between([f"kind = {int(PeriodKind.WAITING)}"], since, until)
            pods = self._objects({row.subject for row in rows})
        # A pod with claims for several classes waits once.
        found: dict[tuple[int, int], WaitPeriod] = {}
        for row in rows:
            start, pod = from_milliseconds(row.since), pods[row.subject].text
            found[row.subject, row.since] = WaitPeriod(pod, start, _ended(row), str(row.object))
        return list(found.values())

    def usage(
        self, since: datetime.datetime, until: datetime.datetime, buckets: int
    ) -> list[UsageBucket]:
        """Return the use of each DeviceClass over time, ordered by class and time."""
        if buckets < 1 or until <= since:
            raise ValueError("usage needs an end after its start, and at least one bucket")
        begin, end = milliseconds(since), milliseconds(until)
        edges = [begin + (end - begin) * number // buckets for number in range(buckets + 1)]
        with self._reading():
            kinds = (PeriodKind.HELD, PeriodKind.WAITING, PeriodKind.TOTAL)
            among = ", ".join(str(int(kind)) for kind in kinds)
            rows = self._rows_between([f"kind IN ({among})"], since, until)
            roots = self._roots()
            names = self._names({_class_id(row) for row in rows})
            known = _clipped(_known_times(self._span()), begin, end)
        means = _Means(edges, known)
        counted: dict[tuple[int, _Root], list[tuple[int, int]]] = defaultdict(list)
        for row in rows:
            times = (row.since, row.until if row.until is not None else end)
            if row.kind == PeriodKind.TOTAL:
                means.add(("total", names[row.subject]), [times], int(row.object))
            elif row.kind == PeriodKind.WAITING:
                means.add(("waiting", names[row.device_class]), [times])
            else:
                counted[row.device_class, roots[row.subject]].append(times)
        for (device_class, _), times_held in counted.items():
            means.add(("held", names[device_class]), _joined(times_held))
        return means.buckets()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Ask one question: everything that it reads is of one moment of the file."""
        with self._lock, file_format.refusing(self._path):
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.execute("ROLLBACK")

    def _fetch(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        return self._connection.execute(statement, values).fetchall()

    def _span(self) -> HistorySpan:
        runs = self._fetch("SELECT since, until FROM run ORDER BY id")
        known = _joined([(since, until) for since, until in runs])
        if not known:
            return HistorySpan(None, None, ())
        gaps = tuple(
            Gap(from_milliseconds(before[1]), from_milliseconds(after[0]))
            for before, after in itertools.pairwise(known)
        )
        first, last = from_milliseconds(known[0][0]), from_milliseconds(known[-1][1])
        now = self._now()
        if now - ALIVE <= last < now - LAG and is_in_use(self._path):
            # The recorder runs: it would have written what happened before.
            last = now - LAG
        return HistorySpan(first, last, gaps)

    def _rows_at(self, time: int) -> Iterator[Any]:
        """Yield the columns of every period that contains a time: they may be very many."""
        later, earlier = interval_tree.ancestors(time)
        for where, value in (
            (f"{_among('fork', later)} AND since <= ?", time),
            (f"{_among('fork', earlier)} AND until > ?", time),
            ("until IS NULL AND since <= ?", time),
        ):
            yield from self._fetch(_select(where), (value,))

    def _rows_between(
        self,
        conditions: Sequence[str],
        since: Time,
        until: Time,
        *,
        is_narrow: bool = False,
        user: str = "",
    ) -> list[_Row]:
        """Return the periods with a part between two times, the earliest first.

        If conditions are narrow they are looked up first, else the times.
        """
        begin = milliseconds(since) if since is not None else 0
        end = milliseconds(until) if until is not None else FOREVER
        rest = " AND ".join(conditions)
        if is_narrow or (since is None and until is None):
            where = "since <= :end AND (until IS NULL OR until >= :begin)"
            values = {"begin": begin, "end": end, "user": user}
            rows = self._fetch(_select(f"{rest} AND {where}"), values)
        else:
            rows = self._rows_overlapping(rest, begin, end, user)
        return sorted(map(_Row._make, rows), key=lambda row: (row.since, row.id))

    def _rows_overlapping(self, rest: str, begin: int, end: int, user: str) -> list[Any]:
        """Return the rows with a part between two times, by the index of the times."""
        rest = rest.replace("kind", "+kind")
        before = [item for item in interval_tree.ancestors(begin).earlier if item < begin]
        after = [item for item in interval_tree.ancestors(end).later if item > end]
        rows: dict[int, Any] = {}
        values = {"begin": begin, "end": end, "user": user}
        for where in (
            "fork BETWEEN :begin AND :end",
            f"{_among('fork', before)} AND until >= :begin",
            f"{_among('fork', after)} AND since <= :end",
            "until IS NULL AND since <= :end",
        ):
            rows |= {row[0]: row for row in self._fetch(_select(f"{where} AND {rest}"), values)}
        return list(rows.values())

    def _held_periods(self, rows: Sequence[_Row]) -> list[HeldPeriod]:
        devices = self._devices({row.subject for row in rows})
        claims = self._objects({int(row.object) for row in rows})
        names = self._names({row.node for row in rows})
        users = self._users({int(row.object) for row in rows})
        found = []
        for row in rows:
            claim = claims[int(row.object)]
            found.append(
                HeldPeriod(
                    device=devices[row.subject],
                    node=names[row.node],
                    claim=claim.text,
                    uid=claim.uid,
                    pods=_users_within(users.get(int(row.object), ()), row),
                    user=claim.user,
                    since=from_milliseconds(row.since),
                    until=_ended(row),
                    until_is_about=bool(row.about),
                )
            )
        return found

    def _users(self, claims: Iterable[int]) -> dict[int, list[tuple[_Row, str]]]:
        """Return the pods that ever used claims, the earliest first."""
        rows: list[_Row] = []
        for part in _parts(claims):
            where = f"kind = {int(PeriodKind.USED)} AND {_among('subject', part)}"
            rows += map(_Row._make, self._fetch(_select(where)))
        pods = self._objects({int(row.object) for row in rows})
        found: dict[int, list[tuple[_Row, str]]] = {}
        for row in sorted(rows, key=lambda row: (row.since, row.id)):
            found.setdefault(row.subject, []).append((row, pods[int(row.object)].text))
        return found

    def _names(self, numbers: Iterable[int]) -> Mapping[int, str]:
        """Return names; they stay in the file for ever, and are kept here."""
        for part in _parts(set(numbers) - self._known_names.keys()):
            rows = self._fetch(f"SELECT id, text FROM name WHERE {_among('id', part)}")
            self._known_names.update(rows)
        return self._known_names

    def _devices(self, numbers: Iterable[int]) -> Mapping[int, DeviceId]:
        """Return devices; they stay in the file for ever, and are kept here."""
        rows: list[tuple[int, ...]] = []
        for part in _parts(set(numbers) - self._known_devices.keys()):
            where = _among("id", part)
            rows += self._fetch(f"SELECT id, driver, pool, name FROM device WHERE {where}")
        names = self._names({number for row in rows for number in row[1:]})
        for number, driver, pool, name in rows:
            self._known_devices[number] = DeviceId(names[driver], names[pool], names[name])
        return self._known_devices

    def _roots(self) -> dict[int, _Root]:
        """Return what each device counts as: driver, pool and the device that it is a part of."""
        rows = self._fetch("SELECT id, driver, pool, root FROM device")
        return {number: (driver, pool, root) for number, driver, pool, root in rows}

    def _objects(self, numbers: Iterable[int]) -> dict[int, _Claim]:
        rows: list[Any] = []
        for part in _parts(numbers):
            where = _among("id", part)
            rows += self._fetch(f"SELECT id, namespace, name, uid, user FROM object WHERE {where}")
        names = self._names({row[1] for row in rows})
        return {
            number: _Claim(_joined_name(names[namespace], name), read_uid(uid), user)
            for number, namespace, name, uid, user in rows
        }

    def _id(self, text: str) -> int:
        """Return the id of a name, or 0 if it does not occur."""
        found = self._fetch("SELECT id FROM name WHERE text = ?", (text,))
        return int(found[0][0]) if found else 0

    def _device_ids(self, device: DeviceId | str) -> list[int]:
        parts = tuple(device) if isinstance(device, DeviceId) else tuple(device.split("/"))
        # A driver's name has no slash, the name of a pool may have some.
        if isinstance(device, DeviceId):
            choices = [parts]
        else:
            choices = [(parts[0], "/".join(parts[1:-1]), parts[-1])] if len(parts) > 2 else []
            choices.append(("", "/".join(parts[:-1]), parts[-1]))
        found: list[int] = []
        for driver, pool, name in choices:
            where, values = "pool = ? AND name = ?", [self._id(pool), self._id(name)]
            if driver:
                where, values = f"{where} AND driver = ?", [*values, self._id(driver)]
            found += [row[0] for row in self._fetch(f"SELECT id FROM device WHERE {where}", values)]
        return found

    def _claim_ids(self, claim: str) -> list[int]:
        namespace, _, name = claim.partition("/")
        where = "name = ? AND namespace = ?"
        rows = self._fetch(f"SELECT id FROM object WHERE {where}", (name, self._id(namespace)))
        return [row[0] for row in rows]


class _Means:
    """Means over parts of the time, of which only some may be known."""

    def __init__(self, edges: Sequence[int], known: Sequence[tuple[int, int]]) -> None:
        self._edges = edges
        self._known = known
        self._sums: dict[str, dict[str, list[float]]] = {}

    def add(
        self, place: tuple[str, str], times: Iterable[tuple[int, int]], amount: float = 1
    ) -> None:
        """Add an amount of a class for some times."""
        figure, device_class = place
        sums = self._sums.setdefault(device_class, {})
        row = sums.setdefault(figure, [0.0] * (len(self._edges) - 1))
        for since, until in times:
            for begin, end in _clipped(self._known, since, until):
                self._spread(row, begin, end, amount)

    def _spread(self, row: list[float], begin: int, end: int, amount: float) -> None:
        first, last = self._edges[0], self._edges[-1]
        width = (last - first) / len(row)
        number = max(0, int((begin - first) / width) - 1)
        while number < len(row) and self._edges[number] < end:
            overlap = min(end, self._edges[number + 1]) - max(begin, self._edges[number])
            row[number] += amount * max(0, overlap)
            number += 1

    def buckets(self) -> list[UsageBucket]:
        spans = list(itertools.pairwise(self._edges))
        known = [0.0] * len(spans)
        for begin, end in self._known:
            self._spread(known, begin, end, 1)
        empty = [0.0] * len(spans)

        def mean(sums: dict[str, list[float]], figure: str, number: int) -> float:
            return sums.get(figure, empty)[number] / (known[number] or 1)

        return [
            UsageBucket(
                device_class,
                from_milliseconds(begin),
                from_milliseconds(end),
                total=mean(sums, "total", number),
                held=mean(sums, "held", number),
                waiting=mean(sums, "waiting", number),
                known=known[number] / max(end - begin, 1),
            )
            for device_class, sums in sorted(self._sums.items())
            for number, (begin, end) in enumerate(spans)
        ]


def _known_times(span: HistorySpan) -> list[tuple[int, int]]:
    if span.first is None or span.last is None:
        return []
    starts = [span.first, *(gap.until for gap in span.gaps)]
    ends = [*(gap.since for gap in span.gaps), span.last]
    return [(milliseconds(a), milliseconds(b)) for a, b in zip(starts, ends, strict=True)]


def _clipped(times: Iterable[tuple[int, int]], begin: int, end: int) -> list[tuple[int, int]]:
    clipped = ((max(since, begin), min(until, end)) for since, until in times)
    return [(since, until) for since, until in clipped if since < until]


def _joined(times: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the same times without overlaps, in order."""
    joined: list[tuple[int, int]] = []
    for since, until in sorted(times):
        if joined and since <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(until, joined[-1][1]))
        else:
            joined.append((since, until))
    return joined


def _class_id(row: _Row) -> int:
    return row.subject if row.kind == PeriodKind.TOTAL else row.device_class


def _users_within(users: Iterable[tuple[_Row, str]], held: _Row) -> tuple[str, ...]:
    """Return the pods that used a claim while it held a device."""
    end = held.until if held.until is not None else FOREVER
    pods = (
        pod
        for used, pod in users
        if used.since <= end and (used.until is None or used.until >= held.since)
    )
    return tuple(dict.fromkeys(pods))


def _ended(row: _Row) -> datetime.datetime | None:
    return from_milliseconds(row.until) if row.until is not None else None


def _by_since(row: Any) -> tuple[int, int]:
    return row[6], row[0]


def _by_claim(holder: DeviceHolder) -> tuple[str, str]:
    return holder.claim, holder.uid


def _joined_name(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def _select(where: str) -> str:
    return f"SELECT {_COLUMNS} FROM period WHERE {where}"


def _among(column: str, numbers: Iterable[int]) -> str:
    """Return a condition; the numbers are ids of this file."""
    return f"{column} IN ({','.join(map(str, numbers))})"


def _parts(numbers: Iterable[int]) -> Iterator[list[int]]:
    ordered = sorted(numbers)
    for start in range(0, len(ordered), VALUES_AT_ONCE):
        yield ordered[start : start + VALUES_AT_ONCE]
