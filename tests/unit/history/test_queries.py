"""Queries against an oracle that keeps everything in lists."""

from __future__ import annotations

import contextlib
import datetime
import random
import re
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dray.api.ids import DeviceId
from dray.history import queries
from dray.history.facts import (
    FactBegin,
    FactDetails,
    FactEnd,
    HeldFact,
    MarkedFact,
    ObjectRef,
    RecordProgress,
    TotalFact,
    UsedFact,
    WaitingFact,
    from_milliseconds,
)
from dray.history.history_file import HistoryFile
from dray.history.queries import DeviceHistory
from tests import rounds

START = 1_763_520_000_000
DRIVER = "gpu.example.com"


class Kept(NamedTuple):
    device: DeviceId
    claim: ObjectRef
    pod: ObjectRef
    node: str
    user: str
    since: int
    until: int | None


class Story:
    """Random claims on a few devices, written to a file in random parts, and kept in a list."""

    def __init__(self, path: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.kept: list[Kept] = []
        self.end = START
        self.first: int | None = None
        with HistoryFile.open(path) as file:
            for _ in range(4):
                open_facts = file.load().facts
                assert {fact for fact in open_facts if isinstance(fact, HeldFact)} == {
                    HeldFact(each.device, each.claim) for each in self.kept if each.until is None
                }
                for _ in range(self.chance.randrange(1, 12)):
                    self._write(file, anew=self.first is None)

    def _write(self, file: HistoryFile, *, anew: bool) -> None:
        changes: list[FactBegin | FactEnd] = []
        for _ in range(self.chance.randrange(12)):
            self.end += self.chance.choice((0, 1, 50, 3_600_000))
            going = [each for each in self.kept if each.until is None]
            if going and self.chance.random() < 0.5:
                ended = self.chance.choice(going)
                until = self.end
                self.kept[self.kept.index(ended)] = ended._replace(until=until)
                changes += [FactEnd(_held(ended), until), FactEnd(_used(ended), until)]
            else:
                begun = self._new()
                details = FactDetails(node=begun.node, user=begun.user, device_class="gpu")
                self.kept.append(begun)
                changes += [
                    FactBegin(_held(begun), details, begun.since),
                    FactBegin(_used(begun), FactDetails(user=begun.user), begun.since),
                ]
        file.commit(changes, RecordProgress(self.end, {}, anew))
        self.first = self.end if self.first is None else self.first

    def _new(self) -> Kept:
        number = len(self.kept)
        node = f"n{self.chance.randrange(3)}"
        device = DeviceId(DRIVER, node, f"gpu-{self.chance.randrange(4)}")
        uid = f"00000000-0000-0000-0000-{number:012d}"
        # Names come again, as those of a StatefulSet's claims do.
        claim = ObjectRef("default", f"claim-{number % 7}", uid)
        pod = ObjectRef("default", f"pod-{number}", f"pod-{number}")
        since = self.end - self.chance.choice((0, 0, 900))
        return Kept(device, claim, pod, node, f"user-{number % 3}", max(since, START), None)

    def at(self, time: int) -> dict[DeviceId, set[tuple[str, tuple[str, ...]]]]:
        found: dict[DeviceId, set[tuple[str, tuple[str, ...]]]] = {}
        for each in self.kept:
            if each.since <= time and (each.until is None or time < each.until):
                pods = (f"default/{each.pod.name}",)
                found.setdefault(each.device, set()).add((each.claim.uid, pods))
        return found

    def some_times(self) -> list[int]:
        edges = [time for each in self.kept for time in (each.since, each.until or self.end)]
        near = [edge + step for edge in edges for step in (-1, 0, 1)]
        anywhere = [self.chance.randint(START - 10, self.end + 10) for _ in range(50)]
        return [*self.chance.sample(near, min(len(near), 100)), *anywhere]


def _held(kept: Kept) -> HeldFact:
    return HeldFact(kept.device, kept.claim)


def _used(kept: Kept) -> UsedFact:
    return UsedFact(kept.claim, kept.pod)


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(15, long=400))
def test_queries_find_what_the_oracle_has(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What has more periods is found by the time.
    monkeypatch.setattr(queries, "FEW", random.Random(seed).randrange(4))
    path = tmp_path / "h.db"
    story = Story(path, seed)
    with DeviceHistory(path) as history:
        for time in story.some_times():
            moment = history.at(from_milliseconds(time))
            found = {
                device: {(holder.uid, holder.pods) for holder in holders}
                for device, holders in moment.holders.items()
            }
            assert found == story.at(time)
            assert story.first is not None
            assert moment.is_known == (story.first <= time <= story.end)
        for _ in range(30):
            one, other = sorted(story.chance.sample(story.some_times(), 2))
            wanted = {
                "device": story.chance.choice(("n0/gpu-1", f"{DRIVER}/n1/gpu-0", "gpu-1", None)),
                "claim": story.chance.choice(("default/claim-2", "x/claim-2", None, None)),
                "node": story.chance.choice(("n2", None, None)),
                "user": story.chance.choice(("user-1", "nobody", None, None)),
            }
            found_uids = sorted(
                each.uid
                for each in history.periods(
                    **wanted,
                    since=from_milliseconds(one),
                    until=from_milliseconds(other),
                )
            )
            expected = sorted(
                each.claim.uid
                for each in story.kept
                if each.since <= other
                and (each.until is None or each.until >= one)
                and wanted["device"] in (None, str(each.device), str(each.device).partition("/")[2])
                and wanted["claim"] in (None, f"default/{each.claim.name}")
                and wanted["node"] in (None, each.node)
                and wanted["user"] in (None, each.user)
            )
            assert found_uids == expected


def write(path: Path, *changes: FactBegin | FactEnd, runs: tuple[tuple[int, int], ...]) -> None:
    with HistoryFile.open(path) as file:
        file.load()
        for number, (since, until) in enumerate(runs):
            file.commit(changes if not number else [], RecordProgress(since, {}, begins_anew=True))
            file.commit([], RecordProgress(until, {}))


DEVICE = DeviceId(DRIVER, "n1", "gpu-0")
CLAIM = ObjectRef("default", "c", "u")
POD = ObjectRef("default", "p", "pu")


def test_times_without_a_recorder_are_gaps(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    write(path, runs=((1000, 2000), (5000, 6000), (5500, 7000)))
    with DeviceHistory(path) as history:
        span = history.span()
        assert span.first == from_milliseconds(1000)
        assert span.last == from_milliseconds(7000)
        assert span.gaps == ((from_milliseconds(2000), from_milliseconds(5000)),)
        known = {time: history.at(from_milliseconds(time)).is_known for time in range(0, 8001, 500)}
        assert [time for time, is_known in known.items() if is_known] == [
            *range(1000, 2001, 500),
            *range(5000, 7001, 500),
        ]


def test_while_a_recorder_runs_the_last_seconds_are_known(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    now = from_milliseconds(20_000)
    with HistoryFile.open(path) as file:
        file.load()
        file.commit([], RecordProgress(12_000, {}, begins_anew=True))
        with DeviceHistory(path, now=lambda: now) as history:
            assert history.span().last == now - datetime.timedelta(seconds=2)
    with DeviceHistory(path, now=lambda: now) as history:
        assert history.span().last == from_milliseconds(12_000)


def test_questions_by_a_name_look_it_up(tmp_path: Path) -> None:
    """Each is answered from indexes, also where a file was begun without them."""
    path = tmp_path / "h.db"
    write(path, FactBegin(HeldFact(DEVICE, CLAIM), FactDetails(node="n1"), 1000), runs=((0, 2000),))
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP INDEX object_name")
        connection.execute("DROP INDEX period_node")
    write(path, FactEnd(HeldFact(DEVICE, CLAIM), 3000), runs=((3000, 4000),))
    time = from_milliseconds(1500)
    with DeviceHistory(path) as history:
        statements: list[str] = []
        history._connection.set_trace_callback(statements.append)
        questions: list[dict[str, Any]] = [
            {"device": DEVICE},
            {"claim": "default/c"},
            {"node": "n1"},
        ]
        for wanted in questions:
            for moment in (None, time):
                (period,) = history.periods(**wanted, since=moment, until=moment)
                assert period.until == from_milliseconds(3000)
            assert history.knows(**wanted)
        assert len(history.periods(user="", since=time, until=time)) == 1
        assert set(history.at(time).holders) == {DEVICE}
        history._connection.set_trace_callback(None)
        for statement in statements:
            if statement.startswith("SELECT") and "FROM name" not in statement:
                for *_, step in history._connection.execute(f"EXPLAIN QUERY PLAN {statement}"):
                    # What goes on is read whole, from an index of its own.
                    assert not re.match("SCAN (object|period)(?!.*period_open)", step), statement


def test_marks_and_waits_have_their_times(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    write(
        path,
        FactBegin(MarkedFact(DEVICE, "tainted", "example.com/hot"), FactDetails(), 1000),
        FactBegin(
            MarkedFact(DEVICE, "unhealthy", "gpu.example.com/unhealthy"), FactDetails(), 1500
        ),
        FactEnd(MarkedFact(DEVICE, "tainted", "example.com/hot"), 2000),
        FactBegin(WaitingFact(POD, "gpu"), FactDetails(reason="no room"), 1200),
        FactBegin(WaitingFact(POD, "nic"), FactDetails(reason="no room"), 1200),
        runs=((1000, 3000),),
    )
    with DeviceHistory(path) as history:
        marks = [(each.kind, each.key, each.until) for each in history.marks(DEVICE)]
        assert marks == [
            ("tainted", "example.com/hot", from_milliseconds(2000)),
            ("unhealthy", "gpu.example.com/unhealthy", None),
        ]
        assert history.marks(DEVICE, from_milliseconds(2500)) == history.marks(DEVICE)[1:]
        moment = history.at(from_milliseconds(1700))
        assert moment.tainted == moment.unhealthy == {DEVICE}
        assert history.at(from_milliseconds(2000)).tainted == set()
        (wait,) = history.waits(from_milliseconds(2500), from_milliseconds(2600))
        assert (wait.pod, wait.since, wait.until, wait.reason) == (
            "default/p",
            from_milliseconds(1200),
            None,
            "no room",
        )


def test_usage_is_a_mean_over_what_is_known_and_counts_a_device_once(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    other = ObjectRef("default", "d", "v")
    part = DeviceId(DRIVER, "n1", "gpu-0-1g")
    details = FactDetails(device_class="gpu", root="gpu-0")
    write(
        path,
        FactBegin(TotalFact("gpu", 4), FactDetails(), 0),
        FactBegin(HeldFact(DEVICE, CLAIM), details, 0),
        FactBegin(HeldFact(DEVICE, other), details, 0),
        FactBegin(HeldFact(part, CLAIM), details, 500),
        FactEnd(HeldFact(DEVICE, CLAIM), 1000),
        FactEnd(HeldFact(DEVICE, other), 1000),
        FactEnd(HeldFact(part, CLAIM), 1500),
        FactBegin(WaitingFact(POD, "gpu"), FactDetails(), 0),
        runs=((0, 2000), (3000, 4000)),
    )
    with DeviceHistory(path) as history:
        found = history.usage(from_milliseconds(0), from_milliseconds(4000), 4)
        assert [each.held for each in found] == [1.0, 0.5, 0.0, 0.0]
        assert [each.known for each in found] == [1.0, 1.0, 0.0, 1.0]
        assert [each.total for each in found] == [4.0, 4.0, 0.0, 4.0]
        assert [each.waiting for each in found] == [1.0, 1.0, 0.0, 1.0]
        with pytest.raises(ValueError, match="at least one bucket"):
            history.usage(from_milliseconds(0), from_milliseconds(1), 0)


def test_a_device_is_in_use_while_a_part_of_it_is_held_through_another_class(
    tmp_path: Path,
) -> None:
    path = tmp_path / "h.db"
    part = DeviceId(DRIVER, "n1", "gpu-0-1g")
    write(
        path,
        FactBegin(TotalFact("gpu", 2), FactDetails(), 0),
        FactBegin(TotalFact("mig", 1), FactDetails(), 0),
        FactBegin(TotalFact("late", 2), FactDetails(), 1000),
        FactBegin(HeldFact(part, CLAIM), FactDetails(device_class="mig", root="gpu-0"), 0),
        FactEnd(HeldFact(part, CLAIM), 2000),
        FactBegin(HeldFact(DEVICE, CLAIM), FactDetails(device_class="gpu", root="gpu-0"), 2000),
        FactEnd(HeldFact(DEVICE, CLAIM), 3000),
        runs=((0, 4000),),
    )

    def held(classes_of: queries.ClassesOf) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        times = from_milliseconds(0), from_milliseconds(4000)
        for each in history.usage(*times, 4, classes_of):
            found.setdefault(each.device_class, []).append(each.held)
        return found

    with DeviceHistory(path) as history:
        through = held(lambda _: ())
        assert through == {"gpu": [0, 0, 1, 0], "late": [0, 0, 0, 0], "mig": [1, 1, 0, 0]}
        selecting = {DEVICE: ("gpu", "mig", "late", "tomorrow")}
        assert held(lambda device: selecting[device]) == {
            "gpu": [1, 1, 1, 0],
            # A class has devices from its creation on.
            "late": [0, 1, 1, 0],
            "mig": [1, 1, 1, 0],
        }


def test_the_history_of_a_device_has_its_partitions(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    part, other = (DeviceId(DRIVER, "n1", name) for name in ("gpu-0-1g", "gpu-1-1g"))
    write(
        path,
        FactBegin(HeldFact(part, CLAIM), FactDetails(device_class="mig", root="gpu-0"), 0),
        FactBegin(MarkedFact(part, "tainted", "k"), FactDetails(root="gpu-0"), 0),
        FactBegin(HeldFact(other, CLAIM), FactDetails(device_class="mig", root="gpu-1"), 0),
        runs=((0, 4000),),
    )
    with DeviceHistory(path) as history:
        # The device itself was never held.
        assert history.knows(device="n1/gpu-0")
        for device in (DEVICE, part, "n1/gpu-0", f"{DRIVER}/n1/gpu-0-1g"):
            assert [each.device for each in history.periods(device=device)] == [part]
            assert [each.device for each in history.marks(device)] == [part]
