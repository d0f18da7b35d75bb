"""The edits of a container for its device: nodes, the vendor's libraries and programs, variables.

Only what was claimed: a GPU's own node, and for a partition only that partition's capability nodes.
Containers see the vendor's files at the paths of the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from dray.driverkit.cdi import DeviceNode, Edits, Hook, Mount
from dray.drivers.nvidia import host as hosts
from dray.drivers.nvidia.hardware import Gpu
from dray.drivers.nvidia.host import Host

ELSEWHERE: Final = PurePosixPath("/opt/bin")
"""The containers' directory for programs that the host has off the usual search path."""
HOOK_TOOL: Final = "/usr/bin/nvidia-cdi-hook"
SOCKETS: Final = ("/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket")
_NOT_IN_VARIABLES = re.compile("[^A-Z0-9]+")


class Shown(NamedTuple):
    """A partition that exists: the numbers of its instances, and its UUID."""

    instance: int
    compute: int
    uuid: str


def of_gpu(host: Host, gpu: Gpu, device: str) -> Edits:
    return _edits(host, [host.gpu_node(gpu.minor)], {_variable("GPU", device): gpu.uuid})


def of_partition(host: Host, gpu: Gpu, shown: Shown, device: str) -> Edits:
    capabilities = host.capability_nodes(gpu.minor, shown.instance, shown.compute)
    nodes = [host.gpu_node(gpu.minor), *capabilities]
    return _edits(host, nodes, {_variable("MIG", device): shown.uuid})


def _edits(host: Host, nodes: list[str], names: dict[str, str]) -> Edits:
    # "void" keeps NVIDIA's own container runtime from adding every GPU of the machine.
    env = {"NVIDIA_VISIBLE_DEVICES": "void", **names}
    if folders := sorted(_library_folders(host) - set(hosts.DEFAULT_LIBRARY_FOLDERS)):
        env["LD_LIBRARY_PATH"] = ":".join(folders)
    return Edits(
        env=env,
        device_nodes=tuple(DeviceNode(path) for path in (*host.common_nodes(), *nodes)),
        mounts=tuple(_mounts(host)),
        hooks=tuple(_hooks(host)),
    )


def _mounts(host: Host) -> Iterator[Mount]:
    """Yield the mounts of libraries, programs and sockets."""
    for file in host.libraries:
        yield Mount(str(file.real), str(file.target))
    for file in host.programs:
        is_usual = str(file.real.parent) in hosts.PROGRAM_FOLDERS
        yield Mount(str(file.real), str(file.target if is_usual else ELSEWHERE / file.name))
    for path in SOCKETS:
        if host.sees(path).exists():
            yield Mount(path, path, ("rw", "nosuid", "nodev", "bind"))


def _hooks(host: Host) -> Iterator[Hook]:
    """Return the hook of NVIDIA's toolkit, if installed, which updates the linker's cache."""
    if not host.sees(HOOK_TOOL).exists():
        return
    folders = sorted(_library_folders(host))
    arguments = tuple(part for folder in folders for part in ("--folder", folder))
    name = PurePosixPath(HOOK_TOOL).name
    yield Hook("createContainer", HOOK_TOOL, (name, "update-ldcache", *arguments))


def _library_folders(host: Host) -> set[str]:
    return {str(file.real.parent) for file in host.libraries}


def _variable(kind: str, device: str) -> str:
    return f"{kind}_DEVICE_{_NOT_IN_VARIABLES.sub('_', device.upper())}"
