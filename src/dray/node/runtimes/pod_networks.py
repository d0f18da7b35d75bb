"""The way from the network of a pod to that of the node: which program makes it, if any.

Pods reach what any machine near the node could reach; nobody reaches them. The loopback of the
node stays closed to them but for the way to the API server.
"""

from __future__ import annotations

import asyncio
import os
from typing import Final

from dray.node.containers import network_helpers
from dray.node.containers.container_attempts import NetworkHelper
from dray.node.runtimes import sandbox
from dray.node.runtimes.interface import ContainerSpec, Runtime

AUTO, NONE = "auto", "none"
NAMES: Final = (AUTO, NONE, *network_helpers.NAMES)
FOLDERS: Final = ("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin")
"""Where the programs are looked for, whatever the agent's own PATH: all of it the container of the
program sees."""


class NetworkUnusable(Exception):
    """A program that was asked for and does not work on this host; the message says why."""


class PodNetwork:
    """The network of the pods of one process; `api_server` is set as soon as it is known."""

    def __init__(self, wanted: str = NONE, *, api_server: tuple[str, int] | None = None) -> None:
        self._candidates = _candidates(wanted)
        self._trial: asyncio.Task[NetworkHelper | None] | None = None
        self.api_server = api_server
        """The address that pods reach by a port of their loopback."""

    async def helper(self) -> NetworkHelper | None:
        """Return the program that connects pods, or None; the first call tries out which works."""
        self.prepare()
        # Shielded, because all pods share it.
        return await asyncio.shield(self._trial) if self._trial is not None else None

    def prepare(self) -> None:
        """Begin to try out what works, beside the start of the agent."""
        if self._candidates and self._trial is None:
            trial = asyncio.to_thread(_first_usable, self._candidates)
            self._trial = asyncio.create_task(trial, name="pod-network")


def check(wanted: str, runtime: Runtime | None) -> None:
    """Raise NetworkUnusable for a program that was asked for and does not work here."""
    if wanted in (AUTO, NONE):
        return
    if runtime is None or not runtime.takes_network_helper:
        name = "none" if runtime is None else runtime.name
        raise NetworkUnusable(f"only --runtime {sandbox.NAME} has it, not {name}")
    candidates = _candidates(wanted)
    if not candidates:
        raise NetworkUnusable(f"{wanted} is in none of {', '.join(FOLDERS)}: install it")
    if said := _tried(candidates[0]):
        raise NetworkUnusable(f"{wanted} does not work here: {said}")


def _candidates(wanted: str) -> list[NetworkHelper]:
    kinds = network_helpers.NAMES if wanted == AUTO else (wanted,)
    found = []
    for kind in kinds if wanted != NONE else ():
        paths = (os.path.join(folder, kind) for folder in FOLDERS)
        program = next((path for path in paths if os.access(path, os.X_OK)), None)
        if program is not None:
            found.append(NetworkHelper(kind, program))
    return found


def _first_usable(candidates: list[NetworkHelper]) -> NetworkHelper | None:
    return next((helper for helper in candidates if not _tried(helper)), None)


def _tried(helper: NetworkHelper) -> str:
    """Return why a program cannot connect a pod; empty where it can."""
    return sandbox.try_container(ContainerSpec(("/bin/true",), network_helper=helper))
