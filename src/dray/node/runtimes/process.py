"""Plain processes of the agent's user instead of containers, for systems with nothing else.

They see and may do all that the agent's user may; nothing can be mounted for them. What a lost shim
leaves behind stays: its processes cannot be told from others.
"""

from __future__ import annotations

import os
from typing import Final

from dray.node.containers.container_attempts import Argv, Command, ContainerAttempt
from dray.node.runtimes.interface import (
    ContainerConfigError,
    ContainerSpec,
    Runtime,
    SecurityProfile,
    in_terminal,
)

NAME: Final = "process"


class PlainProcess(Runtime):
    """Always usable: where the agent runs, a process does."""

    name = NAME
    mounts_files = False
    caution = (
        "The process runtime isolates nothing: containers run the programs of the node, "
        "see its files and have the rights of the node agent"
    )

    @property
    def default_environment(self) -> dict[str, str]:
        return {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}

    def command(self, spec: ContainerSpec, folder: str) -> Command:
        _check_rights(spec.security)
        for bind in spec.binds:
            if bind.source != bind.target:
                raise ContainerConfigError(
                    f"{bind.target}: the process runtime cannot mount anything; "
                    "run the node with --runtime sandbox or podman"
                )
        return Command(
            in_terminal(spec.argv, spec.tty),
            spec.env,
            spec.working_directory or "/",
            stdin=spec.stdin,
            stdin_once=spec.stdin_once,
            tty=spec.tty,
        )

    def exec_command(
        self, attempt: ContainerAttempt, argv: Argv, *, stdin: bool = False, tty: bool = False
    ) -> Command:
        started = attempt.command()
        return Command(in_terminal(argv, tty), started["env"], started["cwd"])


def _check_rights(security: SecurityProfile) -> None:
    """Raise ContainerConfigError for rights that differ from those of the agent."""
    wanted = {
        "runAsUser": security.uid not in (0, os.geteuid()),
        "runAsGroup": security.gid not in (0, os.getegid()),
        "supplementalGroups": bool(security.groups),
        "readOnlyRootFilesystem": security.has_read_only_root,
        "capabilities": bool(security.capabilities),
    }
    if refused := [name for name, is_set in wanted.items() if is_set]:
        raise ContainerConfigError(
            f"securityContext.{refused[0]}: the process runtime cannot honour it; "
            "run the node with --runtime sandbox or podman"
        )
