"""Random requests against a live API server: it must answer each of them, sensibly and in time.

`python -m tests.security.fuzz_socket --seconds 600` starts a server of its own, a process behind
HTTPS. It fails on a 500 that Kubernetes would not give, on a traceback in an answer or in the log,
on an answer that is no JSON where it says so, on a request that takes too long, and on a server
that is gone at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import aiohttp
import click
import uvloop
import yarl

from dray.client import kubeconfig, rest
from dray.client.kubeconfig import ClusterConnection
from tests.security import fuzz_judge, fuzz_requests
from tests.security.fuzz_requests import Planned
from tests.wire.serving import Answer

SLOWEST_SECONDS = 20.0
WORKERS = 12
RAW_EVERY = 200
MAX_SHOWN = 10


class Complaint(NamedTuple):
    what: str
    request: Planned
    answer: bytes


class Tally:
    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.complaints: list[Complaint] = []
        self.slowest_seconds = 0.0
        self.slowest: Planned | None = None

    @property
    def total(self) -> int:
        return sum(self.statuses.values())

    def took(self, request: Planned, seconds: float) -> None:
        """Watches are left out: they last as long as they were asked to."""
        if seconds > self.slowest_seconds and "watch" not in request.url:
            self.slowest_seconds, self.slowest = seconds, request


@contextlib.contextmanager
def running_server(directory: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    log = directory / "log"
    command = [sys.executable, "-m", "dray.apiserver.standalone", str(directory)]
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        if not process.stdout.readline().startswith("https://"):
            raise click.ClickException(f"the server did not start:\n{log.read_text('utf-8')}")
        try:
            yield process, log
        finally:
            process.terminate()


async def fuzz(connection: ClusterConnection, seconds: float, seed: int, tally: Tally) -> None:
    end = time.monotonic() + seconds
    async with (
        _session(connection, connection.client_certificate, connection.client_key) as admin,
        _session(connection) as anonymous,
        asyncio.TaskGroup() as group,
    ):
        for worker in range(WORKERS):
            requests = iter(fuzz_requests.Requests(seed * 1000 + worker))
            sessions = {"admin": admin, "anonymous": anonymous}
            group.create_task(_work(sessions, connection.server, requests, end, tally))
        group.create_task(_send_noise(connection, seed, end))


def _session(
    connection: ClusterConnection, certificate: bytes = b"", key: bytes = b""
) -> aiohttp.ClientSession:
    """Requests with a certificate, or without any."""
    context = rest.tls_context(connection, certificate, key)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, limit=WORKERS),
        timeout=aiohttp.ClientTimeout(total=SLOWEST_SECONDS),
    )


async def _work(
    sessions: Mapping[str, aiohttp.ClientSession],
    server: str,
    requests: Iterator[Planned],
    end: float,
    tally: Tally,
) -> None:
    while time.monotonic() < end:
        request = next(requests)
        if request.user not in sessions:
            request = request._replace(user="admin")
        started = time.monotonic()
        try:
            await _ask(sessions[request.user], server, request, tally)
        except TimeoutError:
            tally.complaints.append(Complaint("no answer in time", request, b""))
        except (aiohttp.ClientError, ValueError) as error:
            if not _is_clients_own(error):
                tally.complaints.append(Complaint(f"{type(error).__name__}: {error}", request, b""))
        tally.took(request, time.monotonic() - started)


def _is_clients_own(error: Exception) -> bool:
    """What the client library refuses to send, or a body that the server refused to read on."""
    return isinstance(error, (aiohttp.InvalidURL, ValueError, aiohttp.ClientOSError))


async def _ask(session: aiohttp.ClientSession, server: str, request: Planned, tally: Tally) -> None:
    url = yarl.URL(server + request.url, encoded=True)
    async with session.request(
        request.method,
        url,
        data=request.body or None,
        headers=request.headers,
        skip_auto_headers=("Content-Type",),
    ) as answer:
        body = await answer.read()
    tally.statuses[answer.status] += 1
    complaint = judge(answer.status, answer.content_type, body)
    if request.user == "anonymous" and answer.status < 400:
        complaint = complaint or fuzz_judge.wrong_right(request, Answer(answer.status, {}, body))
    if complaint and request.method != "HEAD":
        tally.complaints.append(Complaint(complaint, request, body))


def judge(status: int, content_type: str, body: bytes) -> str:
    """What is wrong with an answer; empty if nothing is."""
    if b"Traceback" in body or b'File "/' in body:
        return "a traceback"
    if (
        status >= 500
        and status != 503
        and not any(text.encode() in body for text in fuzz_judge.ALLOWED_5XX)
    ):
        return "500"
    if content_type == "application/json" and body:
        try:
            for line in body.splitlines() if body.startswith(b'{"type"') else [body]:
                json.loads(line)
        except ValueError as error:
            return f"no JSON: {error}"
    return ""


async def _send_noise(connection: ClusterConnection, seed: int, end: float) -> None:
    """What is not even HTTP: the server may close, and must go on with the others."""
    chance = random.Random(seed)
    context = rest.tls_context(connection, connection.client_certificate, connection.client_key)
    host, port = connection.server.removeprefix("https://").rsplit(":", 1)
    while time.monotonic() < end:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(5):
                reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
                writer.write(_noise(chance))
                await reader.read(100)
                writer.transport.abort()
        await asyncio.sleep(0.5)


def _noise(chance: random.Random) -> bytes:
    head = b"POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: x\r\n"
    return chance.choice(
        (
            chance.randbytes(200),
            b"GET /api/v1/pods HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
            head + b"Content-Length: 100\r\n\r\n{",
            head + b"Content-Length: -1\r\n\r\n",
            head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
            head + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
            head + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: x\r\n\r\n",
        )
    )


def _tracebacks(logged: str) -> list[tuple[int, str]]:
    """The different ends of tracebacks, the most frequent first."""
    ends: Counter[str] = Counter()
    for block in logged.split("Traceback (most recent call last):")[1:]:
        lines = [line for line in block.split("\n") if line.strip()]
        last = next((i for i, line in enumerate(lines) if not line.startswith(" ") and i), 0)
        ends["\n".join(lines[max(0, last - 4) : last + 1])] += 1
    return [(count, end) for end, count in ends.most_common(MAX_SHOWN)]


@click.command()
@click.option("--seconds", default=600.0, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(seconds: float, seed: int) -> None:
    """Send random requests to an API server of its own; fail on what must not happen."""
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="dray-fuzz-") as name:
        directory = Path(name)
        with running_server(directory) as (process, log):
            connection = kubeconfig.load(directory / "kubeconfig")
            uvloop.run(fuzz(connection, seconds, seed, tally))
            is_alive = process.poll() is None
        logged = log.read_text("utf-8", "replace")
    statuses = ", ".join(f"{count} × {status}" for status, count in sorted(tally.statuses.items()))
    click.echo(f"{tally.total} requests in {seconds:.0f} s: {statuses}")
    if tally.slowest is not None:
        slowest = f"{tally.slowest.method} {tally.slowest.url[:200]}"
        click.echo(f"The slowest took {tally.slowest_seconds:.2f} s: {slowest}")
    for complaint in tally.complaints[:MAX_SHOWN]:
        request = complaint.request
        click.secho(f"\n{complaint.what}", fg="red")
        click.echo(f"  {request.method} {request.url[:500]} {request.headers}")
        click.echo(f"  {request.body[:1500]!r}\n  {complaint.answer[:800]!r}")
    for count, trace in _tracebacks(logged):
        click.secho(f"\n{count} times in the log:", fg="red")
        click.echo(trace)
    if tally.complaints or "Traceback" in logged or not is_alive:
        raise click.ClickException(f"{len(tally.complaints)} complaints; alive: {is_alive}")


if __name__ == "__main__":
    main()
