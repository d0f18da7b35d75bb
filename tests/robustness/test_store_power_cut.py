"""Durability, not luck: what the SQLite store acknowledged is there after the power went.

A process that is killed proves nothing about the disk, because the kernel keeps its pages.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

import apsw
import pytest

from dray.store import sqlite, store
from tests import loop, rounds
from tests.robustness import disk

WRITERS = 4


class Outcome:
    """What was promised before the power went."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, tuple[int, bytes]] = {}
        self.watched: list[store.Event] = []


class Careless(apsw.Connection):
    """Forgets to ask for durable commits."""

    def execute(self, statements: str, *arguments: Any, **options: Any) -> apsw.Cursor:
        if "synchronous" in statements:
            statements = "PRAGMA synchronous = NORMAL"
        return super().execute(statements, *arguments, **options)


async def write_until_the_power_goes(path: Path, kind: type[apsw.Connection]) -> Outcome:
    outcome = Outcome()

    def connect(path: Path) -> Any:
        connection = kind(str(path), vfs=disk.NAME)
        # The layer has no shared memory, which the log needs unless one connection has it all.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        return connection

    with contextlib.suppress(apsw.Error):
        async with sqlite.open(path, connect=connect) as target:
            watcher = await target.watch("/", await target.revision())
            watching = asyncio.ensure_future(_collect(watcher, outcome))
            await asyncio.gather(*(_write(target, n, outcome) for n in range(WRITERS)))
            watcher.close()
            await watching
    return outcome


async def _write(target: store.Store, writer: int, outcome: Outcome) -> None:
    with contextlib.suppress(store.Unavailable, store.ReadOnly, apsw.Error):
        for number in range(1000):
            key, value = f"/pods/{writer}/{number % 10}", random.randbytes(random.randrange(3000))
            revision = await target.commit(store.Transaction((store.Put(key, value),)))
            outcome.acknowledged[key] = (revision, value)
            if number % 7 == writer:
                await target.compact(revision)


async def _collect(watcher: store.Watch, outcome: Outcome) -> None:
    async for event in watcher:
        outcome.watched.append(event)


async def lost_writes(path: Path, outcome: Outcome) -> list[str]:
    """Keys whose last acknowledged or watched write is not there any more."""
    promised = dict(outcome.acknowledged)
    for event in outcome.watched:
        assert event.current is not None
        promised[event.key] = (event.revision, event.current.value)
    async with sqlite.open(path) as target:
        found = {entry.key: entry for entry in (await target.list("/")).entries}
    return [
        key
        for key, (revision, value) in promised.items()
        if key not in found
        or found[key].revision < revision
        or (found[key].revision == revision and found[key].value != value)
    ]


def run_outage(directory: Path, seed: int, kind: type[apsw.Connection]) -> list[str]:
    """Write until the power goes, then look what is lost."""
    chance = random.Random(seed)
    random.seed(seed)
    path = directory / f"{seed}.db"
    layer = disk.Disk(operations_left=chance.randrange(20, 1200))
    try:
        outcome = loop.run(write_until_the_power_goes(path, kind))
        assert layer.operations_left < 0
        layer.restore_files(chance)
    finally:
        layer.unregister()
    return loop.run(lost_writes(path, outcome))


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(25, long=1000))
def test_acknowledged_writes_survive_a_power_cut(tmp_path: Path, seed: int) -> None:
    assert run_outage(tmp_path, seed, apsw.Connection) == []


def test_layer_notices_a_store_that_does_not_sync(tmp_path: Path) -> None:
    assert any(run_outage(tmp_path, seed, Careless) for seed in range(5))
