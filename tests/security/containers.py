"""Containers of the sandbox, started as the agent starts them, for the tests of attacks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from dray.node.containers import pod_sandboxes
from dray.node.containers.container_attempts import ContainerAttempt, Starter
from dray.node.containers.processes import Process
from dray.node.runtimes import sandbox
from dray.node.runtimes.interface import ContainerSpec
from dray.node.runtimes.sandbox import Sandbox

ENV = {"PATH": sandbox.PATH}
SECONDS = 60


@dataclass(frozen=True)
class PodFolder:
    """A pod on disk."""

    path: Path
    starter: Starter

    async def start(self, name: str, spec: ContainerSpec) -> ContainerAttempt:
        folder = self.path / "containers" / name
        command = Sandbox().command(spec, str(folder / "0"))
        return await self.starter.start(folder, 0, command)

    async def ran(self, name: str, spec: ContainerSpec) -> tuple[int, str]:
        """Return the exit code and the output of a container."""
        attempt = await self.start(name, spec)
        code = (await attempt.wait()).code
        return code, output(attempt)


def output(attempt: ContainerAttempt) -> str:
    lines = attempt.log.read_text("utf-8").splitlines()
    return "\n".join(line.split(" ", 3)[3] for line in lines)


async def executed(attempt: ContainerAttempt, *argv: str) -> tuple[int, str]:
    """Return the exit code and the output of a program that is run in a container."""
    command = Sandbox().exec_command(attempt, argv)
    read_end, write_end = os.pipe()
    process = Process(
        command.argv, env=command.env, stdin=asyncio.subprocess.DEVNULL, stdout=write_end,
        stderr=write_end,
    )  # fmt: skip
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        said = await asyncio.to_thread(pipe.read)
    return await process.wait(), said.decode("utf-8", "replace").rstrip("\n")


@asynccontextmanager
async def pod(folder: Path) -> AsyncIterator[PodFolder]:
    path = folder / "pods" / "uid"
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    async with asyncio.timeout(SECONDS), Starter() as starter:
        try:
            yield PodFolder(path, starter)
        finally:
            for container in (path / "containers").glob("*/0"):
                attempt = ContainerAttempt(container)
                attempt.kill()
                await attempt.wait()
            pod_sandboxes.end(str(path))


def with_pod(folder: Path, story: Callable[[PodFolder], Awaitable[None]]) -> None:
    async def run() -> None:
        async with pod(folder) as made:
            await story(made)

    asyncio.run(run())


def shell(script: str, **fields: object) -> ContainerSpec:
    fields.setdefault("env", ENV)
    return ContainerSpec(("/bin/sh", "-c", script), **fields)  # type: ignore[arg-type]


FOREVER = shell("echo up; exec sleep 1000")
