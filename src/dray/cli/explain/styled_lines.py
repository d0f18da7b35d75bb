"""The lines of an explanation in colours, with commands that go to the same cluster."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator

import click

from dray.cli import printed_commands
from dray.explain.report import ReportText

_COMMAND = re.compile(r"(^ +|: )(dray [^`]*)$")
"""A command at the end of a line, or alone on it."""


def has_bars(*, is_wide: bool) -> bool:
    """Return whether charts are printed."""
    return is_wide or sys.stdout.isatty()


def styled(text: ReportText, options: str, *, is_live: bool = True) -> Iterator[str]:
    """Yield the lines; `options` choose the cluster, and without one commands are left out."""
    for line in text.verdict:
        yield _styled(line, options, is_live=is_live)
    yield from text.details


def echo(line: str) -> None:
    click.echo(line, color=False if os.environ.get("NO_COLOR") else None)


def _styled(line: str, options: str, *, is_live: bool) -> str:
    command = _COMMAND.search(line)
    if command and not is_live:
        line = f"{line[: command.start()]}." if command.start() else ""
    elif command:
        line = printed_commands.for_cluster(line, options)
    if not line:
        return ""
    if re.match(r" *(fix|or): ", line):
        return click.style(line, fg="green")
    if "✗" in line:
        return re.sub(r"✗ \w+", lambda match: click.style(match[0], fg="red"), line)
    return line if line.startswith(" ") else click.style(line, bold=True)
