"""Limits of processes, for nodes without control groups: coarse, and none for CPU time.

The kernel counts memory for one process and the number of processes for one user, so these bound
what a container does by mistake or malice and do not share the node out. RLIMIT_AS is not used:
CUDA reserves more addresses than any machine has memory, and touches few of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dray.node.runtimes.interface import ResourceLimits

STACKS_BYTES: Final = 2**30
"""Private memory that a process reserves, for the stacks of its threads, and does not touch."""
_LOAD: Final = Path("/proc/loadavg")


def of(container: ResourceLimits, pod: ResourceLimits) -> dict[str, int]:
    """Return the rlimits of a container's first process, by their names in Python's `resource`."""
    found = {}
    memory = [limit for limit in (container.memory_bytes, pod.memory_bytes) if limit is not None]
    if memory:
        found["RLIMIT_DATA"] = min(memory) + STACKS_BYTES
    if pod.pids is not None:
        # What runs already may be the same user's, and must not use up the container's share.
        found["RLIMIT_NPROC"] = _tasks() + pod.pids
    return found


def unenforced(container: ResourceLimits, pod: ResourceLimits) -> list[str]:
    """Return the limits of a container that rlimits cannot enforce, in words."""
    found = []
    if container.cpus is not None or pod.cpus is not None:
        found.append("cpu is not limited")
    if container.memory_bytes is not None or pod.memory_bytes is not None:
        found.append("memory is limited for each process, not for the container")
    return found


def _tasks() -> int:
    """Return the number of processes and threads on this machine."""
    return int(_LOAD.read_text("ascii").split()[3].partition("/")[2])
