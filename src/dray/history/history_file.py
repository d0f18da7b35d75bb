"""The file of a history, as the recorder writes it."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["RETENTION", "HistoryFile", "HistoryUnusable"]

RETENTION: Final = datetime.timedelta(days=30)


class HistoryUnusable(Exception):
    """The file cannot be read or written; `advice` is what the user can do."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


class HistoryFile:
    """The open file, locked against other recorders. Used by one thread at a time."""

    @classmethod
    @contextlib.contextmanager
    def open(
        cls, path: Path, *, retention: datetime.timedelta = RETENTION
    ) -> Iterator[HistoryFile]:
        """Open or create the file with mode 0600, and close it at the end of the block.

        Raises HistoryUnusable for a file that is damaged, in use, of a newer version or not a
        history; such a file is left as it is.
        """
        yield cls()
