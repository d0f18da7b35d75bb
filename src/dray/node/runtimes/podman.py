"""Containers by podman: real images, with the edits of claimed devices applied.

podman runs in the foreground under the shim, which so sees its output and its end. The limits of
the agent are passed on, because podman's own defaults may be more than an ordinary user can give.
"""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from dray.node.containers.container_attempts import Argv, Command, ContainerAttempt
from dray.node.containers.processes import Process
from dray.node.runtimes import podman_arguments
from dray.node.runtimes.interface import (
    ContainerSpec,
    HostIds,
    ImageError,
    Runtime,
    RuntimeUnusable,
)

NAME: Final = "podman"
RUNTIMES: Final = ("", "crun", "runc")
"""OCI runtimes to try; the first is podman's own choice."""
ALWAYS, NEVER = "Always", "Never"
PID_FILE: Final = "podman.pid"
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where podman and its helpers are looked for, whatever the agent's own PATH."""
PASSED_ON: Final = (
    *("HOME", "USER", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TMPDIR"),
    *("DBUS_SESSION_BUS_ADDRESS", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF"),
    *("CONTAINERS_REGISTRIES_CONF", "REGISTRY_AUTH_FILE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
"""Variables of the agent that locate podman's images and registries; containers get none."""
_CGROUP_V2: Final = Path("/sys/fs/cgroup/cgroup.controllers")
_PROBE_SECONDS: Final = 30.0


class Podman(Runtime):
    name = NAME
    has_images = True
    has_own_network = True
    shares_network = False

    @property
    def limits_containers(self) -> bool:
        """Whether podman has control groups; an ordinary user has none of version 1."""
        return os.geteuid() == 0 or _CGROUP_V2.exists()

    def host_ids(self, host_user_id: int | None) -> HostIds | None:
        if os.geteuid() != 0:
            return None
        first = podman_arguments.FIRST_HOST_ID
        return HostIds(first, first, podman_arguments.HOST_IDS)

    def try_out(self) -> None:
        _ = self._program

    async def pull(self, image: str, policy: str) -> None:
        podman_arguments.check_image(image)
        if policy != ALWAYS and await self._ran("image", "exists", "--", image) == (0, ""):
            return
        if policy == NEVER:
            text = f'Container image "{image}" is not present with pull policy of Never'
            raise ImageError("ErrImageNeverPull", text)
        code, said = await self._ran("pull", "--quiet", "--", image)
        if code:
            raise ImageError("ErrImagePull", f'failed to pull image "{image}": {said}')

    def command(self, spec: ContainerSpec, folder: str) -> Command:
        name = "dray-" + "-".join(Path(folder).parts[-4:]).replace("-containers-", "-")
        started = str(Path(folder) / PID_FILE)
        argv = [*self._program, "run", "--rm", "--name", name, "--pidfile", started]
        argv += podman_arguments.of(spec, folder)
        return Command(
            argv,
            _environment(),
            stdin=spec.stdin,
            stdin_once=spec.stdin_once,
            tty=spec.tty,
            kill=[*self._program, "kill", "--signal", "KILL", "--", name],
            # Where it is stopped while podman makes it, podman ends and leaves it.
            cleanup=self._removal(name),
            started_file=started,
            facts={"name": name},
        )

    def exec_command(
        self, attempt: ContainerAttempt, argv: Argv, *, stdin: bool = False, tty: bool = False
    ) -> Command:
        switches = [*(["--interactive"] if stdin else []), *(["--tty"] if tty else [])]
        name = attempt.command()["facts"]["name"]
        return Command([*self._program, "exec", *switches, "--", name, *argv], _environment())

    def discard(self, attempt: ContainerAttempt) -> None:
        name = attempt.command()["facts"]["name"]
        subprocess.run(self._removal(name), capture_output=True, check=False, env=_environment())

    def _removal(self, name: str) -> list[str]:
        return [*self._program, "rm", "--force", "--ignore", "--", name]

    @functools.cached_property
    def _program(self) -> list[str]:
        """podman with an OCI runtime that works here. Raises Unusable."""
        found = shutil.which("podman", path=PATH)
        if found is None:
            raise RuntimeUnusable(f"podman is not installed in {PATH}")
        said = ""
        for below in RUNTIMES:
            runtime = shutil.which(below, path=PATH) if below else ""
            if runtime is None:
                continue
            program = [found, *(["--runtime", runtime] if runtime else [])]
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
            env=_environment(),
            cwd="/",
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


def _environment() -> dict[str, str]:
    """Return podman's own environment: nothing of a container's acts on it."""
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {"PATH": PATH, **kept}


def _tried(program: list[str]) -> str:
    """Run a program of the host with podman, and return the error text; empty for success."""
    argv = [*program, "run", "--rm", "--network", "none", *podman_arguments.ulimits()]
    argv += ["--rootfs", "/:O", "true"]
    try:
        ran = subprocess.run(
            argv, capture_output=True, timeout=_PROBE_SECONDS, check=False, env=_environment()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return _last_line(ran.stderr) if ran.returncode else ""


def _last_line(said: bytes) -> str:
    """Return the last line of podman's errors."""
    return (said.decode("utf-8", "replace").strip().splitlines() or [""])[-1]
