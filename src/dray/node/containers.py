"""Containers on disk: one folder for each start of each container, and the shim that owns it.

The folder is the truth. An agent that restarts finds in it what runs, what has ended and how, and
what was lost; nothing has to be remembered in memory.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.node import shim

LOST_CODE: Final = 137
START_SECONDS: Final = 30.0
_GENERATIONS: Final = 3
"""From the shim to bubblewrap, to bubblewrap inside the sandbox, to the container's own."""


@dataclass(frozen=True)
class Exit:
    code: int
    finished_at: float
    reason: str = ""


@dataclass(frozen=True)
class Attempt:
    """One start of a container."""

    folder: Path

    @property
    def number(self) -> int:
        return int(self.folder.name)

    @property
    def log(self) -> Path:
        return self.folder / shim.OUTPUT

    @property
    def started_at(self) -> float:
        return float(self._process()["startedAt"])

    def exit(self) -> Exit | None:
        """How it ended; None while it runs. A container whose shim is gone counts as killed."""
        written = self._read_exit()
        if written is None and not self._is_alive():
            # It may have written its last words between the two looks.
            written = self._read_exit() or Exit(LOST_CODE, time.time(), "ContainerStatusUnknown")
        return written

    async def wait(self) -> Exit:
        while (found := self.exit()) is None:
            await _process_end(int(self._process()["pid"]))
        return found

    def signal(self, number: signal.Signals) -> None:
        if self._is_alive():
            os.kill(int(self._process()["pid"]), number)

    def terminate(self) -> None:
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        self.signal(signal.SIGUSR1)

    def first_process(self) -> int:
        """The container's own first process, seen from outside; LookupError if there is none."""
        process = int(self._process()["pid"])
        for _ in range(_GENERATIONS):
            children = Path(f"/proc/{process}/task/{process}/children")
            try:
                process = int(children.read_text("ascii").split()[0])
            except (OSError, IndexError) as error:
                raise LookupError(f"container {self.folder} does not run") from error
        return process

    def environment(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.folder / shim.COMMAND).read_bytes())["env"]
        return found

    def _read_exit(self) -> Exit | None:
        try:
            found = json.loads((self.folder / shim.EXIT).read_bytes())
        except FileNotFoundError:
            return None
        return Exit(found["exitCode"], found["finishedAt"], found["reason"])

    def _process(self) -> dict[str, float]:
        try:
            found: dict[str, float] = json.loads((self.folder / shim.PROCESS).read_bytes())
        except FileNotFoundError:
            return {"pid": 0, "born": -1, "startedAt": self.folder.stat().st_mtime}
        return found

    def _is_alive(self) -> bool:
        process = self._process()
        return shim.born(int(process["pid"])) == process["born"]


def last_attempt(folder: Path) -> Attempt | None:
    """The latest start of a container, if there was one."""
    numbers = [int(each.name) for each in folder.glob("[0-9]*")]
    return Attempt(folder / str(max(numbers))) if numbers else None


async def start(folder: Path, number: int, argv: list[str], env: dict[str, str]) -> Attempt:
    """Start a container under its shim; returns when it runs, or has failed to."""
    attempt = Attempt(folder / str(number))
    attempt.folder.mkdir(parents=True, mode=0o700)
    command = json.dumps({"argv": argv, "env": env})
    (attempt.folder / shim.COMMAND).write_text(command, "utf-8")
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", shim.__file__, str(attempt.folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        cwd="/",
    )
    _unreaped.append(process)
    try:
        async with asyncio.timeout(START_SECONDS):
            await _first_output(process)
    except TimeoutError:
        process.kill()
    finally:
        assert process.stdout is not None
        process.stdout.close()
    return attempt


_unreaped: list[subprocess.Popen[bytes]] = []
"""Shims this process has started and must reap when they end."""


def reap() -> None:
    _unreaped[:] = [process for process in _unreaped if process.poll() is None]


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


async def _first_output(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    await _readable(process.stdout.fileno())


async def _process_end(process: int) -> None:
    """Wait for any process to end, also one that somebody else has started."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return
    try:
        await _readable(descriptor)
    finally:
        os.close(descriptor)
        reap()


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
