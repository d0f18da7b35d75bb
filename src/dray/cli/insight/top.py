"""`dray top`: devices by class and node, and what waits and why, live in the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from dray.allocator import device_counts
from dray.cli import printed_commands
from dray.cli.command_errors import DrayCommand, WrongUsage
from dray.cli.inputs import cluster_objects, published_devices
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.insight import cluster_overview, top_view, waiting_causes
from dray.cli.insight.top_view import TopView
from dray.cli.output import durations, formats, tables
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection
from dray.cli.session.connection import Session, Target
from dray.clock import utc_now

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

REST = 4
"""Pause between two refreshes, as a multiple of the time that reading takes."""
_KEYS = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\r": "enter",
    "\n": "enter",
    "\x1b": "escape",
    "\x7f": "backspace",
    "\b": "backspace",
}


@click.command("top", cls=DrayCommand)
@connection.options
@cluster_objects.option
@formats.option
@click.option("--once", is_flag=True, help="Print it once and end.")
@click.option(
    "--interval",
    default="2s",
    show_default=True,
    callback=durations.parse,
    metavar="DURATION",
    help="How often to look.",
)
def top(target: Target, against: str, format: OutputFormat, once: bool, interval: float) -> None:
    """Show devices by class and node, how many more pods fit, and what waits and why.

    On a terminal it is live until q or Ctrl-C: s sorts nodes by another column, / filters lines,
    the arrows select a line and Enter opens it.
    """
    if format.name == "name":
        raise WrongUsage("-o name: an overview has no names", "Use -o json, yaml or jsonpath=…")
    if not format.is_table:
        seen = cluster_overview.summarize(cluster_objects.load(against, target))
        formats.show_document(seen, format)
    elif once or against or not sys.stdout.isatty():
        seen = cluster_overview.summarize(cluster_objects.load(against, target))
        click.echo(top_view.text(seen, utc_now()))
    else:
        connection.run(target, lambda session: _live(session, interval))


async def _live(session: Session, interval: float) -> None:
    from rich.live import Live

    view, pressed = TopView(), asyncio.Queue[str]()
    with _keyboard(pressed), Live(auto_refresh=False, screen=True) as display:
        while True:
            started = time.monotonic()
            objects = await cluster_objects.from_cluster(session)
            seen = cluster_overview.summarize(objects)
            took = time.monotonic() - started
            until = time.monotonic() + max(interval, REST * took)
            while (left := until - time.monotonic()) > 0:
                _draw(display, view, seen, objects)
                try:
                    key = await asyncio.wait_for(pressed.get(), left)
                except TimeoutError:
                    break
                if not view.press(key):
                    return


def _draw(
    display: Live,
    view: TopView,
    seen: cluster_overview.Overview,
    objects: ClusterObjects,
) -> None:
    if view.opened is None:
        height = display.console.size.height
        display.update(view.rendered(seen, utc_now(), height), refresh=True)
    else:
        display.update(_opened(view.opened, objects), refresh=True)


def _opened(opened: tuple[str, str], objects: ClusterObjects) -> RenderableType:
    from rich.text import Text

    title = Text(f"{opened[0]} {opened[1]}   ← back  q quit\n\n", style="bold")
    return title + Text("\n".join(details(opened, objects)))


def details(opened: tuple[str, str], objects: ClusterObjects) -> list[str]:
    """Return what is known about one line: the devices of a node or class, why a pod waits."""
    kind, name = opened
    if kind in ("node", "class"):
        devices = published_devices.of(objects)
        if kind == "class":
            inventory = published_devices.inventory(objects)
            members = {found.id for found in device_counts.devices_of_class(inventory, name)}
            shown = [item for item in devices if (item.driver, item.pool, item.name) in members]
        else:
            shown = [item for item in devices if item.node == name]
        rows = [[item.label, item.model or "-", item.described_state] for item in shown]
        return tables.aligned(rows)
    lines = waiting_causes.lines(kind, name, objects)
    return [printed_commands.for_same_cluster(line) for line in lines]


@contextlib.contextmanager
def _keyboard(pressed: asyncio.Queue[str]) -> Iterator[None]:
    """Put every key that is pressed into a queue, without waiting for a whole line."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)

    def read() -> None:
        for key in keys_in(os.read(descriptor, 1024).decode("utf-8", "replace")):
            pressed.put_nowait(key)

    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def keys_in(text: str) -> Iterator[str]:
    """Yield the names of the keys that a terminal has sent."""
    while text:
        length = 3 if text[:3] in _KEYS else 1
        key, text = text[:length], text[length:]
        yield _KEYS.get(key, key)
