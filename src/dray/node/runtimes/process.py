"""Plain processes of the agent's user instead of containers, for systems with nothing else.

They see and may do all that the agent's user may; nothing can be mounted for them.
"""

from __future__ import annotations

import os
from typing import Final

from dray.node.containers.container_attempts import Command, ContainerAttempt
from dray.node.runtimes.interface import ContainerConfigError, ContainerSpec, with_terminal

NAME: Final = "process"


class PlainProcess:
    name = NAME
    has_images = False
    has_own_etc = True
    caution = (
        "The process runtime isolates nothing: containers run the programs of the node, "
        "see its files and have the rights of the node agent"
    )

    @property
    def default_environment(self) -> dict[str, str]:
        return {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}

    def try_out(self) -> None:
        """Always succeeds: where the agent runs, a process does."""

    async def pull(self, image: str, policy: str) -> None:
        return None

    def command(self, spec: ContainerSpec, folder: str) -> Command:
        for bind in spec.binds:
            if bind.source != bind.target:
                raise ContainerConfigError(
                    f"{bind.target}: the process runtime cannot mount anything; "
                    "run the node with --runtime sandbox or podman"
                )
        return Command(
            list(with_terminal(spec.argv) if spec.tty else spec.argv),
            spec.env,
            spec.working_directory or "/",
            stdin=spec.stdin,
            stdin_once=spec.stdin_once,
            tty=spec.tty,
        )

    def exec_command(
        self,
        attempt: ContainerAttempt,
        argv: tuple[str, ...],
        *,
        stdin: bool = False,
        tty: bool = False,
    ) -> Command:
        started = attempt.command()
        return Command(list(with_terminal(argv) if tty else argv), started["env"], started["cwd"])

    def discard(self, attempt: ContainerAttempt) -> None:
        """Does nothing: processes of a lost shim cannot be told from others."""
