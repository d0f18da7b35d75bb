"""The kernel's count of processes that it killed in a control group, for lack of memory.

Imports nothing but Python's own library, as the shim does.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Final

REASON: Final = "OOMKilled"
FILES: Final = ("memory.events", "memory.oom_control")
"""With the count in version 2 and in version 1."""
_COUNT: Final = "oom_kill "


def count(folders: Iterable[str]) -> int:
    """Return the number of kills in a container's groups; none where nothing counts them."""
    total = 0
    for folder in folders:
        for name in FILES:
            with (
                contextlib.suppress(FileNotFoundError),
                open(os.path.join(folder, name), encoding="ascii") as file,
            ):
                total += sum(int(line[len(_COUNT) :]) for line in file if line.startswith(_COUNT))
    return total
