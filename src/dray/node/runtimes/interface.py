"""The interface of runtimes: command lines that start a container, or a program inside it.

A runtime starts nothing itself. The shim runs the command lines and outlives the agent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from dray.driverkit.cdi import DeviceNode
from dray.node.containers.container_attempts import Command, ContainerAttempt


@dataclass(frozen=True)
class Bind:
    source: str
    target: str
    read_only: bool = True


@dataclass(frozen=True)
class ContainerSpec:
    """Everything that a runtime needs to start one container."""

    command: tuple[str, ...]
    """Replaces the entry point of the image, unless it is empty."""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    working_directory: str = ""
    hostname: str = "localhost"
    binds: tuple[Bind, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    image: str = ""
    name: str = ""
    """Unique among the containers of the host."""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False

    @property
    def argv(self) -> tuple[str, ...]:
        return (*self.command, *self.args)


def with_terminal(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command with a terminal of its own, inside the container: job control needs that."""
    return ("setsid", "--ctty", "--wait", *argv)


class RuntimeUnusable(Exception):
    """A runtime that does not work on this host; the message has what was tried."""


class ImageError(Exception):
    """An image that is missing and cannot be pulled; the reason is one of the kubelet's."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Runtime(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def has_images(self) -> bool:
        """Whether it runs the image; otherwise the programs of the host run."""

    @property
    def has_own_etc(self) -> bool:
        """Whether containers have an /etc without one being made for them."""

    @property
    def default_environment(self) -> dict[str, str]:
        """Variables of every container, besides those of the pod."""

    @property
    def caution(self) -> str:
        """A warning for the user, recorded in one event of each pod; may be empty."""

    def try_out(self) -> None:
        """Run a small program in it. Raises Unusable where that fails."""

    async def pull(self, image: str, policy: str) -> None:
        """Pull an image, unless it is present. Raises ImageError."""

    def command(self, spec: ContainerSpec, folder: str) -> Command:
        """Return the command that starts a container whose shim keeps its files in `folder`."""

    def exec_command(
        self,
        attempt: ContainerAttempt,
        argv: tuple[str, ...],
        *,
        stdin: bool = False,
        tty: bool = False,
    ) -> Command:
        """Return the command that runs a program in a container.

        Raises LookupError if the container does not run.
        """

    def discard(self, attempt: ContainerAttempt) -> None:
        """Remove what may be left of a container whose shim was lost."""


class ContainerConfigError(Exception):
    """A container spec that cannot be carried out; the message is for the container's status."""
