"""Tunes Python's garbage collector for a process with many long-lived objects."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

COLLECTION_THRESHOLDS = (20_000, 50, 100)


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage less often while the block runs.

    Cached objects live long and have no cycles. Python's own thresholds cost an eighth of all CPU
    time."""
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
