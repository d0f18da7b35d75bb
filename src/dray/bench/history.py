"""`dray bench history`: the size of a record with many changes, and the time of questions to it.

Claims of pods with one device each, from a second to days long, on devices that are nearly all in
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
    Begin,
    Change,
    Details,
    End,
    Held,
    ObjectRef,
    Progress,
    Used,
    from_milliseconds,
)
from dray.history.history_file import HistoryFile
from dray.history.queries import History

DRIVER = "gpu.nvidia.com"
GPUS = 8
USERS = 50
START = 1_763_520_000_000
SPAN = 30 * 24 * 3600 * 1000
AT_ONCE = 200
SHORTEST, LONGEST = 1_000.0, 3.0 * 24 * 3600 * 1000
"""Milliseconds for which devices are held; short times are as frequent as long ones."""

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
    at_p99_ms: float
    at_max_ms: float
    device_p99_ms: float
    """All periods of one device."""
    claim_p99_ms: float
    node_day_p99_ms: float
    """The periods of one node on one day."""
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
        batch: list[Change] = []
        for now, change in _changes(scale):
            batch.append(change)
            if len(batch) >= AT_ONCE:
                file.commit(batch, Progress(now, {"resourceclaims": str(now)}, not times))
                times.append(now)
                batch = []
    return times


def _changes(scale: HistoryScale) -> Iterator[tuple[int, Change]]:
    chance = random.Random(1)
    free = [_device(number) for number in range(scale.devices)]
    ends: list[tuple[int, int, DeviceId, Held, Used]] = []
    written = 0
    # So many lives that the devices are nearly all in use.
    pause = SPAN / max(scale.changes / 4, 1)
    now = float(START)
    while written < scale.changes:
        now += chance.expovariate(1 / pause)
        while ends and (ends[0][0] <= now or not free):
            until, _, device, held, used = heapq.heappop(ends)
            yield min(until, int(now)), End(used, min(until, int(now)))
            yield min(until, int(now)), End(held, min(until, int(now)))
            free.append(device)
            written += 2
        device = free.pop(chance.randrange(len(free)))
        held, used, details = _life(written, device, chance)
        yield int(now), Begin(held, details, int(now))
        yield int(now), Begin(used, Details(user=details.user), int(now))
        written += 2
        length = SHORTEST * (LONGEST / SHORTEST) ** chance.random()
        heapq.heappush(ends, (int(now + length), written, device, held, used))


def _device(number: int) -> DeviceId:
    return DeviceId(DRIVER, f"node-{number // GPUS}", f"gpu-{number % GPUS}")


def _life(number: int, device: DeviceId, chance: random.Random) -> tuple[Held, Used, Details]:
    namespace = f"team-{number % 20}"
    pod_name = f"train-{number:07d}-{chance.randrange(1 << 20):05x}"
    claim = ObjectRef(namespace, f"{pod_name}-gpu-{chance.randrange(1 << 20):05x}", _uid(chance))
    pod = ObjectRef(namespace, pod_name, _uid(chance))
    user = f"user-{chance.randrange(USERS)}"
    details = Details(node=device.pool, device_class=DRIVER, user=user)
    return Held(device, claim), Used(claim, pod), details


def _uid(chance: random.Random) -> str:
    return str(uuid.UUID(int=chance.getrandbits(128)))


def _asked(path: Path, scale: HistoryScale, seconds: float, times: list[int]) -> Report:
    chance = random.Random(2)
    moments = [
        from_milliseconds(chance.randint(times[0], times[-1])) for _ in range(scale.questions)
    ]
    size = path.stat().st_size
    day = datetime.timedelta(days=1)
    with History(path) as history:
        found = [history.at(moment) for moment in moments]
        began = time.process_time()
        at = _milliseconds(lambda number: history.at(moments[number]), scale.questions)
        at_cpu = 1000 * (time.process_time() - began) / scale.questions
        claims = [
            holder.claim for moment in found for each in moment.holders.values() for holder in each
        ]
        devices = [_device(chance.randrange(scale.devices)) for _ in moments]
        by_device = _milliseconds(
            lambda number: history.periods(device=devices[number]), scale.questions
        )
        by_claim = _milliseconds(
            lambda number: history.periods(claim=chance.choice(claims)), scale.questions
        )
        by_node = _milliseconds(
            lambda number: history.periods(
                node=devices[number].pool, since=moments[number], until=moments[number] + day
            ),
            scale.questions,
        )
        week = moments[0] - 7 * day
        (usage,) = _milliseconds(lambda _: history.usage(week, moments[0], 100), 1)
    return Report(
        changes=scale.changes,
        devices=scale.devices,
        file_mb=size / 1e6,
        bytes_per_change=size / scale.changes,
        changes_per_s=scale.changes / seconds,
        held=sum(len(moment.holders) for moment in found) / len(found),
        at_cpu_ms=at_cpu,
        at_p50_ms=at[len(at) // 2],
        at_p99_ms=at[len(at) * 99 // 100],
        at_max_ms=at[-1],
        device_p99_ms=by_device[len(by_device) * 99 // 100],
        claim_p99_ms=by_claim[len(by_claim) * 99 // 100],
        node_day_p99_ms=by_node[len(by_node) * 99 // 100],
        usage_ms=usage,
    )


def _milliseconds(ask: Callable[[int], Any], count: int) -> list[float]:
    """Return how long each question takes, sorted."""
    taken = []
    for number in range(count):
        began = time.perf_counter()
        ask(number)
        taken.append(1000 * (time.perf_counter() - began))
    return sorted(taken)
