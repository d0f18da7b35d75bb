"""The arguments of `podman run` for a container: everything that a pod may choose is checked here.

A value of the pod is never an option: it follows an option that takes one, or `--`. Where podman
divides a value at a separator, a value that contains the separator is refused. The environment goes
through a file that only the agent can read, because every user sees the arguments of a process.
"""

from __future__ import annotations

import json
import os
import re
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from dray.api.formats import image_references
from dray.driverkit.cdi import DeviceNode
from dray.node.containers import processes
from dray.node.runtimes.interface import (
    Bind,
    ContainerConfigError,
    ContainerSpec,
    ImageError,
    ResourceLimits,
    SecurityProfile,
)

FIRST_HOST_ID: Final = 2_000_000_000
"""The user and group of the host that root in a container is, under an agent that is root. It is
far from those of people and services, and below 2**31, which some programs cannot handle."""
HOST_IDS: Final = 65_536
ENVIRONMENT_FILE: Final = "environment"
HOSTS_FILE: Final = "hosts"
MAX_LINE_BYTES: Final = 60_000
"""podman reads no longer line of an environment file than 64 KiB."""
TRANSPORTS: Final = frozenset(
    {
        *("atomic", "containers-storage", "dir", "docker", "docker-archive", "docker-daemon"),
        *("oci", "oci-archive", "ostree", "sif", "tarball"),
    }
)
"""Prefixes with which podman reads an image from somewhere else than a registry."""
_VARIABLE: Final = re.compile(r"[^\s=#*\x00-\x1f\x7f][^\s=*\x00-\x1f\x7f]*")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_CAPABILITY: Final = re.compile(r"[A-Z][A-Z0-9_]*")
_PERMISSIONS: Final = re.compile(r"[rwm]{1,3}")


def of(spec: ContainerSpec, folder: str) -> list[str]:
    """Return the arguments after `run`, up to the image and its arguments.

    Writes the files that they name into `folder`. Raises ContainerConfigError and ImageError.
    """
    check_image(spec.image)
    network = "host" if spec.has_host_network else "none"
    return [
        *("--log-driver", "none", "--network", network, "--cgroupns", "private"),
        *("--hostname", spec.hostname[:63], "--no-hosts"),
        # Otherwise podman looks at the command: for some names it gives more rights.
        *("--systemd", "false", "--sdnotify", "ignore", "--http-proxy=false"),
        *(("--interactive",) if spec.stdin else ()),
        *(("--tty",) if spec.tty else ()),
        *ulimits(),
        *_users(spec),
        *_rights(spec.security),
        *_limits(spec.limits),
        *_files(spec, Path(folder)),
        *(part for bind in spec.binds for part in ("--volume", _volume(bind))),
        *(part for node in spec.device_nodes for part in ("--device", _device(node))),
        *(("--workdir", spec.working_directory) if spec.working_directory else ()),
        *(("--entrypoint", json.dumps(spec.command)) if spec.command else ()),
        *("--", spec.image, *spec.args),
    ]


def check_image(image: str) -> None:
    """Raise ImageError for what is not the name of an image in a registry or on this machine."""
    if image_references.parse(image) is None:
        raise ImageError("InvalidImageName", f'"{image}" is not the name of an image')
    transport = image.partition(":")[0]
    if transport in TRANSPORTS and ":" in image:
        raise ImageError(
            "InvalidImageName",
            f'"{image}" begins like a transport of podman, {transport}: '
            f"write the image with its registry, {image_references.DEFAULT_DOMAIN}/…",
        )


def ulimits() -> Iterator[str]:
    """Yield the limits of the agent, with the number of processes that the system can count."""
    most = int(Path("/proc/sys/kernel/pid_max").read_text("ascii"))
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_files = min(processes.OPEN_FILES, files) if files >= 0 else processes.OPEN_FILES
    _, allowed = resource.getrlimit(resource.RLIMIT_NPROC)
    if allowed != resource.RLIM_INFINITY:
        most = min(most, allowed)
    yield from ("--ulimit", f"nofile={open_files}:{files}")
    yield from ("--ulimit", f"nproc={most}:{most}")


def _users(spec: ContainerSpec) -> Iterator[str]:
    """Yield the user namespace: root in a container is nobody on the host, unless it is privileged.

    An ordinary user's podman makes one with the ids of that user.
    """
    if os.geteuid() == 0 and not spec.has_host_users:
        mapping = f"0:{FIRST_HOST_ID}:{HOST_IDS}"
        yield from ("--uidmap", mapping, "--gidmap", mapping)


