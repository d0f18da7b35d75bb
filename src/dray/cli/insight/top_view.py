"""The tables of `dray top`: as text, and on a terminal with a selected line, order and filter."""

from __future__ import annotations

import datetime
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dray.allocator.device_states import DeviceState
from dray.api.formats.durations import since
from dray.cli.insight.cluster_overview import (
    ClassTotals,
    DeviceTotals,
    NodeTotals,
    Overview,
    WaitingObject,
)
from dray.cli.output import colours, counts, tables

if TYPE_CHECKING:
    from rich.console import RenderableType

STATES = tuple(str(state) for state in DeviceState if state is not DeviceState.MISSING)
SHOWN = 10
"""Lines of a table that is printed once; a terminal shows as many as it has room for."""
CAUSE_CHARACTERS = 160
NO_NODE = "(no node)"
SORTS = ("name", *STATES, "tainted", "unhealthy")
HELP = "s sort  / filter  ↑↓ select  ⏎ open  ← back  q quit"


class Section(NamedTuple):
    """One table: its kind, title, header, numeric columns, and rows with their keys."""

    kind: str
    title: str
    header: Sequence[str]
    numbers: Sequence[int]
    rows: Sequence[tuple[str, Sequence[str]]]


def headline(seen: Overview) -> str:
    """Return one line about the whole cluster."""
    parts = [
        _nodes_in_words(seen),
        counts.counted(seen.devices, "device"),
    ]
    if seen.partitions:
        parts.append(counts.counted(seen.partitions, "partition"))
    parts.append(counts.counted(seen.pods, "pod"))
    return f"{seen.source}: {'; '.join(parts)}"


def _nodes_in_words(seen: Overview) -> str:
    # Nodes of a fleet or a file that nothing runs have no conditions.
    if set(seen.nodes) == {"unknown"}:
        return counts.number_of(seen.nodes["unknown"], "node")
    return counts.counted(seen.nodes, "node")


def limits(seen: Overview) -> str:
    """Return what could not be read, in one line; "" if everything was."""
    return f"Could not be read: {', '.join(seen.unread)}" if seen.unread else ""


def sections(
    seen: Overview, now: datetime.datetime, sort: str = "name", search: str = ""
) -> list[Section]:
    """Return the tables with the rows that contain `search`."""
    built = [_classes(seen), _nodes(seen, sort), _pods(seen, now)]
    if seen.waiting_claims:
        built.append(_claims(seen, now))
    return [
        section._replace(rows=[row for row in section.rows if search in " ".join(row[1])])
        for section in built
    ]


def _classes(seen: Overview) -> Section:
    header = ("CLASS", "DEVICES", *map(str.upper, STATES), "TAINTED", "UNHEALTHY", "MORE PODS FIT")
    rows = [(line.name, [*_cells(line), _fit(line)]) for line in seen.classes]
    return Section("class", "", header, range(1, len(header)), rows)


def _fit(line: ClassTotals) -> str:
    if line.more_pods_fit is None:
        return "-"
    return f"{line.more_pods_fit}{'' if line.is_fit_complete else '+'}"


def _nodes(seen: Overview, sort: str) -> Section:
    header = ("NODE", "DEVICES", *map(str.upper, STATES), "TAINTED", "UNHEALTHY", "PARTITIONS", "")
    lines = (
        sorted(seen.by_node, key=lambda line: -_amount(line, sort))
        if sort != "name"
        else (seen.by_node)
    )
    rows = [
        (
            line.name,
            [*_cells(line), _partitions(line), "not ready" if line.ready == "not ready" else ""],
        )
        for line in lines
    ]
    return Section("node", "", header, range(1, len(header) - 2), rows)


def _amount(line: DeviceTotals, sort: str) -> int:
    beside = {"tainted": line.tainted, "unhealthy": line.unhealthy}
    return beside.get(sort, line.states.get(sort, 0))


def _cells(line: DeviceTotals) -> list[str]:
    states = [line.states.get(state, 0) for state in STATES]
    numbers = [line.devices, *states, line.tainted, line.unhealthy]
    return [line.name or NO_NODE, *map(str, numbers)]


def _partitions(line: NodeTotals) -> str:
    return ", ".join(f"{number} {state}" for state, number in line.partitions.items()) or "-"


def _pods(seen: Overview, now: datetime.datetime) -> Section:
    waiting = len(seen.waiting_pods)
    title = (
        f"{waiting} {'pod waits' if waiting == 1 else 'pods wait'}" if waiting else "No pod waits"
    )
    rows = [(_name(item), _waiting_row(item, now)) for item in seen.waiting_pods]
    return Section("pod", title, ("POD", "AGE", "CAUSE"), (), rows)


def _claims(seen: Overview, now: datetime.datetime) -> Section:
    waiting = len(seen.waiting_claims)
    title = f"{waiting} {'claim waits' if waiting == 1 else 'claims wait'} for a pod"
    rows = [(_name(item), _waiting_row(item, now)) for item in seen.waiting_claims]
    return Section("claim", title, ("CLAIM", "AGE", "CAUSE"), (), rows)


