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
    "ClassesOf",
    "DeviceHistory",
]

Time = datetime.datetime | None
ClassesOf = Callable[[DeviceId], Iterable[str]]
"""Says which classes select a device or a part of it."""

LAG: Final = datetime.timedelta(seconds=2)
"""After that time a recorder that runs has written what happened."""
ALIVE: Final = datetime.timedelta(seconds=15)
"""A recorder that runs says so more often."""
VALUES_AT_ONCE: Final = 500
FOREVER: Final = 1 << interval_tree.LEVELS - 1
FEW: Final = 10_000
"""Periods that are read sooner than those of a time are found."""
_CREATED = "kind <= 2 AND object IN (SELECT id FROM object WHERE user = :user)"
_CREATED_THEN = "(SELECT user FROM object WHERE object.id = period.object) = :user"
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


_RowThen = tuple[Any, ...]
"""What a period says at a time, in the columns of `_SELECT_THEN`."""
_SELECT_THEN = """
    SELECT since, period.id, kind, subject, object, namespace, name, uid, user
    FROM period LEFT JOIN object ON object.id = period.object AND kind <= 2
"""


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
            of_kind: dict[int, list[_RowThen]] = {kind: [] for kind in PeriodKind}
            for row in self._rows_at(milliseconds(time)):
                of_kind[row[2]].append(row)
            tainted, unhealthy = (
                frozenset(self._devices_of(of_kind[kind]))
                for kind in (PeriodKind.TAINTED, PeriodKind.UNHEALTHY)
            )
            pods = self._pods(of_kind[PeriodKind.USED])
            holders = self._holders(of_kind[PeriodKind.HELD], pods)
            return Moment(time, self._span().knows(time), holders, tainted, unhealthy)

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

        A device is an id or a text: DRIVER/POOL/DEVICE or POOL/DEVICE. Its partitions are parts of
        it. A claim is NAMESPACE/NAME.
        Of the time from `since` to `until`, each period that has a part in it is returned whole.
        """
        with self._reading():
            # The first one that is given is looked up.
            among = []
            if device is not None:
                among.append(_among("subject", self._device_ids(device)))
            if claim is not None:
                among.append(f"kind <= 2 AND {_among('object', self._claim_ids(claim))}")
            if node is not None:
                among.append(f"node = {self._id(node)}")
            held = f"kind = {int(PeriodKind.HELD)}"
            rows = self._rows_between([held, *among], since, until, user=user)
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

    def marks(
        self, device: DeviceId | str, since: Time = None, until: Time = None
    ) -> list[MarkPeriod]:
        """Return when a device or a part of it was tainted or unhealthy, the earliest first.

        Its name is as for `periods`.
        """
        with self._reading():
            kinds = f"kind IN ({int(PeriodKind.TAINTED)}, {int(PeriodKind.UNHEALTHY)})"
            conditions = [kinds, _among("subject", self._device_ids(device))]
            rows = self._rows_between(conditions, since, until)
            names = self._names({int(row.object) for row in rows})
            devices = self._devices({row.subject for row in rows})
        return [
            MarkPeriod(
                devices[row.subject],
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
        self,
        since: datetime.datetime,
        until: datetime.datetime,
        buckets: int,
        classes_of: ClassesOf = lambda _: (),
    ) -> list[UsageBucket]:
        """Return the use of each DeviceClass over time, ordered by class and time.

        A device that is held counts for the class through which it or a part of it is held, and for
        all classes that select it, as far as `classes_of` knows them.
        """
        if buckets < 1 or until <= since:
            raise ValueError("usage needs an end after its start, and at least one bucket")
        begin, end = milliseconds(since), milliseconds(until)
        edges = [begin + (end - begin) * number // buckets for number in range(buckets + 1)]
        with self._reading():
            kinds = (PeriodKind.HELD, PeriodKind.WAITING, PeriodKind.TOTAL)
            among = ", ".join(str(int(kind)) for kind in kinds)
            rows = self._rows_between([f"kind IN ({among})"], since, until)
            roots = self._roots({row.subject for row in rows if row.kind == PeriodKind.HELD})
            names = self._names({_class_id(row) for row in rows})
            known = _clipped(_known_times(self._span()), begin, end)
        means = _Means(edges, known)
        # Of each class the times in which it selected devices.
        selecting: dict[str, list[tuple[int, int]]] = defaultdict(list)
        held: dict[DeviceId, dict[str, list[tuple[int, int]]]] = {}
        for row in rows:
            times = (row.since, row.until if row.until is not None else end)
            if row.kind == PeriodKind.TOTAL:
                means.add(("total", names[row.subject]), [times], int(row.object))
                selecting[names[row.subject]].append(times)
            elif row.kind == PeriodKind.WAITING:
                means.add(("waiting", names[row.device_class]), [times])
            else:
                through = held.setdefault(roots[row.subject], {})
                through.setdefault(names[row.device_class], []).append(times)
        for root, through in held.items():
            whenever = _joined(itertools.chain(*through.values()))
            selected_by = set(classes_of(root))
            for device_class in selected_by | through.keys():
                own = through.get(device_class, ())
                total = selecting.get(device_class, ()) if device_class in selected_by else ()
                others = _common(whenever, _joined(total))
                if own or others:
                    means.add(("held", device_class), _joined([*own, *others]))
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

    def _rows_at(self, time: int) -> Iterator[_RowThen]:
        """Yield every period that contains a time, of what `at` is about: they may be very many."""
        later, earlier = interval_tree.ancestors(time)
        for where, value in (
            (f"{_among('fork', later)} AND since <= ?", time),
            (f"{_among('fork', earlier)} AND until > ?", time),
            ("until IS NULL AND since <= ?", time),
        ):
            yield from self._fetch(f"{_SELECT_THEN} WHERE {where}", (value,))

    def _devices_of(self, rows: Sequence[_RowThen]) -> list[DeviceId]:
        devices = self._devices({row[3] for row in rows})
        return [devices[row[3]] for row in rows]

    def _pods(self, used: Sequence[_RowThen]) -> dict[int, tuple[str, ...]]:
        """Return the pods that use each claim, the earliest first."""
        names = self._names({row[5] for row in used})
        is_any_shared = len({row[3] for row in used}) < len(used)
        pods: dict[int, tuple[str, ...]] = {}
        for _, _, _, claim, _, namespace, name, _, _ in sorted(used) if is_any_shared else used:
            pod = _joined_name(names[namespace], name)
            others = pods.get(claim, ())
            if pod not in others:
                pods[claim] = (*others, pod)
        return pods

    def _holders(
        self, held: Sequence[_RowThen], pods: Mapping[int, tuple[str, ...]]
    ) -> dict[DeviceId, tuple[DeviceHolder, ...]]:
        names = self._names({row[5] for row in held})
        found: dict[DeviceId, tuple[DeviceHolder, ...]] = {}
        for device, row in zip(self._devices_of(held), held, strict=True):
            _, _, _, _, claim, namespace, name, uid, user = row
            text = _joined_name(names[namespace], name)
            holder = DeviceHolder(text, read_uid(uid), pods.get(claim, ()), user)
            others = found.get(device)
            # Few devices are shared.
            found[device] = tuple(sorted((*others, holder), key=_by_claim)) if others else (holder,)
        return found

    def _rows_between(
        self, conditions: Sequence[str], since: Time, until: Time, *, user: str | None = None
    ) -> list[_Row]:
        """Return the periods with a part between two times, the earliest first.

        The first condition is about the kind, the second one about what has an index.
        """
        begin = milliseconds(since) if since is not None else 0
        end = milliseconds(until) if until is not None else FOREVER
        values = {"begin": begin, "end": end, "user": user}
        if (since is None and until is None) or self._are_few(conditions):
            where = [*conditions, "since <= :end AND (until IS NULL OR until >= :begin)"]
            where += [_CREATED] if user is not None else []
            rows = self._fetch(_select(" AND ".join(where)), values)
        else:
            # The plus keeps SQLite from another index than that of the times.
            rest = [f"+{condition}" for condition in conditions]
            rest += [_CREATED_THEN] if user is not None else []
            rows = self._rows_overlapping(" AND ".join(rest), values)
        return sorted(map(_Row._make, rows), key=lambda row: (row.since, row.id))

    def _are_few(self, conditions: Sequence[str]) -> bool:
        """Return whether few periods meet the conditions at any time."""
        if len(conditions) == 1:
            return False
        where = " AND ".join(conditions[:2])
        found = self._fetch(f"SELECT 1 FROM period WHERE {where} LIMIT {FEW + 1}")
        return len(found) <= FEW

    def _rows_overlapping(self, rest: str, values: Mapping[str, Any]) -> list[Any]:
        """Return the rows with a part between two times, by the index of the times."""
        begin, end = values["begin"], values["end"]
        before = [item for item in interval_tree.ancestors(begin).earlier if item < begin]
        after = [item for item in interval_tree.ancestors(end).later if item > end]
        rows: dict[int, Any] = {}
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

    def _roots(self, numbers: Iterable[int]) -> dict[int, DeviceId]:
        """Return what devices count as: the devices that they are parts of, or themselves."""
        rows: list[tuple[int, ...]] = []
        for part in _parts(numbers):
            where = _among("id", part)
            rows += self._fetch(f"SELECT id, driver, pool, root FROM device WHERE {where}")
        names = self._names({number for row in rows for number in row[1:]})
        return {
            number: DeviceId(names[driver], names[pool], names[root])
            for number, driver, pool, root in rows
        }

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
        """Return the ids of a device and of its parts."""
        parts = tuple(device) if isinstance(device, DeviceId) else tuple(device.split("/"))
        # A driver's name has no slash, the name of a pool may have some.
        if isinstance(device, DeviceId):
            choices = [parts]
        else:
            choices = [(parts[0], "/".join(parts[1:-1]), parts[-1])] if len(parts) > 2 else []
            choices.append(("", "/".join(parts[:-1]), parts[-1]))
        found: list[int] = []
        for driver, pool, name in choices:
            where, values = "pool = ? AND ? IN (name, root)", [self._id(pool), self._id(name)]
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


def _common(
    one: Iterable[tuple[int, int]], other: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    return [both for since, until in one for both in _clipped(other, since, until)]


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
