"""A node without processes: a runtime, containers, drivers and an API that tests control.

Run tests on it with `tests.virtualtime`: programs run for exact seconds, and nobody sleeps.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.client.api_client import ListPage
from dray.node.containers.container_attempts import Command, ContainerAttempt, Exit, Starter
from dray.node.devices.preparation import ClaimsOfPod
from dray.node.limits.groups import ContainerLimits
from dray.node.pods.context import NodeContext, RuntimeConfig
from dray.node.pods.worker import PodWorker
from dray.node.runtimes.interface import ContainerSpec

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
KILLED, TERMINATED = 137, 143


@dataclass
class Program:
    """One run of a container: it ends after `seconds` with `code`, or when it is told to stop."""

    seconds: float | None = None
    code: int = 0
    stop_seconds: float | None = 0.0
    """How long it takes to end after SIGTERM; None ignores the signal."""


FOREVER = Program()


class FakeProcess:
    """A running program."""

    def __init__(self, program: Program, journal: Journal, name: str) -> None:
        self.started_at = journal.seconds
        self.exit: Exit | None = None
        self._ended = asyncio.Event()
        self._program, self._journal, self._name = program, journal, name
        if program.seconds is not None:
            self._end_in(program.seconds, program.code)

    def terminate(self) -> None:
        if self.exit is None:
            self._journal.add(f"terminate {self._name}")
            if self._program.stop_seconds is not None:
                self._end_in(self._program.stop_seconds, TERMINATED)

    def kill(self) -> None:
        if self.exit is None:
            self._journal.add(f"kill {self._name}")
            self.end(KILLED)

    def end(self, code: int, reason: str = "") -> None:
        if self.exit is None:
            self._journal.add(f"end {self._name}")
            self.exit = Exit(code, self._journal.seconds, reason)
            self._ended.set()

    async def wait(self) -> Exit:
        await self._ended.wait()
        assert self.exit is not None
        return self.exit

    def _end_in(self, seconds: float, code: int) -> None:
        asyncio.get_running_loop().call_later(seconds, self.end, code)


class Journal:
    """What happened, in order and with the second at which it did."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self.entries: list[tuple[float, str]] = []

    @property
    def seconds(self) -> float:
        return self._loop.time() - self._start

    def add(self, entry: str) -> None:
        self.entries.append((round(self.seconds, 3), entry))

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.entries]

    def times(self, entry: str) -> list[float]:
        return [time for time, text in self.entries if text == entry]


@dataclass(frozen=True)
class FakeAttempt(ContainerAttempt):
    """One start of a container, without a shim."""

    process: FakeProcess | None = None

    @property
    def started_at(self) -> float:
        return self._running.started_at

    @property
    def has_begun(self) -> bool:
        return self.process is not None

    def exit(self) -> Exit | None:
        return self._running.exit

    async def wait(self) -> Exit:
        return await self._running.wait()

    def terminate(self) -> None:
        self._running.terminate()

    def kill(self) -> None:
        self._running.kill()

    @property
    def _running(self) -> FakeProcess:
        assert self.process is not None
        return self.process


class FakeStarter(Starter):
    """Starts programs by the names of their containers; the last one listed is repeated."""

    def __init__(self, journal: Journal, programs: Mapping[str, Iterable[Program]]) -> None:
        super().__init__()
        self._journal = journal
        self._programs = {name: list(listed) for name, listed in programs.items()}
        self.attempts: dict[Path, FakeAttempt] = {}
        self.start_seconds = 0.0
        """How long a start takes; a start that is cancelled still happens, as with shims."""

    def prepare(self) -> None:
        """There is no process to have ready."""

    async def start(self, folder: Path, number: int, command: Command) -> ContainerAttempt:
        name = folder.name
        self._journal.add(f"start {name}")
        listed = self._programs.get(name, [FOREVER])
        process = FakeProcess(listed[min(number, len(listed) - 1)], self._journal, name)
        attempt = self.attempts[folder] = FakeAttempt(folder / str(number), process)
        await asyncio.sleep(self.start_seconds)
        return attempt

    def last_attempt(self, folder: Path) -> ContainerAttempt | None:
        return self.attempts.get(folder)


