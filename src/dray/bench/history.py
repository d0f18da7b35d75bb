"""`dray bench history`: the size of a record with many changes, and the time of questions to it.

Claims of pods with one device item, from a second to days long, on devices that are nearly all in
use. Each life is four changes: the device is held, the claim used, and both end.
"""

from __future__ import annotations

import datetime
import heapq
import random
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from dray.api.ids import DeviceId
from dray.history.facts import (
    FactBegin,
    FactChange,
    FactDetails,
    FactEnd,
    HeldFact,
    ObjectRef,
    RecordProgress,
    UsedFact,
    from_milliseconds,
)
from dray.history.history_file import HistoryFile
from dray.history.queries import DeviceHistory

DRIVER = "gpu.nvidia.com"
GPUS = 8
USERS = 50
START = 1_763_520_000_000
SPAN = 30 * 24 * 3600 * 1000
AT_ONCE = 200
SHORTEST = 1_000.0
"""Milliseconds for which devices are held at least; short times are as frequent as long ones."""
LONGEST_DAYS, LONGEST_DAYS_OF_FEW_LIVES = 3, 120
MANY_LIVES = 130
"""A device with fewer lives is held for longer, so that most are in use."""

Say = Callable[[str], None]


class HistoryScale(msgspec.Struct, frozen=True):
    changes: int = 1_000_000
    devices: int = 1_000
    questions: int = 200


class Report(msgspec.Struct):
    changes: int
    devices: int
    file_mb: float
    bytes_per_change: float
    changes_per_s: float
    """Of CPU time, in one thread."""
    held: float
    """The mean number of devices that were held."""
    at_cpu_ms: float
    """The mean CPU time of asking who held what at one time."""
    at_p50_ms: float
    at_max_ms: float
    device_at_p50_ms: float
    """Who held one device at one time. Here and below, with opening the file."""
    device_at_max_ms: float
    node_at_p50_ms: float
    node_at_max_ms: float
    user_at_p50_ms: float
    user_at_max_ms: float
    device_p50_ms: float
    """All periods of one device."""
    device_max_ms: float
    claim_p50_ms: float
    """All periods of a claim, by its name."""
    claim_max_ms: float
    node_day_p50_ms: float
    """The periods of one node on one day."""
    node_day_max_ms: float
    usage_ms: float
    """The use of a week in 100 parts."""


def run(scale: HistoryScale, say: Say = lambda _: None) -> Report:
    with tempfile.TemporaryDirectory(prefix="dray-bench-") as folder:
        path = Path(folder) / "history.db"
        say(f"recording {scale.changes} changes")
        began = time.process_time()
        ends = _record(path, scale)
        seconds = time.process_time() - began
        say("asking")
        return _asked(path, scale, seconds, ends)


def _record(path: Path, scale: HistoryScale) -> list[int]:
    """Write the file; return the times of its commits."""
    times: list[int] = []
    with HistoryFile.open(path) as file:
        file.load()
        batch: list[FactChange] = []
        for now, change in _changes(scale):
            batch.append(change)
            if len(batch) >= AT_ONCE:
                file.commit(batch, RecordProgress(now, {"resourceclaims": str(now)}, not times))
                times.append(now)
                batch = []
    return times


def _changes(scale: HistoryScale) -> Iterator[tuple[int, FactChange]]:
    chance = random.Random(1)
    free = [_device(number) for number in range(scale.devices)]
    ends: list[tuple[int, int, DeviceId, HeldFact, UsedFact]] = []
    written = 0
    # So many lives that the devices are nearly all in use.
    lives = max(scale.changes / 4, 1)
    pause = SPAN / lives
    has_many = lives > MANY_LIVES * scale.devices
    longest = 24.0 * 3600 * 1000 * (LONGEST_DAYS if has_many else LONGEST_DAYS_OF_FEW_LIVES)
    now = float(START)
    while written < scale.changes:
        # All devices are held from the start on.
        if written >= 2 * scale.devices:
            now += chance.expovariate(1 / pause)
        while ends and (ends[0][0] <= now or not free):
            until, _, device, held, used = heapq.heappop(ends)
            yield min(until, int(now)), FactEnd(used, min(until, int(now)))
            yield min(until, int(now)), FactEnd(held, min(until, int(now)))
            free.append(device)
            written += 2
        device = free.pop(chance.randrange(len(free)))
        held, used, details = _life(written, device, chance)
        yield int(now), FactBegin(held, details, int(now))
        yield int(now), FactBegin(used, FactDetails(user=details.user), int(now))
        written += 2
        length = SHORTEST * (longest / SHORTEST) ** chance.random()
        heapq.heappush(ends, (int(now + length), written, device, held, used))


