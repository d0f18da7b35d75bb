"""A process made to be killed: writes to a SQLite store and says what was acknowledged and watched.

Each line on standard output is one JSON array: ["ready"], ["acknowledged", key, revision, number]
or ["watched", key, revision, number].
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from dray.store import sqlite, store

WRITERS = 8


def say(*words: object) -> None:
    """One write to the pipe: a line is there as a whole or not at all."""
    os.write(1, json.dumps(words).encode() + b"\n")


async def write(target: store.Store, writer: int) -> None:
    number = 0
    while True:
        key = f"/pods/{writer}/{number % 5}"
        put = store.Put(key, f"{number:05}".encode() * (1 + number % 400))
        say("acknowledged", key, await target.commit(store.Transaction((put,))), number)
        number += 1


async def report(watcher: store.Watch) -> None:
    async for event in watcher:
        assert event.current is not None
        say("watched", event.key, event.revision, int(event.current.value[:5]))


async def main(path: Path) -> None:
    async with sqlite.open(path) as target, asyncio.TaskGroup() as tasks:
        start = await target.revision()
        tasks.create_task(report(await target.watch("/pods/", start)))
        say("ready")
        for writer in range(WRITERS):
            tasks.create_task(write(target, writer))
        while True:
            await target.compact(start)
            await asyncio.sleep(0)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
