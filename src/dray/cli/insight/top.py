"""`dray top`: devices by class and state, and pending claims and pods, live in the terminal."""

from __future__ import annotations

import asyncio
import datetime
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from dray.allocator.inventory.device_counts import STATES, DeviceCounts
from dray.api.formats.durations import since
from dray.api.semantics.conditions import find_condition
from dray.api.types.dra import DeviceClass, ResourceClaim
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.cli.command_errors import DrayCommand
from dray.cli.inputs import cluster_objects
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.output import durations, formats, tables
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection
from dray.cli.session.connection import Session, Target
from dray.clock import utc_now


class ClassLine(msgspec.Struct, frozen=True, rename="camel"):
    """The number of devices of one class, by state."""

    name: str
    devices: int
    states: dict[str, int]


class Waiting(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A pod without a node or a claim without devices, with its age and reason."""

    namespace: str
    name: str
    since: str = ""
    reason: str = ""


class Overview(msgspec.Struct, frozen=True, rename="camel"):
    source: str
    nodes: dict[str, int]
    classes: tuple[ClassLine, ...]
    claims: dict[str, int]
    waiting_claims: tuple[Waiting, ...]
    pods: dict[str, int]
    waiting_pods: tuple[Waiting, ...]


def summarize(objects: ClusterObjects) -> Overview:
    pods, claims = objects.of(Pod), objects.of(ResourceClaim)
    waiting = [claim for claim in claims if claim.status.allocation is None]
    allocated = len(claims) - len(waiting)
    return Overview(
        objects.source,
        Counter(map(_readiness, objects.of(Node))),
        tuple(_classes(objects)),
        {"allocated": allocated, "pending": len(waiting)} if claims else {},
        tuple(_waiting_claims(waiting, pods)),
        Counter((pod.status.phase or "Pending").lower() for pod in pods),
        tuple(_waiting_pods(pods)),
    )


def _readiness(node: Node) -> str:
    ready = find_condition(node.status.conditions, "Ready")
    if ready is None:
        return "unknown"
    return "ready" if ready.status == "True" else "not ready"


def _classes(objects: ClusterObjects) -> Iterator[ClassLine]:
    by_class: dict[str, dict[str, int]] = {}
    for group, count in DeviceCounts(objects.inventory()).counts().items():
        by_class.setdefault(group.class_name, {})[group.state] = count
    for name in sorted(device_class.metadata.name for device_class in objects.of(DeviceClass)):
        states = by_class.get(name, {})
        yield ClassLine(name, sum(states.values()), states)


def _waiting_claims(waiting: Sequence[ResourceClaim], pods: Sequence[Pod]) -> Iterator[Waiting]:
    users = {(pod.metadata.namespace, name): pod for pod in pods for name in _claim_names(pod)}
    for claim in waiting:
        user = users.get(claim.key)
        reason = "no pod uses it" if user is None else _reason(user)
        created = claim.metadata.creation_timestamp or ""
        yield Waiting(*claim.key, created, reason)


def _claim_names(pod: Pod) -> Iterator[str]:
    written = (source.resource_claim_name for source in pod.spec.resource_claims)
    made = (status.resource_claim_name for status in pod.status.resource_claim_statuses)
    return filter(None, (*written, *made))


def _waiting_pods(pods: Sequence[Pod]) -> Iterator[Waiting]:
    for pod in pods:
        if (pod.status.phase or "Pending") == "Pending":
            created = pod.metadata.creation_timestamp or ""
            yield Waiting(pod.metadata.namespace, pod.metadata.name, created, _reason(pod))


def _reason(pod: Pod) -> str:
    """Return the message of the last condition that is False, or ""."""
    messages = [
        condition.message or condition.reason
        for condition in pod.status.conditions
        if condition.status == "False"
    ]
    return next(filter(None, reversed(messages)), "")


if TYPE_CHECKING:
    from rich.console import RenderableType

BAR_WIDTH = 20
WAITING_SHOWN = 10
REST = 4
"""Pause between two refreshes, as a multiple of the time that reading takes."""
_COLOURS = {"free": "green", "allocated": "blue", "shared": "cyan", "tainted": "red"}


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
    """Show devices by class and state, and what waits and why, until Ctrl-C."""
    if not format.is_table:
        formats.show_document(summarize(cluster_objects.load(against, target)), format)
    elif once or against or not sys.stdout.isatty():
        click.echo(text(summarize(cluster_objects.load(against, target))))
    else:
        connection.run(target, lambda session: _live(session, interval))


def text(seen: Overview) -> str:
    """Return the overview as text for a file or a pipe."""
    now = utc_now()
    lines = [f"{seen.source}  {_counted('nodes', seen.nodes)}", "", *_class_lines(seen.classes)]
    for title, waiting in _waiting(seen):
        lines += ["", title, *tables.aligned(_rows(waiting, now))]
    return "\n".join(lines)


def _class_lines(classes: Sequence[ClassLine]) -> list[str]:
    header = ["CLASS", "DEVICES", *(state.upper() for state in STATES)]
    rows = [
        [line.name, str(line.devices), *(str(line.states.get(state, 0)) for state in STATES)]
        for line in classes
    ]
    return tables.aligned([header, *rows])


def _waiting(seen: Overview) -> Iterator[tuple[str, Sequence[Waiting]]]:
    yield _counted("claims", seen.claims), seen.waiting_claims
    yield _counted("pods", seen.pods), seen.waiting_pods


def _rows(waiting: Sequence[Waiting], now: datetime.datetime) -> Iterator[list[str]]:
    for item in waiting[:WAITING_SHOWN]:
        name = f"  {item.namespace}/{item.name}"
        yield [name, since(item.since, now), tables.cell_text(item.reason)]
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
            seen = summarize(await cluster_objects.from_cluster(session))
            display.update(_rendered(seen), refresh=True)
            took = time.monotonic() - started
            await asyncio.sleep(max(interval, REST * took))


def _rendered(seen: Overview) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    now = utc_now()
    head = Text(f"{seen.source}  {_counted('nodes', seen.nodes)}  {now:%H:%M:%S}Z", style="bold")
    classes = Table(box=None, pad_edge=False)
    for title in ("CLASS", "DEVICES", "", *(state.upper() for state in STATES)):
        classes.add_column(title, justify="right" if title in ("DEVICES",) else "left")
    for line in seen.classes:
        counts = [Text(str(line.states.get(state, 0)), style=_COLOURS[state]) for state in STATES]
        classes.add_row(line.name, str(line.devices), _bar(line), *counts)
    parts: list[RenderableType] = [head, Text(), classes]
    for title, waiting in _waiting(seen):
        listed = Table(box=None, pad_edge=False, show_header=False)
        for row in _rows(waiting, now):
            listed.add_row(*row)
        parts += [Text(), Text(title, style="bold"), listed]
    return Group(*parts)


def _bar(line: ClassLine) -> RenderableType:
    """Return a bar with the states of a class in proportion."""
    from rich.text import Text

    bar = Text()
    for state in reversed(STATES):
        share = line.states.get(state, 0) / (line.devices or 1)
        bar.append("█" * round(share * BAR_WIDTH), style=_COLOURS[state])
    return bar
