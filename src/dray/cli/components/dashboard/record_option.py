"""`--record`: the file in which the history of devices is recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dray.cli.command_errors import CommandError

if TYPE_CHECKING:
    from dray.history.history_file import HistoryFile

NONE = "none"
FILE = "history.db"


@contextlib.contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Say what is wrong with a file in the words of the command."""
    from dray.history.file_format import HistoryUnusable

    try:
        yield
    except HistoryUnusable as error:
        raise CommandError(f"--record {path}: {error}", error.advice) from error


def opened(stack: contextlib.ExitStack | contextlib.AsyncExitStack, path: Path) -> HistoryFile:
    """Return the file, which is closed with the stack. Raises CommandError."""
    # Not every command records.
    from dray.history.history_file import HistoryFile

    with _refusing(path):
        return stack.enter_context(HistoryFile.open(path))