class FakeRuntime:
    """Makes command lines that nobody runs. `failures` are raised by the next pulls."""

    name, has_images, has_own_etc, limits_containers = "fake", True, True, False
    default_environment: Mapping[str, str] = {}
    caution = ""
    has_own_network = False
    mounts_files = False
    forwards_api_server = False
    takes_network_helper = False
    uses_host_user_id = False

    def host_ids(self, _host_user_id: int | None) -> None:
        """Containers have the ids of the agent."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        self.discarded: list[int] = []

    def try_out(self) -> None:
        """Always works."""

    async def pull(self, _image: str, _policy: str) -> None:
        if self.failures:
            raise self.failures.pop(0)

    def command(self, spec: ContainerSpec, _folder: str) -> Command:
        return Command(list(spec.argv))

    def exec_command(self, _attempt: ContainerAttempt, argv: tuple[str, ...], **_: bool) -> Command:
        raise LookupError(f"cannot run {argv[0]}")

    def discard(self, attempt: ContainerAttempt) -> None:
        self.discarded.append(attempt.number)


class FakePreparation:
    """Prepares claims at once, unless there are `failures` to raise or seconds to take."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.claims: ClaimsOfPod = {}
        self.failures: list[Exception] = []
        self.unprepare_failures: list[Exception] = []
        self.seconds = 0.0

    async def prepare(self, _pod: Pod) -> ClaimsOfPod:
        self._journal.add("prepare")
        await asyncio.sleep(self.seconds)
        if self.failures:
            raise self.failures.pop(0)
        return self.claims

    async def unprepare(self, _uid: str) -> None:
        self._journal.add("unprepare")
        if self.unprepare_failures:
            raise self.unprepare_failures.pop(0)

    def waits_for(self, _uid: str) -> str:
        return "driver d: no answer"


class FakeDrivers:
    def __init__(self) -> None:
        self.changed = asyncio.Event()

    def change(self) -> None:
        """A driver has come or gone."""
        self.changed.set()
        self.changed = asyncio.Event()


class FakeRecorder:
    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def record(
        self, _reference: object, _type: str, reason: str, note: str, *, replace: bool = False
    ) -> None:
        self.events.append((reason, note))

    def notes(self, reason: str) -> list[str]:
        return [note for noted, note in self.events if noted == reason]


class FakeClient:
    """Keeps the statuses that are written. `failures` are raised by the next writes."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.statuses: list[JsonObject] = []
        self.deletions: list[JsonObject] = []
        self.failures: list[Exception] = []
        self.services: list[JsonObject] = []

    async def list(self, _kind: object, _selection: object) -> ListPage:
        """The Services of the namespace."""
        return ListPage(items=[msgspec.Raw(msgspec.json.encode(each)) for each in self.services])

    async def patch(
        self, _kind: object, _name: str, body: JsonObject, _namespace: str = "", **_: Any
    ) -> JsonObject:
        if self.failures:
            raise self.failures.pop(0)
        self.statuses.append(body["status"])
        self._journal.add(f"report {body['status']['phase']}")
        return body

    async def delete(
        self, _kind: object, name: str, _namespace: str, options: JsonObject
    ) -> JsonObject:
        if self.failures:
            raise self.failures.pop(0)
        self._journal.add(f"delete {name}")
        self.deletions.append(options)
        return {}


@dataclass
class FakeNode:
    """A node with one pod. `containers` are the programs of its containers by name."""

    folder: Path
    containers: Mapping[str, Iterable[Program]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.journal = Journal()
        self.starter = FakeStarter(self.journal, self.containers)
        self.runtime = FakeRuntime()
        self.preparation = FakePreparation(self.journal)
        self.drivers = FakeDrivers()
        self.recorder = FakeRecorder()
        self.client = FakeClient(self.journal)

    @property
    def context(self) -> NodeContext:
        # The fakes have only those methods of the real classes that pods use.
        fakes: dict[str, Any] = {
            "client": self.client,
            "drivers": self.drivers,
            "preparation": self.preparation,
            "recorder": self.recorder,
            "health_of": lambda _device: None,
        }
        runtime: Any = self.runtime
        return NodeContext(
            node="n1",
            address="10.0.0.1",
            folder=self.folder,
            cdi_directories=(),
            now=self.now,
            runtime_config=RuntimeConfig(runtime=runtime, starter=self.starter),
            limits=ContainerLimits(self.folder, None, "not in tests"),
            **fakes,
        )

    def now(self) -> datetime.datetime:
        return START + datetime.timedelta(seconds=self.journal.seconds)

    def worker(self, pod: Pod) -> PodWorker:
        return PodWorker(self.context, pod)

    @property
    def status(self) -> JsonObject:
        """The last status that was reported."""
        return self.client.statuses[-1]

    @property
    def phase(self) -> str:
        return str(self.status["phase"]) if self.client.statuses else ""

    def container_state(self, name: str = "main") -> JsonObject:
        entries = [*self.status["containerStatuses"]]
        entries += self.status.get("initContainerStatuses", ())
        state: JsonObject = next(entry["state"] for entry in entries if entry["name"] == name)
        return state

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for a condition, at most a day of the loop's time."""
        async with asyncio.timeout(86400):
            while not holds():
                await asyncio.sleep(0.05)


def container(name: str = "main", **fields: Any) -> JsonObject:
    return {"name": name, "image": "i", "command": [name], **fields}


def pod(*containers: JsonObject, deleted: bool = False, status: Any = None, **spec: Any) -> Pod:
    metadata: JsonObject = {"name": "p", "namespace": "ns", "uid": "u", "generation": 1}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        metadata["deletionGracePeriodSeconds"] = spec.pop("deletion_grace", 30)
    document = {
        "metadata": metadata,
        "spec": {"containers": list(containers) or [container()], **spec},
        "status": status or {},
    }
    return msgspec.convert(document, Pod)
