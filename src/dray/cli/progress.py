"""A sign of life on a terminal while something takes its time."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def shown(doing: str) -> Iterator[None]:
    """Show what is being done until the block is left; nothing where nobody looks."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{doing} …"):
        yield
