"""Starts and ends the driver under test as a process group of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from dray.driverkit.plugin import Directories

PLACEHOLDERS: Final = (*("cdi", "folder", "instance", "kubeconfig", "node", "plugins", "registry"),)
_PLACEHOLDER: Final = re.compile(r"\{([a-z]+)\}")
LOG_LINES: Final = 6
END_SECONDS: Final = 10.0


class CommandInvalid(ValueError):
    """A command that cannot be run; the message says why."""


def parse(command: str) -> list[str]:
    """Return the arguments of a command with placeholders. Raises CommandInvalid."""
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise CommandInvalid(f"the command cannot be split into words: {error}") from error
    if not arguments:
        raise CommandInvalid("the command is empty")
    unknown = [
        name
        for argument in arguments
        for name in _PLACEHOLDER.findall(argument)
        if name not in PLACEHOLDERS
    ]
    if unknown:
        known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise CommandInvalid(f"there is no placeholder {{{unknown[0]}}}; there are {known}")
    return arguments


class DriverProcess:
    """One running process of the driver; `instance` is the uid of its imaginary pod."""

    def __init__(self, process: asyncio.subprocess.Process, instance: str, log: Path) -> None:
        self._process = process
        self.instance = instance
        self._log = log

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    @property
    def state(self) -> str:
        """The state in words, with the last lines that the driver has written."""
        code = self._process.returncode
        state = "is running" if code is None else f"ended with code {code}"
        with contextlib.suppress(OSError):
            lines = self._log.read_text("utf-8", errors="replace").splitlines()[-LOG_LINES:]
            if lines:
                return f"the driver {state}; its last lines: " + " | ".join(lines)
        return f"the driver {state} and has written nothing"

    async def kill(self) -> None:
        """End the process without warning, as the kernel does when memory is short."""
        await self._signal(signal.SIGKILL)
        await self._process.wait()

    async def terminate(self, seconds: float = END_SECONDS) -> bool:
        """Ask the process to end. Returns whether it did in time; it is killed otherwise."""
        await self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(seconds):
                await self._process.wait()
        except TimeoutError:
            await self.kill()
            return False
        # What a wrapper has started may outlive it.
        await self._signal(signal.SIGKILL)
        return True

    async def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


class Launcher:
    """Starts processes of one command on one node."""

    def __init__(
        self, command: str, places: Directories, folder: Path, node: str, kubeconfig: Path
    ) -> None:
        self._arguments = parse(command)
        self._folder = folder
        self._values = {
            "cdi": str(places.cdi),
            "folder": str(folder),
            "kubeconfig": str(kubeconfig),
            "node": node,
            "plugins": str(places.plugins),
            "registry": str(places.registry),
        }
        self._started: list[DriverProcess] = []

    async def start(self, instance: str) -> DriverProcess:
        """Start the driver. Raises CommandInvalid if there is no such program."""
        values = {**self._values, "instance": instance}
        arguments = [
            _PLACEHOLDER.sub(lambda found: values[found[1]], argument)
            for argument in self._arguments
        ]
        log = self._folder / f"driver-{len(self._started)}.log"
        try:
            with log.open("wb") as output:
                process = await self._open(arguments, values, output)
        except OSError as error:
            raise CommandInvalid(f"{arguments[0]} cannot be run: {error.strerror}") from error
        started = DriverProcess(process, instance, log)
        self._started.append(started)
        return started

    async def _open(
        self, arguments: list[str], values: Mapping[str, str], output: IO[bytes]
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **_environment(values)},
            start_new_session=True,
        )

    async def end(self) -> None:
        """End every process that still runs."""
        for process in self._started:
            await process.kill()


def _environment(values: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the DaemonSets of drivers usually set."""
    return {
        "CDI_ROOT": values["cdi"],
        "KUBECONFIG": values["kubeconfig"],
        "KUBELET_PLUGINS_DIRECTORY_PATH": values["plugins"],
        "KUBELET_REGISTRAR_DIRECTORY_PATH": values["registry"],
        "NODE_NAME": values["node"],
        "POD_UID": values["instance"],
    }
