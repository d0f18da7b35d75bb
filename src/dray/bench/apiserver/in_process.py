"""The API server without a socket: creates through the in-process client, and its memory.

`python -m dray.bench.apiserver.in_process DIRECTORY PAIRS` runs in a process of its own, so that
the reported memory is that of one API server with its SQLite store. It prints one JSON line.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from dray import gc_tuning
from dray.api import kinds
from dray.api.http_messages import User
from dray.apiserver import server
from dray.bench import measured_process, workload
from dray.client.api_client import Client, InProcessTransport
from dray.store import sqlite

PODS, CLAIMS = kinds.POD, kinds.RESOURCE_CLAIM
WORKERS = 64
MEASURED_PAIRS = 5_000
"""The rate is measured on this many; the others are there to use memory."""
SETTLE_SECONDS = 0.1
"""The server needs a moment to see new roles and policies."""


async def run(directory: Path, pairs: int) -> Mapping[str, Any]:
    signer = server.signer_in(directory)
    async with (
        sqlite.open(directory / "inside.db") as store,
        server.open_server(store, signer=signer) as opened,
    ):
        admin = User("admin", frozenset({"system:authenticated", "system:masters"}))
        admin_client = Client(InProcessTransport(opened.app.handle, admin))
        await workload.allow(admin_client)
        await asyncio.sleep(SETTLE_SECONDS)
        user = User(workload.USER, frozenset({"system:authenticated"}))
        client = Client(InProcessTransport(opened.app.handle, user))
        await _create_all(range(-1, 0), lambda number: _create(client, number))
        with gc_tuning.rare_collections(), measured_process.settled():
            figures = await _measured(client, range(min(pairs, MEASURED_PAIRS)))
        await _create_all(range(MEASURED_PAIRS, pairs), lambda number: _create(client, number))
        await _create_all(range(pairs), lambda number: _allocate(client, number))
        megabytes = measured_process.memory_bytes() / 1e6
        await workload.enforce_policies(admin_client)
        await asyncio.sleep(SETTLE_SECONDS)
        await _create_all(range(-2, -1), lambda number: _create(client, number))
        with gc_tuning.rare_collections(), measured_process.settled():
            more = range(pairs, pairs + min(pairs, MEASURED_PAIRS))
            with_policies = await _measured(client, more)
        return {**figures, "pairs": pairs, "megabytes": megabytes, "with_policies": with_policies}


async def _measured(client: Client, numbers: range) -> Mapping[str, Any]:
    started, cpu = time.perf_counter(), time.process_time()
    await _create_all(numbers, lambda number: _create(client, number))
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu
    return {"creates": 2 * len(numbers), "seconds": seconds, "cpu_seconds": cpu_seconds}


async def _create_all(numbers: range, work: Callable[[int], Awaitable[None]]) -> None:
    left = iter(numbers)

    async def worker() -> None:
        for number in left:
            await work(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(WORKERS):
            group.create_task(worker())


async def _create(client: Client, number: int) -> None:
    claim = workload.claim(f"claim-{number}")
    pod = workload.pod(f"pod-{number}", f"claim-{number}")
    await client.create(CLAIMS, claim, workload.NAMESPACE)
    await client.create(PODS, pod, workload.NAMESPACE)


async def _allocate(client: Client, number: int) -> None:
    patch = {"status": workload.allocation(number)}
    name = f"claim-{number}"
    await client.patch(CLAIMS, name, patch, workload.NAMESPACE, subresource="status")


def main() -> None:
    directory, pairs = sys.argv[1:]
    figures = uvloop.run(run(Path(directory), int(pairs)))
    print(msgspec.json.encode(figures).decode(), flush=True)


if __name__ == "__main__":
    main()
