"""Control groups of version 1: one tree for each of the controllers cpu, memory and pids."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.node.limits.hierarchy import (
    PERIOD_MICROSECONDS,
    Hierarchy,
    LimitsUnusable,
    quota,
    shares,
    write,
)
from dray.node.mounts import MountedFileSystem
from dray.node.runtimes.interface import ResourceLimits

CONTROLLERS: Final = ("cpu", "memory", "pids")


@dataclass(frozen=True)
class CgroupV1(Hierarchy):
    """The folders at which the controllers are mounted."""

    cpu: Path
    memory: Path
    pids: Path

    @property
    def roots(self) -> tuple[Path, ...]:
        # Controllers may be mounted together, at one folder.
        return tuple(dict.fromkeys((self.cpu, self.memory, self.pids)))

    def set_limits(self, group: str, limits: ResourceLimits) -> None:
        self._limit_cpu(self.cpu / group, limits)
        self._limit_memory(self.memory / group, limits.memory_bytes)
        if limits.pids is not None:
            write(self.pids / group, "pids.max", limits.pids)

    def _limit_cpu(self, folder: Path, limits: ResourceLimits) -> None:
        write(folder, "cpu.shares", shares(limits.cpu_request))
        if limits.cpus is None:
            return
        if not (folder / "cpu.cfs_quota_us").exists():
            raise OSError(f"{folder}: this kernel cannot limit CPU time")
        write(folder, "cpu.cfs_period_us", PERIOD_MICROSECONDS)
        write(folder, "cpu.cfs_quota_us", quota(limits.cpus))

    def _limit_memory(self, folder: Path, memory_bytes: int | None) -> None:
        if memory_bytes is None:
            return
        write(folder, "memory.limit_in_bytes", memory_bytes)
        # Memory and swap together; the file is absent where the kernel does not account for swap.
        if (folder / "memory.memsw.limit_in_bytes").exists():
            write(folder, "memory.memsw.limit_in_bytes", memory_bytes)


def find(mounts: list[MountedFileSystem]) -> CgroupV1:
    """Return the mounted controllers. Raises LimitsUnusable where one is missing."""
    found = {
        controller: mount.target
        for mount in mounts
        if mount.type == "cgroup"
        for controller in CONTROLLERS
        if controller in mount.options
    }
    if missing := [name for name in CONTROLLERS if name not in found]:
        raise LimitsUnusable(f"cgroup v1: no {', '.join(missing)} controller is mounted")
    hierarchy = CgroupV1(found["cpu"], found["memory"], found["pids"])
    if closed := [str(root) for root in hierarchy.roots if not os.access(root, os.W_OK)]:
        raise LimitsUnusable(f"cgroup v1: {', '.join(closed)} cannot be written to")
    return hierarchy
