"""Containers by bubblewrap: their own view of files, processes and users, as an ordinary user.

A container sees the system's programs and libraries read-only, an /etc made for it, empty folders
elsewhere, and what its volumes and devices put there. It sees nobody's home, nothing of /run, no
device that was not claimed, and nothing of dray. There are no images: the host's programs run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dray.driverkit.cdi import DeviceNode
from dray.node import shim

NAME: Final = "sandbox"
PATH: Final = "/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_FROM_ETC = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ssl", "/etc/localtime")
_EMPTY = ("/tmp", "/run", "/var/tmp", "/root", "/home")
_PROBE_SECONDS = 10.0


@dataclass(frozen=True)
class Bind:
    source: str
    target: str
    read_only: bool = True


@dataclass(frozen=True)
class ContainerSpec:
    """Everything a runtime has to know to start one container."""

    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    working_directory: str = "/"
    hostname: str = "localhost"
    binds: tuple[Bind, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()


def is_usable() -> bool:
    """Whether a sandbox can really be made here, not only whether the program is installed."""
    if shutil.which("bwrap") is None:
        return False
    told = ("--info-fd", shim.INFO_DESCRIPTOR)
    argv = [part for part in command(ContainerSpec(("/bin/true",))) if part not in told]
    try:
        ran = subprocess.run(argv, capture_output=True, timeout=_PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ran.returncode == 0


def command(spec: ContainerSpec) -> list[str]:
    """The program and arguments that run a container; the shim fills in {info-fd}."""
    return [
        shutil.which("bwrap") or "bwrap",
        *("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--cap-drop", "ALL", "--die-with-parent", "--new-session"),
        *("--hostname", spec.hostname[:63], "--info-fd", shim.INFO_DESCRIPTOR),
        *_system_files(),
        *("--proc", "/proc", "--dev", "/dev"),
        *(part for folder in _EMPTY for part in ("--tmpfs", folder)),
        *_device_nodes(spec),
        *_binds(spec),
        *("--chdir", spec.working_directory or "/", "--"),
        *spec.argv,
    ]


def exec_command(first_process: int, argv: tuple[str, ...]) -> list[str]:
    """What runs another program in the sandbox of a running container, with no more rights."""
    return [
        "nsenter",
        *("--target", str(first_process), "--preserve-credentials"),
        *("--user", "--mount", "--pid", "--uts", "--ipc", "--root", "--wd", "--"),
        *("setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--"),
        *argv,
    ]


def _system_files() -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for folder in _SYSTEM:
        if os.path.islink(folder):
            yield from ("--symlink", os.readlink(folder), folder)
        elif os.path.isdir(folder):
            yield from ("--ro-bind", folder, folder)
    for path in _FROM_ETC:
        yield from ("--ro-bind-try", path, path)


def _device_nodes(spec: ContainerSpec) -> Iterator[str]:
    for node in spec.device_nodes:
        yield from ("--dev-bind", node.host_path or node.path, node.path)


def _binds(spec: ContainerSpec) -> Iterator[str]:
    """Outer folders first, so that what is mounted inside them stays visible."""
    for bind in sorted(spec.binds, key=lambda each: len(Path(each.target).parts)):
        yield from ("--ro-bind" if bind.read_only else "--bind", bind.source, bind.target)
