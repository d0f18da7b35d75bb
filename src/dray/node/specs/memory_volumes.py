"""Volumes in memory: emptyDir with the medium Memory, a tmpfs that only root can mount.

What containers write there counts as their memory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from dray.api.formats import quantity
from dray.api.types.volumes import EmptyDirVolumeSource
from dray.node.containers import system_calls
from dray.node.runtimes.interface import ContainerConfigError

MEMORY: Final = "Memory"
FILE_SYSTEM: Final = "tmpfs"


def mount(folder: Path, source: EmptyDirVolumeSource) -> None:
    """Mount a tmpfs on the folder of an emptyDir that asks for memory, unless it is there.

    Raises ContainerConfigError for a medium that this node does not have.
    """
    if not source.medium:
        return
    if source.medium != MEMORY:
        raise ContainerConfigError(
            f"emptyDir.medium {source.medium} is not supported: use {MEMORY}, or leave it out"
        )
    if os.geteuid() != 0:
        raise ContainerConfigError(
            f"emptyDir.medium {MEMORY} needs a node agent that runs as root: "
            "leave it out to have the volume on disk"
        )
    if os.path.ismount(folder):
        return
    limit = quantity.parse(source.size_limit or "0").value()
    options = "mode=0777" + (f",size={limit}" if limit > 0 else "")
    flags = system_calls.MS_NOSUID | system_calls.MS_NODEV
    system_calls.mount(FILE_SYSTEM, str(folder), FILE_SYSTEM, flags, options)
