"""What a runtime is: it says how a container is started, and how a program is run inside it.

Nothing is started here. A runtime makes command lines; the shim runs them and outlives the agent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from dray.driverkit.cdi import DeviceNode
from dray.node.containers.container_attempts import Attempt, Command


@dataclass(frozen=True)
class Bind:
    source: str
    target: str
    read_only: bool = True


@dataclass(frozen=True)
class ContainerSpec:
    """Everything a runtime has to know to start one container."""

    command: tuple[str, ...]
    """What replaces the entry point of the image; empty for that of the image."""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    working_directory: str = ""
    hostname: str = "localhost"
    binds: tuple[Bind, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    image: str = ""
    name: str = ""
    """Unlike that of any other container on the machine."""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False

    @property
    def argv(self) -> tuple[str, ...]:
        return (*self.command, *self.args)


def with_terminal(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Run inside, where process numbers are the container's own, so that job control works."""
    return ("setsid", "--ctty", "--wait", *argv)


class Unusable(Exception):
    """A runtime that does not work on this machine; the text says what was tried."""


class ImageError(Exception):
    """An image that is not there and cannot be fetched; the reason is one of the kubelet's."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Runtime(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def has_images(self) -> bool:
        """Whether it runs what is in the image; otherwise the programs of the node run."""

    @property
    def has_own_etc(self) -> bool:
        """Whether containers find an /etc without one being made for them."""

    @property
    def default_environment(self) -> dict[str, str]:
        """What a container's environment has besides what the pod says."""

    @property
    def caution(self) -> str:
        """What whoever uses it has to know, for one event of each pod; empty for nothing."""

    def try_out(self) -> None:
        """Run something really; raises Unusable where that fails."""

    async def pull(self, image: str, policy: str) -> None:
        """See to it that an image is there; raises ImageError."""

    def command(self, spec: ContainerSpec, folder: str) -> Command:
        """What starts a container whose shim keeps its files in `folder`."""

    def exec_command(
        self, attempt: Attempt, argv: tuple[str, ...], *, stdin: bool = False, tty: bool = False
    ) -> Command:
        """What runs a program inside a running container; LookupError if it does not run."""

    def discard(self, attempt: Attempt) -> None:
        """Remove what may be left of a container whose shim was lost."""


class ContainerConfigError(Exception):
    """A container that cannot be made as it is described; the text is for its status."""
