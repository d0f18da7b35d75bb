"""How Python itself is set up for a process that keeps many objects for long."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

COLLECTION_THRESHOLDS = (20_000, 50, 100)


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Copies of objects live long and are no cycles: looking through them for garbage as often as
    Python does by itself costs an eighth of all processor time."""
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
