"""Containers by podman: real images, with the edits of claimed devices applied.

podman runs in the foreground under the shim, which so sees its output and its end. The limits of
the agent are passed on, because podman's own defaults may be more than an ordinary user can give.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dray.node.containers.container_attempts import Argv, Command, ContainerAttempt
from dray.node.containers.processes import Process
from dray.node.runtimes.interface import ContainerSpec, ImageError, Runtime, RuntimeUnusable

NAME: Final = "podman"
RUNTIMES: Final = ("", "crun", "runc")
"""OCI runtimes to try; the first is podman's own choice."""
ALWAYS, NEVER = "Always", "Never"
PID_FILE: Final = "podman.pid"
_PROBE_SECONDS: Final = 30.0


class Podman(Runtime):
    name = NAME
    has_images = True

    def try_out(self) -> None:
        _ = self._program

    async def pull(self, image: str, policy: str) -> None:
        if policy != ALWAYS and await self._ran("image", "exists", image) == (0, ""):
            return
        if policy == NEVER:
            text = f'Container image "{image}" is not present with pull policy of Never'
            raise ImageError("ErrImageNeverPull", text)
        code, said = await self._ran("pull", "--quiet", image)
        if code:
            raise ImageError("ErrImagePull", f'failed to pull image "{image}": {said}')

    def command(self, spec: ContainerSpec, folder: str) -> Command:
        name = "dray-" + "-".join(Path(folder).parts[-4:]).replace("-containers-", "-")
        started = str(Path(folder) / PID_FILE)
        argv = [*self._program, "run", "--rm", "--name", name, "--pidfile", started]
        argv += ["--log-driver", "none", "--network", "host", "--hostname", spec.hostname[:63]]
        argv += [*_limits(), *_inside(spec)]
        return Command(
            argv,
            # podman's own environment locates its images.
            dict(os.environ),
            stdin=spec.stdin,
            stdin_once=spec.stdin_once,
            tty=spec.tty,
            kill=[*self._program, "kill", "--signal", "KILL", name],
            started_file=started,
            facts={"name": name},
        )

    def exec_command(
        self, attempt: ContainerAttempt, argv: Argv, *, stdin: bool = False, tty: bool = False
    ) -> Command:
        switches = [*(["--interactive"] if stdin else []), *(["--tty"] if tty else [])]
        name = attempt.command()["facts"]["name"]
        return Command([*self._program, "exec", *switches, name, *argv], dict(os.environ))

    def discard(self, attempt: ContainerAttempt) -> None:
        name = attempt.command()["facts"]["name"]
        argv = [*self._program, "rm", "--force", "--ignore", name]
        subprocess.run(argv, capture_output=True, check=False)

    @functools.cached_property
    def _program(self) -> list[str]:
        """podman with an OCI runtime that works here. Raises Unusable."""
        if shutil.which("podman") is None:
            raise RuntimeUnusable("podman is not installed")
        said = ""
        for below in RUNTIMES:
            if below and shutil.which(below) is None:
                continue
            program = ["podman", *(["--runtime", below] if below else [])]
            said = _tried(program)
            if not said:
                return program
        raise RuntimeUnusable(f"podman cannot run a container here: {said}")

    async def _ran(self, *arguments: str) -> tuple[int, str]:
        """Return the exit code and the error text."""
        process = Process(
            [*self._program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert process.child.stderr is not None
        try:
            with process.child.stderr as pipe:
                said = await asyncio.to_thread(pipe.read)
        except asyncio.CancelledError:
            process.kill()
            raise
        code = await process.wait()
        return code, _last_line(said) if code else ""


def _tried(program: list[str]) -> str:
    """Run a program of the host with podman, and return the error text; empty for success."""
    argv = [*program, "run", "--rm", "--network", "host", *_limits(), "--rootfs", "/:O", "true"]
    try:
        ran = subprocess.run(argv, capture_output=True, timeout=_PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return _last_line(ran.stderr) if ran.returncode else ""


def _last_line(said: bytes) -> str:
    """Return the last line of podman's errors."""
    return (said.decode("utf-8", "replace").strip().splitlines() or [""])[-1]


def _limits() -> Iterator[str]:
    """Return the limits of the agent, with the number of processes that the system can count."""
    most = int(Path("/proc/sys/kernel/pid_max").read_text("ascii"))
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    _, processes = resource.getrlimit(resource.RLIMIT_NPROC)
    if processes == resource.RLIM_INFINITY or processes > most:
        processes = most
    for name, limit in (("nofile", files), ("nproc", processes)):
        yield from ("--ulimit", f"{name}={limit}:{limit}")


def _inside(spec: ContainerSpec) -> Iterator[str]:
    """Yield the arguments for streams, environment, files and devices, then the image."""
    if spec.stdin:
        yield "--interactive"
    if spec.tty:
        yield "--tty"
    for name, value in spec.env.items():
        yield from ("--env", f"{name}={value}")
    for bind in spec.binds:
        source = os.path.join(bind.source, bind.beneath) if bind.beneath else bind.source
        yield from ("--volume", f"{source}:{bind.target}:{'ro' if bind.read_only else 'rw'}")
    for node in spec.device_nodes:
        permissions = node.permissions or "rwm"
        yield from ("--device", f"{node.host_path or node.path}:{node.path}:{permissions}")
    if spec.working_directory:
        yield from ("--workdir", spec.working_directory)
    if spec.command:
        yield from ("--entrypoint", json.dumps(spec.command))
    yield from (spec.image, *spec.args)
