"""The mounts that this process sees, by their folders."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

MOUNTS: Final = Path("/proc/self/mountinfo")
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


class MountedFileSystem(NamedTuple):
    """One line of mountinfo."""

    target: Path
    type: str
    options: frozenset[str]
    """Of the file system; for control groups of version 1, they name the controllers."""


def read(text: str) -> list[MountedFileSystem]:
    """Parse mountinfo; a later mount at the same folder hides an earlier one."""
    found = {}
    for line in text.splitlines():
        place, _, file_system = line.partition(" - ")
        target = Path(_ESCAPED.sub(lambda code: chr(int(code[1], 8)), place.split()[4]))
        type_, _, options = file_system.split(" ", 2)
        found[target] = MountedFileSystem(target, type_, frozenset(options.split(",")))
    return list(found.values())
