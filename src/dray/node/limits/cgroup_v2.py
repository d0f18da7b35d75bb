"""Control groups of version 2: one tree, in which a group either has processes or groups below.

Root makes its groups at the top of the tree. Everybody else, and root in a container, needs a group
of their own that was delegated to them. What runs there moves to a group below it first, because
the kernel gives controllers only to groups without processes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.node.limits import hierarchy
from dray.node.limits.hierarchy import (
    MAX_SHARES,
    MIN_SHARES,
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
LEAF: Final = "dray-agent"
"""The group of the agent itself, where it shares its group with those of containers."""
SYSTEMD: Final = Path("/run/systemd/system")
_DELEGATED: Final = ("user.delegate", "trusted.delegate")
_MAX_WEIGHT: Final = 10_000
_SUBTREE: Final = "cgroup.subtree_control"


@dataclass(frozen=True)
class CgroupV2(Hierarchy):
    """The folder that holds the groups."""

    base: Path

    @property
    def roots(self) -> tuple[Path, ...]:
        return (self.base,)

    def make(self, group: str, limits: ResourceLimits) -> None:
        _enable_controllers((self.base / group).parent)
        super().make(group, limits)

    def set_limits(self, group: str, limits: ResourceLimits) -> None:
        folder = self.base / group
        allowed = "max" if limits.cpus is None else quota(limits.cpus)
        write(folder, "cpu.max", f"{allowed} {PERIOD_MICROSECONDS}")
        write(folder, "cpu.weight", weight(limits.cpu_request))
        write(folder, "pids.max", "max" if limits.pids is None else limits.pids)
        if limits.memory_bytes is None:
            write(folder, "memory.max", "max")
            return
        write(folder, "memory.max", limits.memory_bytes)
        # Absent where the kernel does not account for swap.
        if (folder / "memory.swap.max").exists():
            write(folder, "memory.swap.max", 0)

    def kill_together(self, group: str) -> None:
        """Let the kernel kill all processes of a group when it kills one for memory."""
        with contextlib.suppress(FileNotFoundError):
            write(self.base / group, "memory.oom.group", 1)


def weight(request: float | None) -> int:
    """Return the weight of a CPU request, as a kubelet converts the shares of version 1."""
    above = shares(request) - MIN_SHARES
    return 1 + above * (_MAX_WEIGHT - 1) // (MAX_SHARES - MIN_SHARES)


def find(mounts: list[MountedFileSystem], own_groups: str) -> CgroupV2:
    """Return the tree with a folder in which groups can be made. Raises LimitsUnusable."""
    mounted = next((mount.target for mount in mounts if mount.type == "cgroup2"), None)
    if mounted is None:
        raise LimitsUnusable("cgroup v2: it is not mounted")
    if missing := [name for name in CONTROLLERS if name not in _words(mounted, "controllers")]:
        raise LimitsUnusable(f"cgroup v2: {mounted} has no {', '.join(missing)} controller")
    failures = []
    for base, is_ours in _candidates(mounted, own_groups):
        try:
            if is_ours:
                _empty(base)
            _enable_controllers(base)
        except OSError as error:
            failures.append(f"{base}: {error.strerror}")
        else:
            return CgroupV2(base)
    raise LimitsUnusable(f"cgroup v2: {'; '.join(failures) or 'no group is delegated to dray'}")


def _candidates(mounted: Path, own_groups: str) -> Iterator[tuple[Path, bool]]:
    """Yield folders to try, and whether what runs in them may be moved to a group below."""
    own = _own_group(mounted, own_groups)
    is_delegated = own is not None and _is_delegated(own)
    if own is not None and is_delegated and own != mounted:
        yield own, True
    if os.geteuid() == 0:
        yield mounted, False
        if own == mounted and is_delegated:
            yield mounted, True


def _own_group(mounted: Path, own_groups: str) -> Path | None:
    """Return the folder of this process's group; an earlier agent may have moved us to its leaf."""
    for line in own_groups.splitlines():
        number, _, path = line.split(":", 2)
        if number == "0" and ".." not in path:
            found = mounted / path.lstrip("/")
            return found.parent if found.name == LEAF else found
    return None


def _is_delegated(folder: Path) -> bool:
    """Whether a group is ours to divide. systemd marks those that it leaves to others."""
    if SYSTEMD.exists():
        return any(_has_mark(folder, name) for name in _DELEGATED)
    files = (folder, folder / "cgroup.procs", folder / _SUBTREE)
    return all(os.access(file, os.W_OK) for file in files)


def _has_mark(folder: Path, name: str) -> bool:
    try:
        return os.getxattr(folder, name) == b"1"
    except OSError:
        return False


def _empty(base: Path) -> None:
    """Move the processes of a group to a group below it."""
    leaf = base / LEAF
    leaf.mkdir(exist_ok=True)
    for process in hierarchy.processes(base):
        # One that has ended meanwhile needs no move.
        with contextlib.suppress(ProcessLookupError):
            write(leaf, "cgroup.procs", process)


def _enable_controllers(folder: Path) -> None:
    """Give the groups below a folder their controllers. Raises OSError."""
    missing = [name for name in CONTROLLERS if name not in _words(folder, "subtree_control")]
    if missing:
        write(folder, _SUBTREE, " ".join(f"+{name}" for name in missing))


def _words(folder: Path, file: str) -> list[str]:
    return (folder / f"cgroup.{file}").read_text("ascii").split()
