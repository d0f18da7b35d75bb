"""Two schedulers without a lease, each sure to be alone, race for the same devices and pods.

The API server is what keeps them apart: on SQLite one server for both, on etcd one for each.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from dray.api import errors, kinds
from dray.api.http_messages import User
from dray.api.types.meta import JsonObject
from dray.apiserver import server
from dray.apiserver.server import RunningServer
from dray.client.api_client import Client, InProcessTransport
from dray.store import etcd as etcd_store
from dray.store import etcd_connection, sqlite
from tests import etcd, loop

PODS = 1000
DEVICES_OF_A_NODE = 8
WORKERS = 8
NAMESPACE = "default"
DRIVER = "gpu.example.com"
POD, CLAIM = kinds.POD, kinds.RESOURCE_CLAIM
ADMIN = User("admin", frozenset({"system:masters", "system:authenticated"}))
SCHEDULER = User("system:kube-scheduler", frozenset({"system:authenticated"}))


class Device(NamedTuple):
    node: str
    name: str


class NaiveScheduler:
    """Takes the first device that it believes to be free, and believes only itself."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._free = list(devices())
        self.refused: Counter[str] = Counter()
        self.bound = 0

    async def run(self) -> None:
        waiting = iter(range(PODS))
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work(waiting))

    async def _work(self, waiting: Iterator[int]) -> None:
        for number in waiting:
            node = await self._allocate(number)
            if node:
                await self._bind(number, node)

    async def _allocate(self, number: int) -> str:
        """The node of the device that was taken; empty where the other one was faster."""
        while True:
            claim = await self._client.get(CLAIM, f"claim-{number}", NAMESPACE)
            if "allocation" in claim["status"]:
                return ""
            device = self._free.pop(0)
            try:
                await self._take(claim, device)
                return device.node
            except errors.Conflict as refusal:
                is_held = "already allocated to the claim" in refusal.message
                self.refused["device" if is_held else "claim"] += 1
                if not is_held:
                    self._free.append(device)

    async def _take(self, claim: JsonObject, device: Device) -> None:
        metadata = claim["metadata"]
        result = {"request": "gpu", "driver": DRIVER, "pool": device.node, "device": device.name}
        patch = {
            "metadata": {"resourceVersion": metadata["resourceVersion"]},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }
        await self._client.patch(CLAIM, metadata["name"], patch, NAMESPACE, subresource="status")

    async def _bind(self, number: int, node: str) -> None:
        target = {"target": {"kind": "Node", "name": node}}
        body = {"metadata": {"name": f"pod-{number}"}, **target}
        await self._client.create_subresource(POD, f"pod-{number}", "binding", body, NAMESPACE)
        self.bound += 1


def devices() -> Iterator[Device]:
    """As many as there are pods: whoever takes one twice leaves a pod without."""
    for number in range(PODS):
        yield Device(f"node-{number // DEVICES_OF_A_NODE}", f"gpu-{number % DEVICES_OF_A_NODE}")


async def populate(client: Client) -> None:
    exactly = {"deviceClassName": DRIVER}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}

    async def make(number: int) -> None:
        metadata = {"name": f"claim-{number}"}
        await client.create(CLAIM, {"metadata": metadata, "spec": spec}, NAMESPACE)
        container = {"name": "c", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}
        uses = [{"name": "gpu", "resourceClaimName": f"claim-{number}"}]
        pod = {"containers": [container], "resourceClaims": uses}
        metadata = {"name": f"pod-{number}"}
        await client.create(POD, {"metadata": metadata, "spec": pod}, NAMESPACE)

    for start in range(0, PODS, 50):
        await asyncio.gather(*map(make, range(start, start + 50)))


async def race(first: RunningServer, second: RunningServer) -> None:
    await populate(Client(InProcessTransport(first.app.handle, ADMIN)))
    schedulers = [
        NaiveScheduler(Client(InProcessTransport(opened.app.handle, SCHEDULER)))
        for opened in (first, second)
    ]
    async with asyncio.TaskGroup() as group:
        for scheduler in schedulers:
            group.create_task(scheduler.run())
    refused = sum((each.refused for each in schedulers), Counter[str]())
    assert refused["device"] > 0, "they never met"
    assert sum(each.bound for each in schedulers) == PODS
    await check(Client(InProcessTransport(first.app.handle, ADMIN)))


async def check(client: Client) -> None:
    claims = [msgspec.json.decode(item) for item in (await client.list(CLAIM)).items]
    held = Counter(
        Device(result["pool"], result["device"])
        for claim in claims
        for result in claim["status"]["allocation"]["devices"]["results"]
    )
    assert held == Counter(devices()), "a device is held twice, or not at all"
    pods = [msgspec.json.decode(item) for item in (await client.list(POD)).items]
    assert all(pod["spec"].get("nodeName") for pod in pods)


@contextlib.asynccontextmanager
async def one_server(directory: Path) -> AsyncIterator[tuple[RunningServer, RunningServer]]:
    signer = server.signer_in(directory)
    async with (
        sqlite.open(directory / "store.db") as store,
        server.open_server(store, signer=signer) as opened,
    ):
        yield opened, opened


@contextlib.asynccontextmanager
async def two_servers(
    directory: Path, endpoint: str
) -> AsyncIterator[tuple[RunningServer, RunningServer]]:
    signer = server.signer_in(directory)
    access = etcd_connection.Access((endpoint,))
    async with (
        etcd_store.open(access, root="/race") as left,
        etcd_store.open(access, root="/race") as right,
        server.open_server(left, signer=signer) as first,
        server.open_server(right, signer=signer) as second,
    ):
        yield first, second


Servers = Callable[[], contextlib.AbstractAsyncContextManager[tuple[RunningServer, RunningServer]]]


async def run(
    servers: Servers, work: Callable[[RunningServer, RunningServer], Awaitable[None]]
) -> None:
    async with servers() as (first, second):
        await work(first, second)


@pytest.mark.slow
def test_one_server_on_sqlite_keeps_two_schedulers_apart(tmp_path: Path) -> None:
    loop.run(run(functools.partial(one_server, tmp_path), race))


@pytest.mark.slow
def test_two_servers_on_etcd_keep_two_schedulers_apart(tmp_path: Path) -> None:
    with etcd.running(tmp_path) as running:
        loop.run(run(functools.partial(two_servers, tmp_path, running.endpoint), race))
