"""The control groups of one agent: a group for each pod, and in it one for each container start.

The names follow from the agent's directory, the pod's uid and the container, so that the next agent
with the same directory finds them, and agents with other directories leave them alone.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from dray.api.types.pods import Pod
from dray.node import mounts
from dray.node.containers.container_attempts import Command
from dray.node.limits import cgroup_v1, cgroup_v2, resources, rlimits
from dray.node.limits.cgroup_v2 import CgroupV2
from dray.node.limits.hierarchy import Hierarchy, LimitsUnusable
from dray.node.runtimes.interface import ContainerConfigError, ResourceLimits

T = TypeVar("T", int, float)

DEFAULT_POD_MAX_PIDS: Final = 4096
NOT_ENFORCED: Final = "LimitsNotEnforced"
ADVICE: Final = (
    "run the node as root, or in a control group of its own: "
    "systemd-run --user --scope --property=Delegate=yes dray node"
)
_OWN_GROUPS: Final = Path("/proc/self/cgroup")
_POD: Final = "pod"
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass(frozen=True)
class LimitedContainer:
    """The control groups of one start of a container, or the rlimits in their place."""

    cgroups: tuple[str, ...] = ()
    """The folders that its first process joins."""
    rlimits: dict[str, int] = dataclasses.field(default_factory=dict)
    warning: str = ""
    """The limits that are not enforced, for an event of the pod; may be empty."""

    def applied(self, command: Command) -> Command:
        """Return a command whose first process is limited."""
        return msgspec.structs.replace(command, cgroups=list(self.cgroups), rlimits=self.rlimits)


@dataclass(frozen=True)
class ContainerLimits:
    """Limits the containers of one agent; `state` is the agent's own directory."""

    state: Path
    hierarchy: Hierarchy | None
    reason: str = ""
    """The reason why there is no hierarchy."""
    pod_max_pids: int = DEFAULT_POD_MAX_PIDS
    """Zero for no limit."""

    def prepare(
        self, pod: Pod, container: str, number: int, limits: ResourceLimits
    ) -> LimitedContainer:
        """Make the groups of a start of a container. Raises ContainerConfigError."""
        whole = resources.pod_limits(pod, self.pod_max_pids)
        if self.hierarchy is None:
            return self._without_groups(container, limits, whole)
        in_pod = self._pod_group(pod.metadata.uid)
        group = f"{in_pod}/{_checked(container)}-{number}"
        try:
            self._make(self.hierarchy, in_pod, whole, group, limits)
        except OSError as error:
            raise ContainerConfigError(
                f"container {container}: its limits cannot be set: "
                f"{error.filename or group}: {error.strerror or error}"
            ) from error
        return LimitedContainer(tuple(str(folder) for folder in self.hierarchy.folders(group)))

    async def remove_container(self, uid: str, container: str, number: int) -> None:
        """Remove the group of a start that has ended, and kill what it left behind."""
        if self.hierarchy is not None:
            group = f"{self._pod_group(uid)}/{_checked(container)}-{number}"
            await self.hierarchy.remove(group)

    async def remove_pod(self, uid: str) -> None:
        """Remove the groups of a pod that has ended, and kill what it left behind."""
        if self.hierarchy is not None:
            await self.hierarchy.remove(self._pod_group(uid))
            self._remove_if_empty(self.hierarchy)

    def pods(self) -> set[str]:
        """Return the uids of the pods that have groups, also those of an earlier agent."""
        if self.hierarchy is None:
            return set()
        return {name.removeprefix(_POD) for name in self.hierarchy.children(self._group)}

    def within_pod(self, pod: Pod, limits: ResourceLimits) -> ResourceLimits:
        """Return the limits of a container where its pod as a whole cannot be limited."""
        whole = resources.pod_limits(pod, self.pod_max_pids)
        return ResourceLimits(
            cpus=_least(limits.cpus, whole.cpus),
            cpu_request=limits.cpu_request,
            memory_bytes=_least(limits.memory_bytes, whole.memory_bytes),
            pids=_least(limits.pids, whole.pids),
        )

    @functools.cached_property
    def _group(self) -> str:
        path = str(self.state.resolve()).encode()
        return f"dray-{hashlib.blake2s(path, digest_size=8).hexdigest()}"

    def _pod_group(self, uid: str) -> str:
        return f"{self._group}/{_POD}{_checked(uid)}"

    def _make(
        self,
        hierarchy: Hierarchy,
        pod_group: str,
        whole: ResourceLimits,
        group: str,
        limits: ResourceLimits,
    ) -> None:
        try:
            hierarchy.make(pod_group, whole)
        except FileNotFoundError:
            # The first pod. The group of the agent is removed with its last one.
            machine = ResourceLimits(cpu_request=float(os.cpu_count() or 1))
            hierarchy.make(self._group, machine)
            hierarchy.make(pod_group, whole)
        hierarchy.make(group, limits)
        if isinstance(hierarchy, CgroupV2):
            hierarchy.kill_together(group)

    def _without_groups(
        self, container: str, limits: ResourceLimits, whole: ResourceLimits
    ) -> LimitedContainer:
        warning = ""
        if unenforced := rlimits.unenforced(limits, whole):
            warning = (
                f"container {container}: {' and '.join(unenforced)}, because the node cannot "
                f"make control groups ({self.reason}); {ADVICE}"
            )
        return LimitedContainer(rlimits=rlimits.of(limits, whole), warning=warning)

    def _remove_if_empty(self, hierarchy: Hierarchy) -> None:
        for folder in hierarchy.folders(self._group):
            try:
                folder.rmdir()
            except OSError:
                # It has other pods, or is gone.
                return


def open_limits(state: Path, pod_max_pids: int = DEFAULT_POD_MAX_PIDS) -> ContainerLimits:
    """Return the limits of an agent, by what this process may do on this machine.

    Where a group is delegated to the process, it moves to a group below that one.
    """
    hierarchy, reason = _hierarchy()
    return ContainerLimits(state, hierarchy, reason, pod_max_pids)


@functools.cache
def _hierarchy() -> tuple[Hierarchy | None, str]:
    """Return the control groups of this process, once for all its agents, or why there are none."""
    mounted = mounts.read(mounts.MOUNTS.read_text("utf-8", "surrogateescape"))
    failures = []
    try:
        return cgroup_v2.find(mounted, _OWN_GROUPS.read_text("utf-8")), ""
    except LimitsUnusable as error:
        failures.append(str(error))
    try:
        return cgroup_v1.find(mounted), ""
    except LimitsUnusable as error:
        failures.append(str(error))
    return None, "; ".join(failures)


def _least(*limits: T | None) -> T | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _checked(name: str) -> str:
    """Return a name that is one part of a path. Raises ContainerConfigError for any other."""
    if not _NAME.fullmatch(name):
        raise ContainerConfigError(f"{name!r} cannot name a control group")
    return name
