"""kill -9 amid concurrent writes: nothing acknowledged is lost, no watch has a gap."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from dray.store import sqlite, store
from tests import loop, rounds

ROUNDS = rounds.count(20, long=300)
PROJECT = Path(__file__).parents[2]


class Write(NamedTuple):
    key: str
    revision: int
    number: int


class Life(NamedTuple):
    """What a writing process said before it was killed."""

    acknowledged: list[Write]
    watched: list[Write]


def live_and_die(path: Path, acknowledged_before_death: int) -> Life:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.robustness.store_writer", str(path)],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    lines = []
    for line in process.stdout:
        lines.append(line)
        acknowledged_before_death -= line.startswith(b'["acknowledged"')
        if acknowledged_before_death <= 0:
            break
    process.kill()
    lines += process.stdout.readlines()
    process.stdout.close()
    process.wait()
    said = [json.loads(line) for line in lines]
    assert said[0] == ["ready"]
    return Life(
        [Write(*words) for kind, *words in said if kind == "acknowledged"],
        [Write(*words) for kind, *words in said if kind == "watched"],
    )


async def read_back(path: Path, after: int) -> tuple[list[Write], dict[str, int]]:
    """The history after a revision, and the present, once the store is open again."""
    async with sqlite.open(path) as target:
        until = await target.revision()
        events: list[store.Event] = []
        async with asyncio.timeout(60):
            with await target.watch("/pods/", after) as watcher:
                while watcher.revision < until:
                    events += await watcher.read()
        page = await target.list("/pods/")
    writes = [
        Write(event.key, event.revision, int(event.current.value[:5]))
        for event in events
        if event.current
    ]
    assert len(writes) == len(events)
    return writes, {entry.key: entry.revision for entry in page.entries}


@pytest.mark.slow
@pytest.mark.random
@pytest.mark.timeout(10 * ROUNDS)
def test_killed_writers_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    revision = 0
    for number in range(ROUNDS):
        chance = random.Random(rounds.seed_of(number))
        life = live_and_die(path, chance.randrange(1, 250))
        history, present = loop.run(read_back(path, revision))
        assert set(life.acknowledged) <= set(history)
        assert history[: len(life.watched)] == life.watched
        revisions = [revision, *(write.revision for write in history)]
        assert all(later > earlier for earlier, later in itertools.pairwise(revisions))
        for write in history:
            assert present[write.key] >= write.revision
        revision = revisions[-1]
