"""The options of what records a history: its file, and how long that keeps what it has."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from dray.cli.command_errors import CommandError
from dray.cli.session.up_instance import HISTORY
from dray.history.history_file import HistoryFile, HistoryUnusable

NONE: Final = "none"
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

file_option = click.option(
    "--record",
    default="",
    show_default=f"{HISTORY} in the data directory",
    metavar="FILE|none",
    help="Record who holds which device, for `dray history`.",
)


def retention_option(
    parse: Callable[[click.Context, click.Parameter, str], float],
) -> Callable[[Decorated], Decorated]:
    """Return the option for how long a record reaches back, given what parses durations."""
    return click.option(
        "--record-retention",
        default="30d",
        show_default=True,
        callback=parse,
        metavar="DURATION",
        help="How long the record reaches back.",
    )


def chosen(text: str, directory: Path) -> Path | None:
    """Return the file of the option, or None if nothing is to be recorded."""
    if text == NONE:
        return None
    return Path(text).expanduser() if text else directory / HISTORY


@contextlib.contextmanager
def opened(path: Path, retention_seconds: float) -> Iterator[HistoryFile]:
    """Open a file to record in. Raises CommandError where that is not possible."""
    retention = datetime.timedelta(seconds=retention_seconds)
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(HistoryFile.open(path, retention=retention))
        except HistoryUnusable as error:
            raise CommandError(str(error), error.advice) from error
        yield file