def _rights(security: SecurityProfile) -> Iterator[str]:
    if security.is_privileged:
        yield "--privileged"
    else:
        yield from ("--cap-drop", "all", "--security-opt", "no-new-privileges")
    if not security.is_confined:
        yield from ("--security-opt", "seccomp=unconfined")
    if security.has_read_only_root:
        yield from ("--read-only", "--read-only-tmpfs=false")
    for number in (security.uid, security.gid, *security.groups):
        if not 0 <= number < HOST_IDS:
            raise ContainerConfigError(
                f"securityContext: podman has the users and groups 0 to {HOST_IDS - 1}, "
                f"so {number} is not possible"
            )
    if security.uid or security.gid:
        yield from ("--user", f"{security.uid}:{security.gid}")
    for group in security.groups:
        yield from ("--group-add", str(group))
    # podman would keep them for a user that is not root; Kubernetes does not.
    for capability in security.capabilities if security.uid == 0 else ():
        if not _CAPABILITY.fullmatch(capability):
            raise ContainerConfigError(f"securityContext: {capability!r} is not a capability")
        yield from ("--cap-add", capability)


def _limits(limits: ResourceLimits) -> Iterator[str]:
    if limits.cpus is not None:
        yield from ("--cpus", f"{limits.cpus:.3f}")
    if limits.cpu_request is not None:
        yield from ("--cpu-shares", str(max(int(limits.cpu_request * 1024), 2)))
    if limits.memory_bytes is not None:
        # Both: the second is memory and swap together.
        size = f"{limits.memory_bytes}b"
        yield from ("--memory", size, "--memory-swap", size)
    if limits.pids is not None:
        yield from ("--pids-limit", str(limits.pids))


def _files(spec: ContainerSpec, folder: Path) -> Iterator[str]:
    """Write the environment and the host names of the container, and yield their arguments."""
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    environment, hosts = folder / ENVIRONMENT_FILE, folder / HOSTS_FILE
    _write(environment, _lines(spec.env), 0o600)
    yield from ("--env-file", str(environment))
    named = ("/etc", "/etc/hosts")
    if not spec.has_host_network and not any(bind.target in named for bind in spec.binds):
        names = f"127.0.0.1 localhost {_word(spec.hostname)}\n::1 localhost\n"
        _write(hosts, names, 0o644)
        yield from ("--volume", _volume(Bind(str(hosts), "/etc/hosts")))


def _lines(env: Mapping[str, str]) -> str:
    """Return an environment file. Raises ContainerConfigError for what it cannot hold."""
    for name, value in env.items():
        where = f"environment variable {name!r}"
        if not _VARIABLE.fullmatch(name):
            raise ContainerConfigError(f"{where}: podman cannot pass on this name")
        if "\n" in value or "\r" in value or "\0" in value:
            raise ContainerConfigError(
                f"{where}: podman cannot pass on a value with a line break; "
                "mount it as a file, from a ConfigMap or Secret volume"
            )
        if len(os.fsencode(f"{name}={value}")) > MAX_LINE_BYTES:
            raise ContainerConfigError(f"{where}: it is longer than {MAX_LINE_BYTES} bytes")
    return "".join(f"{name}={value}\n" for name, value in env.items())


def _word(hostname: str) -> str:
    if re.search(r"\s", hostname):
        raise ContainerConfigError(f"hostname {hostname!r} has white space")
    return hostname


def _volume(bind: Bind) -> str:
    if bind.beneath:
        raise ContainerConfigError(
            f"{bind.target}: the podman runtime cannot mount a part of a volume (subPath) safely; "
            "mount the whole volume, or run the node with --runtime sandbox"
        )
    mode = "ro" if bind.read_only else "rw"
    return f"{_path(bind.source)}:{_path(bind.target)}:{mode}"


def _device(node: DeviceNode) -> str:
    permissions = node.permissions or "rwm"
    if not _PERMISSIONS.fullmatch(permissions):
        raise ContainerConfigError(f"device {node.path}: {permissions!r} are no permissions")
    return f"{_path(node.host_path or node.path)}:{_path(node.path)}:{permissions}"


def _path(path: str) -> str:
    """Return a path that podman takes as one. Raises ContainerConfigError for any other."""
    if not path.startswith("/") or ":" in path or _CONTROL.search(path):
        raise ContainerConfigError(
            f"{path!r}: podman mounts absolute paths without a colon or control characters only"
        )
    return path


def _write(path: Path, content: str, mode: int) -> None:
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        # Not by `open`: the agent's umask must not decide.
        os.fchmod(file.fileno(), mode)
        file.write(content.encode("utf-8", "surrogateescape"))