def _name(item: WaitingObject) -> str:
    return f"{item.namespace}/{item.name}"


def _waiting_row(item: WaitingObject, now: datetime.datetime) -> list[str]:
    cause = textwrap.shorten(item.reason, CAUSE_CHARACTERS, placeholder=" …") or "-"
    return [_name(item), since(item.since, now), cause]


def text(seen: Overview, now: datetime.datetime) -> str:
    """Return the overview as text for a file or a pipe."""
    lines = [headline(seen)]
    if seen.unread:
        lines.append(limits(seen))
    for section in sections(seen, now):
        lines += ["", section.title] if section.title else [""]
        lines += _section_lines(section)
    return "\n".join(lines)


def _section_lines(section: Section) -> Iterator[str]:
    if not section.rows:
        return
    shown = section.rows[: SHOWN if section.kind != "class" else None]
    rows = [section.header, *(cells for _, cells in shown)]
    numbers = set(section.numbers)
    for row in tables.aligned(
        [colours.number(cell) if column in numbers else cell for column, cell in enumerate(cells)]
        for cells in tables.right_aligned(rows, section.numbers)
    ):
        yield row.rstrip()
    if hidden := len(section.rows) - len(shown):
        yield f"and {hidden} more"


@dataclass(slots=True)
class TopView:
    """The choices that the user of a live `dray top` has made with keys."""

    sort: str = SORTS[0]
    search: str = ""
    is_typing: bool = False
    """Whether keys are part of the filter."""
    selected: int = 0
    opened: tuple[str, str] | None = None
    """The kind and name of the line whose details are shown."""
    keys: list[tuple[str, str]] = field(default_factory=list)
    """The lines that can be selected, as they were shown last."""

    def press(self, key: str) -> bool:
        """Follow a key. Returns False if it ends the program."""
        if self.is_typing:
            self._type(key)
        elif key in ("q", "\x03", "\x04"):
            return False
        elif key == "s":
            self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        elif key == "/":
            self.is_typing, self.search = True, ""
        elif key in ("down", "j"):
            self.selected = min(self.selected + 1, max(len(self.keys) - 1, 0))
        elif key in ("up", "k"):
            self.selected = max(self.selected - 1, 0)
        elif key in ("enter", "right", "l") and self.keys:
            self.opened = self.keys[min(self.selected, len(self.keys) - 1)]
        elif key in ("left", "escape", "h"):
            self.search = self.search if self.opened else ""
            self.opened = None
        return True

    def _type(self, key: str) -> None:
        if key in ("enter", "escape"):
            self.is_typing = False
            self.search = self.search if key == "enter" else ""
        elif key == "backspace":
            self.search = self.search[:-1]
        elif len(key) == 1 and key.isprintable():
            self.search += key
        self.selected = 0

    def rendered(self, seen: Overview, now: datetime.datetime, height: int) -> RenderableType:
        """Return the tables for a terminal of this height."""
        from rich.console import Group
        from rich.text import Text

        parts: list[RenderableType] = [Text(f"{headline(seen)}  {now:%H:%M:%S}Z", style="bold")]
        if seen.unread:
            parts.append(Text(limits(seen), style=colours.WARNING))
        shown = sections(seen, now, self.sort, self.search)
        self.keys = [(section.kind, key) for section in shown for key, _ in section.rows]
        self.selected = min(self.selected, max(len(self.keys) - 1, 0))
        first = 0
        for section in shown:
            room = max((height - 12) // len(shown), 3)
            parts += [Text(section.title, style="bold"), self._table(section, first, room)]
            first += len(section.rows)
        search = (
            f"filter: {self.search}{'▏' if self.is_typing else ''}  "
            if (self.search or self.is_typing)
            else ""
        )
        parts.append(Text(f"{search}sorted by {self.sort}  {HELP}", style="dim"))
        return Group(*parts)

    def _table(self, section: Section, first: int, room: int) -> RenderableType:
        """Return one table, with the rows around the selected one if there are too many."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False)
        for column, title in enumerate(section.header):
            is_number = column in section.numbers
            table.add_column(title, justify="right" if is_number else "left", no_wrap=True)
        start = min(max(self.selected - first - room // 2, 0), max(len(section.rows) - room, 0))
        for number, (_, cells) in enumerate(section.rows[start : start + room], start):
            style = "reverse" if first + number == self.selected else ""
            table.add_row(
                *(
                    Text(cell, style=_style(section.header[column], cell))
                    for column, cell in enumerate(cells)
                ),
                style=style,
            )
        return table


def _style(title: str, cell: str) -> str:
    if cell == "0":
        return "bright_black"
    if title in ("TAINTED", "UNHEALTHY"):
        return "red"
    return colours.STATES.get(title.lower(), "")
