"""The users of the host that stand for the users of a pod.

An agent that is root maps them to ids that have no rights on the host: the range that
/etc/subuid and /etc/subgid have for the user `dray`, else one id. A pod never chooses it. An
ordinary user can map its own id alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.node.runtimes.interface import ContainerConfigError, SecurityProfile

OWNER: Final = "dray"
DEFAULT_HOST_ID: Final = 1_879_100_000
"""In a range that no system hands out to users, nor to other containers."""
MIN_HOST_ID: Final = 1000
MAX_HOST_ID: Final = 2**32 - 2
IDS_PER_POD: Final = 65536

Ranges = list[tuple[int, int, int]]


@dataclass(frozen=True)
class UserMapping:
    """Ranges of ids: the first inside, the first on the host, their number."""

    uids: Ranges
    gids: Ranges
    sets_groups: bool
    """Whether processes inside may have supplementary groups."""

    @property
    def host_owner(self) -> tuple[int, int]:
        """The user and group of the host that stand for root inside."""
        return self.uids[0][1], self.gids[0][1]

    def check(self, security: SecurityProfile) -> None:
        """Raise ContainerConfigError for a user or group that is not mapped."""
        groups = (security.gid, *security.groups)
        if _covers(self.uids, security.uid) and all(_covers(self.gids, gid) for gid in groups):
            if self.sets_groups or not security.groups:
                return
            raise ContainerConfigError(
                "supplementary groups need a node agent that runs as root, not as an ordinary user"
            )
        raise ContainerConfigError(
            f"user {security.uid} with the groups {', '.join(str(gid) for gid in groups)} has no "
            f"user on the node: run the node agent as root and add {OWNER}:100000:{IDS_PER_POD} to "
            "/etc/subuid and /etc/subgid, or run the container as user and group 0"
        )


HOST: Final = UserMapping([(0, 0, MAX_HOST_ID)], [(0, 0, MAX_HOST_ID)], sets_groups=True)
"""The users of the host, for pods with a privileged container; only root can map them."""


def mapping(host_user_id: int | None = None, *, etc: Path = Path("/etc")) -> UserMapping:
    """Return the mapping of a pod; `host_user_id` is what an admin has set for its namespace.

    Raises ContainerConfigError for an id that users of the host may have rights with.
    """
    if os.geteuid() != 0:
        return UserMapping([(0, os.geteuid(), 1)], [(0, os.getegid(), 1)], sets_groups=False)
    uids, gids = _subordinate(etc / "subuid"), _subordinate(etc / "subgid")
    if uids and gids:
        return UserMapping(uids, gids, sets_groups=True)
    chosen = DEFAULT_HOST_ID if host_user_id is None else host_user_id
    if not MIN_HOST_ID <= chosen <= MAX_HOST_ID:
        raise ContainerConfigError(
            f"host user id {chosen} of the namespace: must be from {MIN_HOST_ID} to {MAX_HOST_ID}"
        )
    return UserMapping([(0, chosen, 1)], [(0, chosen, 1)], sets_groups=True)


def _subordinate(file: Path) -> Ranges:
    """Return the first usable range of the owner in a file as subuid(5) describes."""
    try:
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    for line in lines:
        name, _, numbers = line.partition(":")
        first, _, count = numbers.partition(":")
        if name != OWNER or not first.isdecimal() or not count.isdecimal():
            continue
        if int(first) >= MIN_HOST_ID and int(count) > 0 and int(first) + int(count) <= MAX_HOST_ID:
            return [(0, int(first), min(int(count), IDS_PER_POD))]
    return []


def _covers(ranges: Ranges, number: int) -> bool:
    return any(first <= number < first + count for first, _, count in ranges)
