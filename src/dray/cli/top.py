"""`dray top`: a cluster at a glance, live in the terminal."""

from __future__ import annotations

import asyncio
import datetime
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from dray.apiserver.printing import cells
from dray.cli import connection, overview, world
from dray.cli.connection import Session, Target
from dray.cli.failures import Command
from dray.cli.overview import ClassLine, Overview, Waiting
from dray.cli.printing import durations, output, tables
from dray.cli.printing.output import Format

if TYPE_CHECKING:
    from rich.console import RenderableType

BAR_WIDTH = 20
WAITING_SHOWN = 10
REST = 4
"""Of a large cluster, reading takes at most one part in so many of the time."""
_COLOURS = {"free": "green", "allocated": "blue", "shared": "cyan", "tainted": "red"}


@click.command("top", cls=Command)
@connection.options
@world.option
@output.option
@click.option("--once", is_flag=True, help="Print it once and end.")
@click.option(
    "--interval",
    default="2s",
    show_default=True,
    callback=durations.parse,
    metavar="DURATION",
    help="How often to look.",
)
def top(target: Target, against: str, format: Format, once: bool, interval: float) -> None:
    """Show devices by class and state, and what waits and why, until Ctrl-C."""
    if not format.is_table:
        output.show_document(overview.take(world.load(against, target)), format)
    elif once or against or not sys.stdout.isatty():
        click.echo(text(overview.take(world.load(against, target))))
    else:
        connection.run(target, lambda session: _live(session, interval))


def text(seen: Overview) -> str:
    """The overview for a file or a pipe."""
    now = datetime.datetime.now(datetime.UTC)
    lines = [f"{seen.source}  {_counted('nodes', seen.nodes)}", "", *_class_lines(seen.classes)]
    for title, waiting in _waiting(seen):
        lines += ["", title, *tables.aligned(_rows(waiting, now))]
    return "\n".join(lines)


def _class_lines(classes: Sequence[ClassLine]) -> list[str]:
    header = ["CLASS", "DEVICES", *(state.upper() for state in overview.STATES)]
    rows = [
        [each.name, str(each.devices), *(str(each.states.get(s, 0)) for s in overview.STATES)]
        for each in classes
    ]
    return tables.aligned([header, *rows])


def _waiting(seen: Overview) -> Iterator[tuple[str, Sequence[Waiting]]]:
    yield _counted("claims", seen.claims), seen.waiting_claims
    yield _counted("pods", seen.pods), seen.waiting_pods


def _rows(waiting: Sequence[Waiting], now: datetime.datetime) -> Iterator[list[str]]:
    for each in waiting[:WAITING_SHOWN]:
        name = f"  {each.namespace}/{each.name}"
        yield [name, cells.since(each.since, now), tables.cell_text(each.reason)]
    if len(waiting) > WAITING_SHOWN:
        yield [f"  and {len(waiting) - WAITING_SHOWN} more", "", ""]


def _counted(noun: str, counts: Mapping[str, int]) -> str:
    parts = ", ".join(f"{number} {word}" for word, number in sorted(counts.items()))
    return f"{noun}: {parts or 'none'}"


async def _live(session: Session, interval: float) -> None:
    from rich.live import Live

    with Live(auto_refresh=False, screen=True) as display:
        while True:
            started = time.monotonic()
            seen = overview.take(await world.from_cluster(session))
            display.update(_picture(seen), refresh=True)
            took = time.monotonic() - started
            await asyncio.sleep(max(interval, REST * took))


def _picture(seen: Overview) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    now = datetime.datetime.now(datetime.UTC)
    head = Text(f"{seen.source}  {_counted('nodes', seen.nodes)}  {now:%H:%M:%S}Z", style="bold")
    classes = Table(box=None, pad_edge=False)
    for title in ("CLASS", "DEVICES", "", *(state.upper() for state in overview.STATES)):
        classes.add_column(title, justify="right" if title in ("DEVICES",) else "left")
    for line in seen.classes:
        counts = [
            Text(str(line.states.get(state, 0)), style=_COLOURS[state]) for state in overview.STATES
        ]
        classes.add_row(line.name, str(line.devices), _bar(line), *counts)
    parts: list[RenderableType] = [head, Text(), classes]
    for title, waiting in _waiting(seen):
        listed = Table(box=None, pad_edge=False, show_header=False)
        for row in _rows(waiting, now):
            listed.add_row(*row)
        parts += [Text(), Text(title, style="bold"), listed]
    return Group(*parts)


def _bar(line: ClassLine) -> RenderableType:
    """The states of a class side by side, each as long as its share."""
    from rich.text import Text

    bar = Text()
    for state in reversed(overview.STATES):
        share = line.states.get(state, 0) / (line.devices or 1)
        bar.append("█" * round(share * BAR_WIDTH), style=_COLOURS[state])
    return bar
