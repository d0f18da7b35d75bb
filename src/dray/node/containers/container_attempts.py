"""Containers on disk: one folder for each start of each container, and the shim that owns it.

The folder is the only state. An agent that restarts finds in it which containers run, have ended or
were lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

import dray
from dray import durable_files
from dray.node import host_paths, mounts
from dray.node.containers import pod_sandboxes, processes, shim, system_calls
from dray.node.containers.processes import Process

log = logging.getLogger(__name__)

LOST_CODE: Final = 137
LOST_REASON: Final = "ContainerStatusUnknown"
START_SECONDS: Final = 30.0

Argv = tuple[str, ...]


@dataclass(frozen=True)
class Exit:
    code: int
    finished_at: float
    reason: str = ""


class SandboxMount(msgspec.Struct, frozen=True, rename="camel"):
    """A file or folder of the host in the root of a container."""

    source: str
    target: str
    read_only: bool = True
    beneath: str = ""
    """A path below the source in which no link is followed."""
    is_device: bool = False


class NetworkHelper(msgspec.Struct, frozen=True, rename="camel"):
    """The program that connects pods with the network of the node."""

    kind: str
    program: str
    """Its absolute path."""


class SandboxPlan(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The namespaces, files and rights of a container that the shim puts into a sandbox."""

    pod: str
    """The folder of its pod, whose containers share namespaces; empty for none."""
    hostname: str
    uids: list[tuple[int, int, int]]
    """Ranges of ids: the first inside, the first on the host, their number."""
    gids: list[tuple[int, int, int]]
    sets_groups: bool
    """Whether the user namespace allows setgroups; only root can map users so."""
    owner: tuple[int, int]
    """The user and group of its own files, as the process that mounts them sees them."""
    uid: int = 0
    gid: int = 0
    groups: list[int] = []
    capabilities: list[str] = []
    filter: str = ""
    """The seccomp filter in base64; empty for none."""
    has_read_only_root: bool = False
    has_host_network: bool = False
    api_server: tuple[str, int] | None = None
    """The address that the pod reaches by a port of its loopback."""
    network_helper: NetworkHelper | None = None
    """None for a network with a loopback interface alone."""
    working_directory: str = "/"
    links: list[tuple[str, str]] = []
    """Symbolic links of the root: their texts and their paths."""
    folders: list[tuple[str, str]] = []
    """Empty folders: their paths and modes."""
    files: dict[str, str] = {}
    """Files by their paths, which belong to the container."""
    mounts: list[SandboxMount] = []
    """Outer ones first."""


class Command(msgspec.Struct, frozen=True, rename="camel"):
    """The command line of a container, for its shim."""

    argv: list[str]
    env: dict[str, str] = {}
    cwd: str = "/"
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    kill: list[str] = []
    """The command that kills it, where a signal to its first process would not."""
    cleanup: list[str] = []
    """The command that removes what may be left of it once it has ended."""
    started_file: str = ""
    """A file that exists as soon as the container runs, for runtimes without another sign."""
    cgroups: list[str] = []
    """The folders of the control groups that the container's first process joins; the shim counts
    the processes that the kernel killed there for memory."""
    rlimits: dict[str, int] = {}
    """Limits of the first process by their names in Python's `resource`, such as RLIMIT_AS."""
    open_files: int = processes.OPEN_FILES
    """The soft limit of open files; the hard one is that of the agent."""
    sandbox: SandboxPlan | None = None
    """The sandbox that the shim makes for it; None where argv does that, or for none."""
    facts: dict[str, str] = {}
    """Values that the runtime needs of the container later."""


@dataclass(frozen=True)
class ContainerAttempt:
    """One start of a container."""

    folder: Path
    _known: dict[str, float] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The content of `process.json`, which never changes."""

    @property
    def number(self) -> int:
        return int(self.folder.name)

    @property
    def log(self) -> Path:
        return self.folder / shim.OUTPUT

    @property
    def input(self) -> Path:
        """The pipe to its standard input, if it has one."""
        return self.folder / shim.INPUT

    @property
    def started_at(self) -> float:
        return float(self._process()["startedAt"])

    @property
    def pid(self) -> int:
        """The process id of the shim."""
        return int(self._process()["pid"])

    @property
    def previous(self) -> ContainerAttempt | None:
        """The start before this one; None for the first, or where it was removed."""
        folder = self.folder.with_name(str(self.number - 1))
        return ContainerAttempt(folder) if folder.is_dir() else None

    @property
    def has_begun(self) -> bool:
        """Whether its shim ever ran; if not, nothing was started."""
        return (self.folder / shim.PROCESS).exists()

    def exit(self) -> Exit | None:
        """Return its exit, or None while it runs. Without its shim it counts as killed."""
        written = self._read_exit()
        if written is None and not self._is_alive():
            # It may have written its last words between the two looks.
            written = self._read_exit() or Exit(LOST_CODE, time.time(), LOST_REASON)
        return written

    async def wait(self) -> Exit:
        while (found := self.exit()) is None:
            await processes.end_of(self.pid)
        return found

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its shim; nothing happens if that has ended."""
        if not self._is_alive():
            return
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(self.pid)
            try:
                # It may have ended a moment ago, and the number may be that of another process.
                if self._is_alive():
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)

    def terminate(self) -> None:
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        self.signal(signal.SIGUSR1)

    def resize(self, rows: int, columns: int) -> None:
        """Resize its terminal."""
        (self.folder / shim.SIZE).write_text(json.dumps([rows, columns]), "utf-8")
        self.signal(signal.SIGUSR2)

    def command(self) -> dict[str, Any]:
        """Return the command as it was written for the shim."""
        found: dict[str, Any] = json.loads((self.folder / shim.COMMAND).read_bytes())
        return found

    def _read_exit(self) -> Exit | None:
        try:
            found = json.loads((self.folder / shim.EXIT).read_bytes())
        except FileNotFoundError:
            return None
        return Exit(found["exitCode"], found["finishedAt"], found["reason"])

    def _process(self) -> dict[str, float]:
        if not self._known:
            try:
                self._known.update(json.loads((self.folder / shim.PROCESS).read_bytes()))
            except FileNotFoundError:
                return {"pid": 0, "born": -1, "startedAt": time.time()}
        return self._known

    def _is_alive(self) -> bool:
        process = self._process()
        return pod_sandboxes.born(int(process["pid"])) == process["born"]