def _device(number: int) -> DeviceId:
    return DeviceId(DRIVER, f"node-{number // GPUS}", f"gpu-{number % GPUS}")


def _life(
    number: int, device: DeviceId, chance: random.Random
) -> tuple[HeldFact, UsedFact, FactDetails]:
    namespace = f"team-{number % 20}"
    pod_name = f"train-{number:07d}-{chance.randrange(1 << 20):05x}"
    claim = ObjectRef(namespace, f"{pod_name}-gpu-{chance.randrange(1 << 20):05x}", _uid(chance))
    pod = ObjectRef(namespace, pod_name, _uid(chance))
    user = f"user-{chance.randrange(USERS)}"
    details = FactDetails(node=device.pool, device_class=DRIVER, user=user)
    return HeldFact(device, claim), UsedFact(claim, pod), details


def _uid(chance: random.Random) -> str:
    return str(uuid.UUID(int=chance.getrandbits(128)))


def _asked(path: Path, scale: HistoryScale, seconds: float, times: list[int]) -> Report:
    chance = random.Random(2)
    moments = [
        from_milliseconds(chance.randint(times[0], times[-1])) for _ in range(scale.questions)
    ]
    devices = [_device(chance.randrange(scale.devices)) for _ in moments]
    day = datetime.timedelta(days=1)
    with DeviceHistory(path) as history:
        held = [len(history.at(moment).holders) for moment in moments]
        some = [holder.claim for (holder, *_) in history.at(moments[0]).holders.values()]
        began = time.process_time()
        at = _milliseconds(lambda number: history.at(moments[number]), scale.questions)
        at_cpu = 1000 * (time.process_time() - began) / scale.questions
        week = moments[0] - 7 * day
        (usage,) = _milliseconds(lambda _: history.usage(week, moments[0], 100), 1)

    def periods(question: Callable[[int], dict[str, Any]]) -> list[float]:
        def ask(number: int) -> None:
            with DeviceHistory(path) as history:
                history.periods(**question(number))

        return _milliseconds(ask, scale.questions)

    def moment_of(number: int) -> dict[str, Any]:
        return {"since": moments[number], "until": moments[number]}

    asked = {
        "at": at,
        "device_at": periods(lambda number: {"device": devices[number], **moment_of(number)}),
        "node_at": periods(lambda number: {"node": devices[number].pool, **moment_of(number)}),
        "user_at": periods(lambda number: {"user": f"user-{number % USERS}", **moment_of(number)}),
        "device": periods(lambda number: {"device": devices[number]}),
        "claim": periods(lambda _: {"claim": chance.choice(some)}),
        "node_day": periods(
            lambda number: {
                "node": devices[number].pool,
                "since": moments[number],
                "until": moments[number] + day,
            }
        ),
    }
    size = path.stat().st_size
    figures = {f"{name}_p50_ms": taken[len(taken) // 2] for name, taken in asked.items()}
    figures |= {f"{name}_max_ms": taken[-1] for name, taken in asked.items()}
    return Report(
        changes=scale.changes,
        devices=scale.devices,
        file_mb=size / 1e6,
        bytes_per_change=size / scale.changes,
        changes_per_s=scale.changes / seconds,
        held=sum(held) / len(held),
        at_cpu_ms=at_cpu,
        usage_ms=usage,
        **figures,
    )


def _milliseconds(ask: Callable[[int], Any], count: int) -> list[float]:
    """Return how long each question takes, sorted."""
    taken = []
    for number in range(count):
        began = time.perf_counter()
        ask(number)
        taken.append(1000 * (time.perf_counter() - began))
    return sorted(taken)
