"""The process under measurement: its memory, and its garbage collector."""

from __future__ import annotations

import contextlib
import gc
import resource
from collections.abc import Iterator
from pathlib import Path

_STATM = Path("/proc/self/statm")


def memory_bytes() -> int:
    """Return the memory of the process, after everything that can be freed is."""
    gc.collect()
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextlib.contextmanager
def settled() -> Iterator[None]:
    """Freeze existing objects, as a server does after its start, so that they are not collected."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
