"""This process while it is measured: its memory, and the garbage collector out of the way."""

from __future__ import annotations

import contextlib
import gc
import resource
from collections.abc import Iterator
from pathlib import Path

_STATM = Path("/proc/self/statm")


def memory_bytes() -> int:
    """What the process occupies now, after everything that can be freed is."""
    gc.collect()
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextlib.contextmanager
def settled() -> Iterator[None]:
    """As a server after its start: what is there stays, and is not looked through for garbage."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
