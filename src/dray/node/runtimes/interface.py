"""The interface of runtimes: command lines that start a container, or a program inside it.

A runtime starts nothing itself. The shim runs the command lines and outlives the agent.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, field

from dray.driverkit.cdi import DeviceNode
from dray.node.containers.container_attempts import (
    Argv,
    Command,
    ContainerAttempt,
    NetworkHelper,
)


@dataclass(frozen=True)
class Bind:
    """A file or folder of the host that a container sees."""

    source: str
    """A path that the agent made, or that an admin or a driver gave: its links are followed."""
    target: str
    read_only: bool = True
    beneath: str = ""
    """A path below the source that containers can change: no link in it is followed."""


@dataclass(frozen=True)
class HostIds:
    """The users and groups of the host that those of a pod are: a range from 0 inside."""

    first_user: int
    first_group: int
    count: int = 1

    def user(self, inside: int) -> int | None:
        """Return the user of the host, or None where the pod has no such user."""
        return self.first_user + inside if 0 <= inside < self.count else None

    def group(self, inside: int) -> int | None:
        """Return the group of the host, or None where the pod has no such group."""
        return self.first_group + inside if 0 <= inside < self.count else None


@dataclass(frozen=True)
class SecurityProfile:
    """The rights of a container's processes, as its securityContext has them."""

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()
    has_read_only_root: bool = False
    capabilities: tuple[str, ...] = ()
    """Names without `CAP_`, in the user namespace of the pod."""
    is_confined: bool = True
    """Whether the seccomp filter is applied."""
    is_privileged: bool = False
    """Whether it has every capability and sees the devices of the node."""


@dataclass(frozen=True)
class ResourceLimits:
    """The resources that a container may use; None means no limit of its own."""

    cpus: float | None = None
    cpu_request: float | None = None
    memory_bytes: int | None = None
    pids: int | None = None


@dataclass(frozen=True)
class ContainerSpec:
    """Everything that a runtime needs to start one container."""

    command: Argv
    """Replaces the entry point of the image, unless it is empty."""
    args: Argv = ()
    env: dict[str, str] = field(default_factory=dict)
    working_directory: str = ""
    hostname: str = "localhost"
    binds: tuple[Bind, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    """Files of its own by their paths, for a runtime whose containers have no /etc."""
    device_nodes: tuple[DeviceNode, ...] = ()
    unrun_hooks: tuple[str, ...] = ()
    """The programs of the CDI hooks of its devices, which no runtime of dray runs."""
    image: str = ""
    name: str = ""
    """Unique among the containers of the host."""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    security: SecurityProfile = SecurityProfile()
    limits: ResourceLimits = ResourceLimits()
    has_host_network: bool = False
    api_server: tuple[str, int] | None = None
    """The address of the API server, for pods with a network of their own."""
    network_helper: NetworkHelper | None = None
    """The program that connects the pod with the network of the node; None for none."""
    has_host_users: bool = False
    """Whether the users of the pod are those of the host: one of its containers is privileged."""
    host_user_id: int | None = None
    """The user of the host that stands for root of the pod, where an admin has set one for the
    namespace; None for the choice of the node."""

    @property
    def argv(self) -> Argv:
        return (*self.command, *self.args)


def in_terminal(argv: Argv, tty: bool) -> list[str]:
    """Return a command, with `tty` in a terminal of its own inside the container.

    Job control needs that.
    """
    return ["setsid", "--ctty", "--wait", *argv] if tty else list(argv)


class RuntimeUnusable(Exception):
    """A runtime that does not work on this host; the message has what was tried."""


class ImageError(Exception):
    """An image that is missing and cannot be pulled; the reason is one of the kubelet's."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Runtime(abc.ABC):
    """Makes the command lines of containers. The defaults are those of a runtime without images."""

    name: str
    has_images = False
    """Whether it runs the image; otherwise the programs of the host run."""
    has_own_etc = True
    """Whether containers have an /etc; otherwise the runtime makes the files of a spec."""
    mounts_files = True
    """Whether it can mount anything for a container."""
    has_own_network = False
    """Whether pods have a network of their own, unless they want the host's."""
    shares_network = True
    """Whether the containers of a pod share that network; otherwise each has its own."""
    forwards_api_server = False
    """Whether pods with a network of their own reach the API server by a port of their loopback."""
    takes_network_helper = False
    """Whether a program can connect that network with the node's."""
    caution = ""
    """A warning for the user, recorded in one event of each pod; may be empty."""

    @property
    def uses_host_user_id(self) -> bool:
        """Whether the user that an admin chose for a namespace matters to it."""
        return False

    def host_ids(self, host_user_id: int | None) -> HostIds | None:
        """Return the ids that a pod's containers have on the host; None for those of the agent.

        Pods with a privileged container have the host's, and are not asked about.
        """
        return None

    @property
    def limits_containers(self) -> bool:
        """Whether it enforces a container's limits itself; otherwise the shim does."""
        return False

    @property
    def default_environment(self) -> dict[str, str]:
        """Variables of every container, besides those of the pod."""
        return {}

    def try_out(self) -> None:
        """Run a small program in it. Raises RuntimeUnusable where that fails."""
        return None

    async def pull(self, image: str, policy: str) -> None:
        """Pull an image, unless it is present. Raises ImageError."""
        return None

    @abc.abstractmethod
    def command(self, spec: ContainerSpec, folder: str) -> Command:
        """Return the command that starts a container whose shim keeps its files in `folder`."""

    @abc.abstractmethod
    def exec_command(
        self, attempt: ContainerAttempt, argv: Argv, *, stdin: bool = False, tty: bool = False
    ) -> Command:
        """Return the command that runs a program in a container.

        Raises LookupError if the container does not run.
        """

    def discard(self, attempt: ContainerAttempt) -> None:
        """Remove what may be left of a container whose shim was lost."""
        return None


class ContainerConfigError(Exception):
    """A container spec that cannot be carried out; the message is for the container's status."""
