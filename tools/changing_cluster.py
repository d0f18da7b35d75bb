"""A `dray up` with a large fleet whose claims get devices and give them back, for measurements.

The allocations are written without a scheduler, so that their number does not depend on its speed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.browser.running import RunningDray, running

from dray.api import errors, kinds
from dray.api.http_messages import Request
from dray.api.types.meta import JsonObject
from dray.client import kubeconfig
from dray.client.api_client import Client
from dray.client.rest import RestTransport

FLEET: Final = "h200"
"""Its nodes have 8 devices."""
GPUS: Final = 8
CLAIMS: Final = 500
START_SECONDS: Final = 300.0
ROUND_SECONDS: Final = 0.1
LOOK_SECONDS: Final = 0.02
TICKS: Final = os.sysconf("SC_CLK_TCK")


class ChangingCluster:
    """Changes claims until it is stopped, and asks for a small object all the while."""

    def __init__(self, dray: RunningDray, nodes: int, rate: int) -> None:
        self.dray, self._nodes, self._rate = dray, nodes, rate
        self._stop, self._begins = threading.Event(), threading.Event()
        self._held: set[int] = set()
        self._changes, self._answers = 0, [0.0]
        self._since = time.monotonic(), self._cpu_seconds()

    def run(self) -> None:
        asyncio.run(self._run())

    def wait_until_it_begins(self) -> None:
        """Wait until all devices are published, and changes begin."""
        assert self._begins.wait(START_SECONDS), "the devices are not published"

    def stop(self) -> None:
        self._stop.set()

    def report(self) -> dict[str, Any]:
        """Return what the server did since the last report, and how fast it answered."""
        (began, used), self._since = self._since, (time.monotonic(), self._cpu_seconds())
        seconds, cpu = self._since[0] - began, self._since[1] - used
        answers, self._answers = sorted(self._answers), [0.0]
        changes, self._changes = self._changes, 0
        return {
            "seconds": round(seconds, 1),
            "changes a second": round(changes / seconds),
            "share of a core": round(cpu / seconds, 3),
            "CPU seconds": round(cpu, 2),
            "a GET, median ms": round(answers[len(answers) // 2] * 1000),
            "of 100 the slowest, ms": round(answers[len(answers) * 99 // 100] * 1000),
        }

    def _cpu_seconds(self) -> float:
        """Return the CPU time that the server has used."""
        stat = Path(f"/proc/{self.dray.process.pid}/stat").read_text("ascii")
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    async def _run(self) -> None:
        async with RestTransport(kubeconfig.load(self.dray.kubeconfig)) as transport:
            client = Client(transport)
            while await _published(client) < self._nodes:
                await asyncio.sleep(1.0)
            for number in range(CLAIMS):
                await client.create(kinds.RESOURCE_CLAIM, _claim(number), "default")
            asking = asyncio.create_task(self._ask(client))
            self._begins.set()
            dice, due = random.Random(1), time.monotonic()
            while not self._stop.is_set():
                chosen = dice.sample(range(CLAIMS), max(1, round(self._rate * ROUND_SECONDS)))
                await asyncio.gather(*(self._change(client, number) for number in chosen))
                self._changes += len(chosen)
                due += ROUND_SECONDS
                await asyncio.sleep(max(0.0, due - time.monotonic()))
            asking.cancel()

    async def _ask(self, client: Client) -> None:
        while True:
            began = time.monotonic()
            await client.raw(Request("GET", "/api/v1/namespaces/default"))
            self._answers.append(time.monotonic() - began)
            await asyncio.sleep(LOOK_SECONDS)

    async def _change(self, client: Client, number: int) -> None:
        """Give a claim a device of its own, or take it back."""
        allocation = None
        if number not in self._held:
            pool = f"{FLEET}-{number % self._nodes}"
            device = f"gpu-{number // self._nodes % GPUS}"
            result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": pool, "device": device}
            allocation = {"devices": {"results": [result]}}
        self._held ^= {number}
        patch = {"status": {"allocation": allocation}}
        await client.patch(
            kinds.RESOURCE_CLAIM, _name(number), patch, "default", subresource="status"
        )


async def _published(client: Client) -> int:
    """Return the number of pools; 0 while the server is too busy with its fleet to answer."""
    try:
        return len((await client.list(kinds.RESOURCE_SLICE)).items)
    except errors.StatusError:
        return 0


def _name(number: int) -> str:
    return f"changing-{number}"


def _claim(number: int) -> JsonObject:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    return {
        **kinds.RESOURCE_CLAIM.type_meta,
        "metadata": {"name": _name(number), "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }


@contextlib.contextmanager
def changing(nodes: int, rate: int) -> Iterator[ChangingCluster]:
    """Run a cluster with so many nodes of 8 devices, and so many changes a second."""
    options = ("--fleet", FLEET, "--nodes", str(nodes), "--store", "memory")
    with (
        tempfile.TemporaryDirectory(prefix="dray-", dir="/tmp") as home,
        running(Path(home) / "data", *options) as dray,
    ):
        cluster = ChangingCluster(dray, nodes, rate)
        thread = threading.Thread(target=cluster.run, daemon=True)
        thread.start()
        try:
            cluster.wait_until_it_begins()
            yield cluster
        finally:
            cluster.stop()
            thread.join(30)
