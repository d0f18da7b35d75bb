"""Random requests to an API server in this process, guided by the lines of it that have run.

`python -m tests.security.fuzz_api --seconds 1800` asks as users with different rights. Requests
that reach new lines are kept, changed and sent again. It fails on a server that dies, on a 5xx that
Kubernetes would not give, on an answer that is not what it says to be, on rights that nobody gave,
on a request that takes longer than a second, and on a state that must not be. What fails is made
smaller and printed as a line that repeats it: `--replay LINE`.
"""

from __future__ import annotations

import asyncio
import base64
import collections
import contextlib
import faulthandler
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import click

from dray.api.http_messages import Request
from dray.apiserver import server
from dray.apiserver.serving.limits import MAX_BODY_BYTES
from dray.store import memory
from tests.security import fuzz_judge, minimise
from tests.security.coverage_guide import Lines
from tests.security.fuzz_judge import Broken
from tests.security.fuzz_requests import Planned, Requests
from tests.wire.serving import Answer, Api

GUIDED_BY: Final = ("apiserver", "validation", "api/conversion", "api/strategies", "api/selectors")
REQUESTS_PER_SERVER: Final = 4000
"""Then comes a new server, so that lists stay short and a failure has few causes."""
MAX_SHOWN: Final = 3
HISTORY: Final = 150
"""How many requests before a failure may have caused it."""
MAX_KEPT: Final = 3000
SLOW_SECONDS: Final = 1.0
HANG_SECONDS: Final = 120.0
STREAM_SECONDS: Final = 0.01


