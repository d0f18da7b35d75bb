"""Load on an API server: a process of its own with a minimal HTTPS client.

`python -m dray.bench.apiserver.load KUBECONFIG` reads one JSON task per line and answers each with
one JSON line. It shares neither event loop nor interpreter with the server that it measures.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
import uvloop

from dray.api import kinds
from dray.bench import workload
from dray.client import api_client, kubeconfig, rest
from dray.client.kubeconfig import ClusterConnection
from dray.connections.limits import raise_descriptor_limit

PODS = api_client.collection_path(kinds.POD, workload.NAMESPACE)
CLAIMS = api_client.collection_path(kinds.RESOURCE_CLAIM, workload.NAMESPACE)
HANDSHAKES_AT_ONCE = 32
READ_BYTES = 2**20


class CreateTask(msgspec.Struct, frozen=True, tag=True):
    """Create pairs of a claim and a pod from several connections, each with one open request."""

    clients: int
    pairs: int


class ListTask(msgspec.Struct, frozen=True, tag=True):
    """List every claim several times."""

    rounds: int


class WatchTask(msgspec.Struct, frozen=True, tag=True):
    """Open watches on one claim, change it several times, and wait for every event."""

    watchers: int
    changes: int


Task = CreateTask | ListTask | WatchTask


class Connections(contextlib.AsyncExitStack):
    """Opens keep-alive connections to one server, and closes them."""

    def __init__(self, connection: ClusterConnection) -> None:
        super().__init__()
        parts = urlsplit(connection.server)
        assert parts.hostname is not None
        assert parts.port is not None
        self._host, self._port = parts.hostname, parts.port
        self._tls = rest.tls_context(
            connection, connection.client_certificate, connection.client_key
        )

    async def open(self) -> Exchange:
        reader, writer = await asyncio.open_connection(
            self._host, self._port, ssl=self._tls, limit=READ_BYTES
        )
        self.callback(writer.transport.abort)
        return Exchange(reader, writer)


class Exchange:
    """One HTTP/1.1 connection: requests one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, method: str, path: str, body: bytes = b"", kind: str = "") -> bytes:
        """Return the body of a successful response. Raises on any other."""
        self.begin(method, path, body, kind)
        status, headers = await self._head()
        response = await self._reader.readexactly(int(headers.get("content-length", "0")))
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {response[:500].decode()}")
        return response

    def begin(self, method: str, path: str, body: bytes = b"", kind: str = "") -> None:
        content = f"Content-Type: {kind or 'application/json'}\r\n" if body else ""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: bench\r\nUser-Agent: bench\r\n"
            f"Accept: application/json\r\n{content}Content-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)

    async def watch(self, path: str) -> None:
        """Begin a watch; its lines are then read with `line`."""
        self.begin("GET", path)
        status, _ = await self._head()
        if status != 200:
            raise RuntimeError(f"watch {path}: {status}")

    async def line(self, holding: bytes) -> None:
        """Wait for a line of the stream that contains the bytes."""
        while holding not in await self._reader.readline():
            pass

    async def _head(self) -> tuple[int, Mapping[str, str]]:
        status_line, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.split(":", 1) for line in lines if line)
        headers = {name.strip().lower(): value.strip() for name, value in pairs}
        return int(status_line.split(" ", 2)[1]), headers


async def create(connections: Connections, task: CreateTask) -> Mapping[str, Any]:
    numbers = iter(range(task.pairs))
    latencies: list[float] = []
    exchanges = [await connections.open() for _ in range(task.clients)]
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for exchange in exchanges:
            group.create_task(_create_pairs(exchange, numbers, latencies))
    seconds = time.perf_counter() - started
    return {
        "creates": len(latencies),
        "seconds": seconds,
        "p50_milliseconds": statistics.median(latencies) * 1000,
        "p99_milliseconds": statistics.quantiles(latencies, n=100)[98] * 1000,
    }


async def _create_pairs(exchange: Exchange, numbers: Iterator[int], latencies: list[float]) -> None:
    for number in numbers:
        claim_name = f"claim-{number}"
        claim = msgspec.json.encode(workload.claim(claim_name))
        pod = msgspec.json.encode(workload.pod(f"pod-{number}", claim_name))
        for path, body in ((CLAIMS, claim), (PODS, pod)):
            started = time.perf_counter()
            await exchange.send("POST", path, body)
            latencies.append(time.perf_counter() - started)


async def list_claims(connections: Connections, task: ListTask) -> Mapping[str, Any]:
    exchange = await connections.open()
    taken, body = [], b""
    for _ in range(task.rounds):
        started = time.perf_counter()
        body = await exchange.send("GET", CLAIMS)
        taken.append(time.perf_counter() - started)
    return {
        "items": len(msgspec.json.decode(body)["items"]),
        "megabytes": len(body) / 1e6,
        "seconds": statistics.median(taken),
        "slowest_seconds": max(taken),
    }


async def watch(connections: Connections, task: WatchTask) -> Mapping[str, Any]:
    """Open all watches on one claim, and time each change until the last watch has it."""
    writer = await connections.open()
    body = msgspec.json.encode(workload.claim("watched"))
    created = msgspec.json.decode(await writer.send("POST", CLAIMS, body))
    revision = created["metadata"]["resourceVersion"]
    path = f"{CLAIMS}?watch=true&resourceVersion={revision}&fieldSelector=metadata.name%3Dwatched"
    watchers = [connection async for connection in _opened(connections, task.watchers, path)]
    taken = [await _change(writer, watchers, number) for number in range(task.changes)]
    return {
        "watchers": len(watchers),
        "changes": len(taken),
        "seconds": statistics.median(taken),
        "slowest_seconds": max(taken),
    }


async def _opened(connections: Connections, count: int, path: str) -> AsyncIterator[Exchange]:
    async def begin() -> Exchange:
        exchange = await connections.open()
        await exchange.watch(path)
        return exchange

    for start in range(0, count, HANDSHAKES_AT_ONCE):
        size = min(HANDSHAKES_AT_ONCE, count - start)
        for exchange in await asyncio.gather(*itertools.starmap(begin, [()] * size)):
            yield exchange


async def _change(writer: Exchange, watchers: list[Exchange], number: int) -> float:
    mark = f"change-{number}"
    patch = msgspec.json.encode({"metadata": {"labels": {"bench": mark}}})
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for watcher in watchers:
            group.create_task(watcher.line(mark.encode()))
        await writer.send("PATCH", f"{CLAIMS}/watched", patch, "application/merge-patch+json")
    return time.perf_counter() - started


async def _do(connection: ClusterConnection, task: Task) -> Mapping[str, Any]:
    async with Connections(connection) as connections:
        match task:
            case CreateTask():
                return await create(connections, task)
            case ListTask():
                return await list_claims(connections, task)
            case WatchTask():
                return await watch(connections, task)


def main() -> None:
    raise_descriptor_limit()
    connection = kubeconfig.load(sys.argv[1])
    for line in sys.stdin:
        task = msgspec.json.decode(line, type=Task)
        result = uvloop.run(_do(connection, task))
        print(msgspec.json.encode(result).decode(), flush=True)


if __name__ == "__main__":
    main()
