"""The interface of control groups: folders of the kernel whose files limit the processes in them.

Folder operations are here; the two versions of the kernel's interface differ in their files.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import errno
import logging
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from dray.node.runtimes.interface import ResourceLimits

log = logging.getLogger(__name__)

PERIOD_MICROSECONDS: Final = 100_000
MIN_QUOTA_MICROSECONDS: Final = 1_000
SHARES_PER_CPU: Final = 1024
MIN_SHARES: Final = 2
MAX_SHARES: Final = 262_144
REMOVAL_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.01
_PROCESSES: Final = "cgroup.procs"


class LimitsUnusable(Exception):
    """Control groups that cannot be made here; the message has what was tried."""


class Hierarchy(abc.ABC):
    """Control groups below one or more folders. A group is named by a relative path."""

    @property
    @abc.abstractmethod
    def roots(self) -> tuple[Path, ...]:
        """The folders that hold the groups; each group is a folder in all of them."""

    @abc.abstractmethod
    def set_limits(self, group: str, limits: ResourceLimits) -> None:
        """Write limits to a group that has none, or the same. Raises OSError."""

    def make(self, group: str, limits: ResourceLimits) -> None:
        """Make a group and the groups that contain it, and limit it. Raises OSError."""
        for folder in self.folders(group):
            folder.mkdir(mode=0o755, exist_ok=True)
        self.set_limits(group, limits)

    def folders(self, group: str) -> list[Path]:
        return [root / group for root in self.roots]

    def children(self, group: str) -> set[str]:
        """Return the names of the groups directly below a group."""
        return {entry.name for folder in self.folders(group) for entry in _subfolders(folder)}

    async def remove(self, group: str) -> None:
        """Kill what is left in a group, and remove it with the groups below it."""
        deadline = asyncio.get_running_loop().time() + REMOVAL_SECONDS
        while not self._remove_at_once(group):
            if asyncio.get_running_loop().time() > deadline:
                log.warning("control group %s: its processes do not end", group)
                return
            await asyncio.sleep(_PAUSE_SECONDS)

    def _remove_at_once(self, group: str) -> bool:
        """Whether the group is gone. Its processes are killed, but may take a while to end."""
        removed = [_remove_tree(folder) for folder in self.folders(group)]
        return all(removed)


def _remove_tree(folder: Path) -> bool:
    _forbid_new_processes(folder)
    below = [_remove_tree(child) for child in _subfolders(folder)]
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
            raise
        _kill_all(folder)
        return False
    return all(below)


def _forbid_new_processes(folder: Path) -> None:
    """Set the process limit to zero: what is killed can no longer outrun it with forks."""
    limit = folder / "pids.max"
    if limit.exists() and processes(folder):
        with contextlib.suppress(OSError):
            limit.write_text("0", "ascii")


def _kill_all(folder: Path) -> None:
    for process in processes(folder):
        # Zero is a process outside of our namespace of process ids.
        if process and process != os.getpid():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)


def processes(folder: Path) -> list[int]:
    """Return the ids of the processes in a group; none where the group is gone."""
    try:
        return [int(line) for line in (folder / _PROCESSES).read_text("ascii").split()]
    except (FileNotFoundError, OSError):
        return []


def _subfolders(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        found: Iterable[os.DirEntry[str]] = list(entries)
        yield from (Path(entry.path) for entry in found if entry.is_dir(follow_symlinks=False))


def quota(cpus: float) -> int:
    """Return the microseconds that processes may run in each period."""
    return max(round(cpus * PERIOD_MICROSECONDS), MIN_QUOTA_MICROSECONDS)


def shares(request: float | None) -> int:
    """Return the weight of a CPU request where processes compete, as a kubelet computes it."""
    return min(max(int((request or 0.0) * SHARES_PER_CPU), MIN_SHARES), MAX_SHARES)


def write(folder: Path, file: str, value: object) -> None:
    """Write a setting of a group. Raises OSError with the path of the file."""
    path = folder / file
    try:
        # Not `write_text`: a file of the kernel takes one whole write and cannot be truncated.
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, str(value).encode("ascii"))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise OSError(error.errno, f"{value}: {error.strerror}", str(path)) from error