class Fuzzer:
    """Sends requests until the time is over, or until one breaks something."""

    def __init__(self, seed: int, slow_seconds: float, current: Path | None) -> None:
        self._random = random.Random(seed)
        self._requests = Requests(seed)
        self._slow_seconds = slow_seconds
        self._current = current
        self._lines = Lines(GUIDED_BY)
        self._kept: collections.deque[Planned] = collections.deque(maxlen=MAX_KEPT)
        self.history: collections.deque[Planned] = collections.deque(maxlen=HISTORY)
        self.statuses: Counter[int] = Counter()
        self.slowest = (0.0, "")
        self.broken: dict[str, Broken] = {}

    def run(self, seconds: float) -> None:
        """Fuzz one server after the other, and note in `broken` what went wrong."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            asyncio.run(self._one_server(end))

    async def _one_server(self, end: float) -> None:
        self.history.clear()
        async with opened() as api:
            for _ in range(REQUESTS_PER_SERVER):
                if time.monotonic() >= end:
                    break
                self._note(await self._one(api))
            self._note(await fuzz_judge.wrong_state(api))

    def _note(self, wrong: str) -> None:
        """Keep the first failure of each class, with what was asked before."""
        if wrong:
            self.broken.setdefault(class_of(wrong), Broken(wrong, tuple(self.history)))

    async def _one(self, api: Api) -> str:
        """Send one request, and return what was wrong with the answer."""
        request = self._next()
        self.history.append(request)
        if self._current is not None:
            self._current.write_text(line_of([request]), "utf-8")
        before, started = self._lines.seen, time.thread_time()
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        with self._lines.followed():
            answer = await ask(api, request)
        seconds = time.thread_time() - started
        self.statuses[answer.status] += 1
        if self._lines.seen > before:
            self._kept.append(request)
        self.slowest = max(self.slowest, (seconds, line_of([request])))
        wrong = fuzz_judge.wrong_answer(request, answer)
        if not wrong and seconds > self._slow_seconds:
            wrong = _too_slow(request, seconds)
        return wrong or await fuzz_judge.wrong_write(api, request, answer)

    def _next(self) -> Planned:
        while True:
            request = next(iter(self._requests))
            if self._kept and self._random.random() < 0.6:
                request = self._requests.again(self._random.choice(self._kept), request)
            if len(request.body) <= MAX_BODY_BYTES:
                return request

    def summary(self) -> str:
        statuses = ", ".join(f"{count} × {code}" for code, count in sorted(self.statuses.items()))
        memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        seconds, line = self.slowest
        return (
            f"{self.statuses.total()} requests: {statuses}\n"
            f"{self._lines.seen} lines reached, {len(self._kept)} requests kept, {memory_mib} MiB\n"
            f"the slowest took {seconds:.2f} s of CPU time: {line[:2000]}"
        )


@contextlib.asynccontextmanager
async def opened() -> AsyncIterator[Api]:
    """A new server with the users of the requests."""
    with tempfile.TemporaryDirectory(prefix="dray-fuzz-") as folder:
        async with (
            memory.open() as store,
            server.open_server(store, signer=server.signer_in(Path(folder))) as running,
        ):
            api = Api(running)
            await fuzz_judge.give_rights(api)
            yield api


async def ask(api: Api, request: Planned) -> Answer:
    """Send a request as its user; a stream is read until it ends."""
    parts = urlsplit(request.url)
    query = tuple(parse_qsl(parts.query, keep_blank_values=True, errors="replace"))
    sent = Request(request.method, parts.path, query, request.headers, request.body)

    async def handled() -> Answer:
        response = await api.opened.app.handle(sent, fuzz_judge.USERS[request.user])
        body = response.body if response.stream is None else await _beginning(response.stream)
        return Answer(response.status, dict(response.headers), body)

    task = asyncio.ensure_future(handled())
    await asyncio.wait([task])
    if (error := task.exception()) is not None:
        return Answer(599, {}, f"no answer: {error!r}".encode())
    return task.result()


async def _beginning(stream: AsyncIterator[bytes]) -> bytes:
    """Return what a stream has at once: a watch goes on for as long as it was asked to."""
    chunks = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STREAM_SECONDS):
            async for chunk in stream:
                chunks.append(chunk)
    return b"".join(chunks)


def line_of(requests: Sequence[Planned]) -> str:
    """Return requests as one line without spaces."""
    plain = [[*each[:3], base64.b64encode(each.body).decode(), each.user] for each in requests]
    return base64.urlsafe_b64encode(json.dumps(plain).encode()).decode()


def requests_of(line: str) -> list[Planned]:
    """Return the requests of a line."""
    plain = json.loads(base64.urlsafe_b64decode(line))
    return [
        Planned(method, url, headers, base64.b64decode(body), user)
        for method, url, headers, body, user in plain
    ]


async def replayed(requests: Sequence[Planned], slow_seconds: float) -> str:
    """Send requests to a new server, and return the first thing that broke."""
    async with opened() as api:
        found = ""
        for request in requests:
            started = time.thread_time()
            answer = await ask(api, request)
            seconds = time.thread_time() - started
            wrong = fuzz_judge.wrong_answer(request, answer)
            if not wrong and seconds > slow_seconds:
                wrong = _too_slow(request, seconds)
            found = found or wrong or await fuzz_judge.wrong_write(api, request, answer)
        return found or await fuzz_judge.wrong_state(api)


def smaller(broken: Broken, slow_seconds: float) -> Sequence[Planned]:
    """Return as few of the requests as still break the same, the last with a small body."""

    def fails(requests: Sequence[Planned]) -> bool:
        return class_of(asyncio.run(replayed(requests, slow_seconds))) == class_of(broken.what)

    alone = broken.requests[-1:]
    requests: Sequence[Planned] = alone if fails(alone) else broken.requests
    if not fails(requests):
        return requests
    requests = minimise.sequence(requests, fails)
    *before, last = requests
    with contextlib.suppress(ValueError, RecursionError):
        document = minimise.document(
            json.loads(last.body),
            lambda each: fails([*before, last._replace(body=json.dumps(each).encode())]),
        )
        made = [*before, last._replace(body=json.dumps(document).encode())]
        return made if fails(made) else requests
    return requests


def class_of(wrong: str) -> str:
    """Return the part of a failure that stays the same when names and numbers change."""
    return wrong.split(": ")[0]


def _too_slow(request: Planned, seconds: float) -> str:
    media = request.headers.get("content-type", "no media type")
    return f"too slow, {request.method} of {media}: {seconds:.1f} s of CPU time"


def _report(requests: Sequence[Planned], what: str) -> str:
    lines = [f"BROKEN {what}"]
    for each in requests[-MAX_SHOWN:]:
        lines.append(f"  {each.user}: {each.method} {each.url[:500]} {each.headers}")
        lines.append(f"    {each.body[:1500]!r}")
    lines.append(f"repeat: python -m tests.security.fuzz_api --replay {line_of(requests)}")
    return "\n".join(lines)


def _replay(line: str, slow_seconds: float) -> None:
    wrong = asyncio.run(replayed(requests_of(line), slow_seconds))
    click.echo(wrong or "nothing is wrong")
    sys.exit(1 if wrong else 0)


def _guarded(options: Sequence[str]) -> int:
    """Run the fuzzer in a process of its own, and tell which request killed it."""
    with tempfile.TemporaryDirectory(prefix="dray-fuzz-") as folder:
        current = Path(folder) / "current"
        command = [sys.executable, "-m", "tests.security.fuzz_api", "--current", str(current)]
        code = subprocess.run([*command, *options], check=False).returncode
        if code not in (0, 1) and current.exists():
            requests = requests_of(current.read_text("utf-8"))
            click.echo(_report(requests, f"the server is gone: exit status {code}"))
        return code


@click.command()
@click.option("--seconds", default=1800.0, show_default=True)
@click.option("--seed", type=int, default=None, help="Random unless given.")
@click.option("--slow", default=SLOW_SECONDS, show_default=True, help="CPU seconds per request.")
@click.option("--replay", default="", metavar="LINE", help="Send the requests of a report.")
@click.option("--current", type=click.Path(path_type=Path), default=None, hidden=True)
def main(seconds: float, seed: int | None, slow: float, replay: str, current: Path | None) -> None:
    """Fuzz an API server in this process; fail on what must not happen."""
    fuzz_judge.ERRORS.install()
    if replay:
        _replay(replay, slow)
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    if current is None:
        options = ["--seconds", str(seconds), "--seed", str(seed), "--slow", str(slow)]
        sys.exit(_guarded(options))
    fuzzer = Fuzzer(seed, slow, current)
    fuzzer.run(seconds)
    faulthandler.cancel_dump_traceback_later()
    click.echo(f"seed {seed}\n{fuzzer.summary()}")
    for broken in fuzzer.broken.values():
        click.echo(_report(smaller(broken, slow), broken.what))
    sys.exit(1 if fuzzer.broken else 0)


if __name__ == "__main__":
    main()