def interpreter(module: str) -> list[str]:
    """Return a command line that calls `main` of a module of dray in an isolated interpreter.

    It starts at once, and neither the environment nor the working directory act on it.
    """
    code = f"import sys; sys.path.append(sys.argv[1]); from {module} import main; main()"
    return [sys.executable, "-I", "-S", "-c", code, str(Path(dray.__file__).parents[1])]


def last_attempt(folder: Path) -> ContainerAttempt | None:
    """Return the latest start of a container, or None before the first."""
    numbers = [int(path.name) for path in folder.glob("[0-9]*")]
    return ContainerAttempt(folder / str(max(numbers))) if numbers else None


def remove(folder: Path) -> None:
    """Remove a folder; what cannot be removed is left, with a line in the log."""
    try:
        _unmount_below(folder)
        host_paths.remove_tree(folder)
    except OSError as error:
        log.warning("%s cannot be removed: %s", folder, error)


def _unmount_below(folder: Path) -> None:
    """Unmount volumes in memory. Raises OSError."""
    if os.geteuid() != 0:
        return
    above = folder.resolve()
    for mounted in mounts.read(mounts.MOUNTS.read_text("utf-8", "surrogateescape")):
        if mounted.type == "tmpfs" and above in mounted.target.parents:
            system_calls.unmount(str(mounted.target))


class Starter:
    """Starts containers under shims, which a server process forks: faster than a new interpreter.

    Use it as a context manager: at the end of the block the server ends; the shims go on.
    """

    def __init__(self) -> None:
        self._requests: socket.socket | None = None
        self._server: Process | None = None

    async def __aenter__(self) -> Starter:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._hang_up()
        if self._server is not None:
            await self._server.wait()

    def prepare(self) -> None:
        """Start the server process, unless it runs."""
        if self._server is not None and not self._server.has_ended:
            return
        self._hang_up()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._server = Process(
                interpreter("dray.node.containers.shim"),
                env={},
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        self._requests = ours

    def last_attempt(self, folder: Path) -> ContainerAttempt | None:
        """Return the latest start of a container, also one by an earlier agent, or None."""
        return last_attempt(folder)

    def _hang_up(self) -> None:
        if self._requests is not None:
            self._requests.close()
            self._requests = None

    def _request(self, kind: bytes, folder: Path, descriptor: int) -> None:
        self.prepare()
        assert self._requests is not None
        socket.send_fds(self._requests, [kind + b" " + os.fsencode(folder)], [descriptor])

    async def socket_of_pod(self, folder: Path) -> socket.socket:
        """Return a new TCP socket in the network of the pod with this folder.

        Raises ConnectionError where the pod has no network of its own.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with ours:
            with theirs:
                self._request(shim.SOCKET, folder, theirs.fileno())
            ours.setblocking(False)
            await processes.ready(ours.fileno())
            _, descriptors, _, _ = socket.recv_fds(ours, 16, 1)
        if not descriptors:
            raise ConnectionError("the network of the pod does not exist")
        found = socket.socket(fileno=descriptors[0])
        found.setblocking(False)
        return found

    async def start(self, folder: Path, number: int, command: Command) -> ContainerAttempt:
        """Start a container; return when it runs, or has failed to.

        Not sooner when cancelled, so that the container can be found and stopped then.
        """
        attempt = ContainerAttempt(folder / str(number))
        attempt.folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        # It has the container's environment, so possibly secrets.
        durable_files.replace_file(
            attempt.folder / shim.COMMAND,
            msgspec.json.encode(command),
            durable=False,
            single_writer=True,
        )
        if command.stdin and not attempt.input.exists():
            os.mkfifo(attempt.input, 0o600)
        read_end, write_end = os.pipe()
        try:
            kind = shim.START if command.sandbox is None else shim.START_IN_SANDBOX
            self._request(kind, attempt.folder, write_end)
            os.close(write_end)
            started = asyncio.ensure_future(_started(attempt, read_end))
            try:
                await asyncio.shield(started)
            except asyncio.CancelledError:
                await started
                raise
        finally:
            os.close(read_end)
        return attempt


async def _started(attempt: ContainerAttempt, told_by: int) -> None:
    try:
        async with asyncio.timeout(START_SECONDS):
            await processes.ready(told_by)
    except TimeoutError:
        attempt.kill()
