"""One user attacks the API server with many connections, and another goes on working.

`python -m tests.security.attack --who user --seconds 600` starts a server with a few thousand
objects, an attacker in a process of its own on one core, and a user whose requests are timed. It
prints the times of that user, the memory of the server, and a verdict. `--only` chooses attacks.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

from dray.apiserver import standalone
from dray.client import rest
from dray.client.kubeconfig import ClusterConnection
from tests.robustness.server_process import ServerProcess
from tests.security import attack_requests
from tests.security.attack_requests import ATTACKS, Attack

P99_LIMIT_SECONDS: Final = 0.2
RSS_LIMIT_BYTES: Final = 10**9
OBJECTS: Final = 3000
PAUSE_SECONDS: Final = 0.02
"""Between two requests of the user who goes on working."""


@dataclass
class Outcome:
    """What happened to the user who goes on working, and to the server."""

    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    attacker: str = ""

    def quantile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)]

    @property
    def peak(self) -> int:
        return max(self.resident)

    def report(self) -> str:
        times = (
            f"p50 {self.quantile(0.5) * 1000:.1f} ms, p99 {self.quantile(0.99) * 1000:.1f} ms, "
            f"max {max(self.seconds) * 1000:.1f} ms"
        )
        step = max(len(self.resident) // 10, 1)
        memory = " ".join(str(each // 10**6) for each in self.resident[::step])
        return (
            f"other user: {len(self.seconds)} requests, {len(self.failures)} failed, {times}\n"
            f"memory of the server in MB: {memory}, at most {self.peak // 10**6}\n"
            f"attacker: {self.attacker}"
        )

    @property
    def is_passed(self) -> bool:
        is_fast = self.quantile(0.99) < P99_LIMIT_SECONDS
        return is_fast and self.peak < RSS_LIMIT_BYTES and not self.failures


def attack(
    who: str, seconds: float, connections: int, only: tuple[str, ...] = (), objects: int = OBJECTS
) -> Outcome:
    """Attack a new server and return what the other user noticed."""
    with tempfile.TemporaryDirectory(prefix="dray-attack-") as name:
        directory = Path(name)
        server = ServerProcess(directory)
        server.start()
        try:
            asyncio.run(_prepare(directory, server.connection(), objects))
            return asyncio.run(_observe(directory, server, who, seconds, connections, only))
        finally:
            server.stop()


def names(kind: str) -> tuple[str, ...]:
    """Return the names of slow attacks, of costly ones, or none for all of them."""
    if not kind:
        return ()
    return tuple(each.name for each in ATTACKS if each.is_slow == (kind == "slow"))


async def _prepare(directory: Path, admin: ClusterConnection, objects: int) -> None:
    async with _session(admin) as session:
        for namespace in ("attack", "team"):
            await _create(session, "/api/v1/namespaces", {"metadata": {"name": namespace}})
        for user, namespace in (("mallory", "attack"), ("alice", "team")):
            binding = attack_requests.binding(user)
            path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
            await _create(session, path, binding)
        for start in range(0, objects, 50):
            numbers = range(start, min(start + 50, objects))
            await asyncio.gather(
                *(_create(session, *attack_requests.filling(number)) for number in numbers)
            )


async def _create(session: aiohttp.ClientSession, path: str, body: Any) -> None:
    async with session.post(path, json=body) as answer:
        assert answer.status == 201, await answer.text()


@contextlib.asynccontextmanager
async def _session(connection: ClusterConnection) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=_tls(connection), limit=0)
    async with aiohttp.ClientSession(connection.server, connector=connector) as session:
        yield session


def _tls(connection: ClusterConnection) -> ssl.SSLContext:
    return rest.tls_context(connection, connection.client_certificate, connection.client_key)


async def _observe(
    directory: Path,
    server: ServerProcess,
    who: str,
    seconds: float,
    connections: int,
    only: tuple[str, ...],
) -> Outcome:
    outcome = Outcome()
    url = server.connection().server
    command = [*(sys.executable, "-m", "tests.security.attack"), "--attack", url]
    command += [*("--directory", str(directory)), *("--who", who), *("--seconds", str(seconds))]
    command += [*("--connections", str(connections)), *("--only", ",".join(only))]
    attacker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with attacker as process:
        alice = standalone.connection(directory, url, "alice")
        sampling = asyncio.ensure_future(_sample(server, outcome))
        await _work(alice, seconds, outcome)
        sampling.cancel()
        outcome.attacker = (await asyncio.to_thread(process.communicate))[0].strip()
    return outcome


async def _sample(server: ServerProcess, outcome: Outcome) -> None:
    while True:
        outcome.resident.append(server.resident_bytes())
        await asyncio.sleep(0.5)


async def _work(alice: ClusterConnection, seconds: float, outcome: Outcome) -> None:
    path = "/api/v1/namespaces/team/configmaps"
    end = time.monotonic() + seconds
    async with _session(alice) as session:
        number = 0
        while time.monotonic() < end:
            number += 1
            name = f"c{number}"
            body = {"metadata": {"name": name}, "data": {"a": "b"}}
            await _timed(session, "POST", path, 201, outcome, body)
            await _timed(session, "GET", f"{path}/{name}", 200, outcome)
            await _timed(session, "DELETE", f"{path}/{name}", 200, outcome)
            await asyncio.sleep(PAUSE_SECONDS)


async def _timed(
    session: aiohttp.ClientSession,
    method: str,
    path: str,
    status: int,
    outcome: Outcome,
    body: Any = None,
) -> None:
    started = time.perf_counter()
    try:
        async with session.request(method, path, json=body) as answer:
            text = await answer.text()
            if answer.status != status:
                outcome.failures.append(f"{method} {path}: {answer.status} {text[:200]}")
    except (aiohttp.ClientError, OSError) as error:
        outcome.failures.append(f"{method} {path}: {error!r}")
    outcome.seconds.append(time.perf_counter() - started)


async def _attack_process(options: argparse.Namespace) -> None:
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
    directory, url = Path(options.directory), options.attack
    chosen = [each for each in ATTACKS if each.who == options.who]
    if options.only:
        chosen = [each for each in chosen if each.name in options.only.split(",")]
    connection = standalone.connection(directory, url, "mallory")
    context = _tls(connection)
    if options.who == "anonymous":
        context = ssl.create_default_context(cadata=connection.certificate_authority.decode())
    counts: dict[str, list[float]] = {}
    end = time.monotonic() + options.seconds
    tasks = [
        _repeat(chosen[number % len(chosen)], url, context, end, counts)
        for number in range(options.connections)
    ]
    await asyncio.gather(*tasks)
    shown = {n: f"{len(t)} (max {max(t):.1f} s)" for n, t in sorted(counts.items()) if t}
    print(json.dumps(shown))


async def _repeat(
    each: Attack, url: str, context: ssl.SSLContext, end: float, counts: dict[str, list[float]]
) -> None:
    parts = urlsplit(url)
    number = 0
    while time.monotonic() < end:
        try:
            async with asyncio.timeout_at(
                asyncio.get_running_loop().time() + end - time.monotonic()
            ):
                reader, writer = await asyncio.open_connection(
                    parts.hostname, parts.port, ssl=context
                )
                try:
                    while time.monotonic() < end:
                        number += 1
                        started = time.monotonic()
                        status = await each.send(reader, writer, number)
                        key = f"{each.name} {status}"
                        counts.setdefault(key, []).append(time.monotonic() - started)
                finally:
                    writer.transport.abort()
        except (OSError, EOFError, ValueError, TimeoutError, ssl.SSLError):
            # The server has closed the connection: the next one is opened.
            counts.setdefault(f"{each.name} closed", []).append(0.0)
            await asyncio.sleep(0.01)


def _options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--who", choices=("user", "anonymous"), default="user")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--kind", choices=("slow", "costly"), default="")
    parser.add_argument("--only", default="", help="names of attacks, with commas")
    parser.add_argument("--objects", type=int, default=OBJECTS)
    parser.add_argument("--attack", help=argparse.SUPPRESS)
    parser.add_argument("--directory", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main() -> None:
    options = _options()
    if options.attack:
        asyncio.run(_attack_process(options))
        return
    only = names(options.kind) or tuple(filter(None, options.only.split(",")))
    outcome = attack(options.who, options.seconds, options.connections, only, options.objects)
    print(outcome.report())
    for failure in outcome.failures[:5]:
        print(failure)
    print("passed" if outcome.is_passed else "FAILED")
    sys.exit(not outcome.is_passed)


if __name__ == "__main__":
    main()
