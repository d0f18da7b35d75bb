"""Columns of text as kubectl prints them, and the Tables that API servers send."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import click

MIN_WIDTH = 6
PADDING = 3
"""Of kubectl's tables: k8s.io/cli-runtime, printers/tabwriter.go."""

Row = Sequence[str]


class TableOptions(NamedTuple):
    """What to show of a Table besides its own columns."""

    wide: bool = False
    headers: bool = True
    namespace: bool = False
    kind: str = ""
    """Written before names where several kinds are listed."""
    labels: bool = False


def aligned(rows: Iterable[Row], min_width: int = MIN_WIDTH, padding: int = PADDING) -> list[str]:
    """Lines with their cells one below the other, as Go's text/tabwriter sets them.

    A column is as wide as needed by the lines next to each other that have it; the last cell of a
    line belongs to no column and is not padded.
    """
    known = [list(row) for row in rows]
    padded: list[list[str]] = [[] for _ in known]
    for column in range(max(map(len, known), default=1) - 1):
        for start, end in _stretches(known, column):
            longest = max(len(row[column]) for row in known[start:end])
            width = max(min_width, longest + padding)
            for number in range(start, end):
                padded[number].append(known[number][column].ljust(width))
    return ["".join([*cells, *row[-1:]]) for cells, row in zip(padded, known, strict=True)]


def _stretches(rows: Sequence[Row], column: int) -> Iterator[tuple[int, int]]:
    """The runs of lines for which `column` is not the last one."""
    start = None
    for number, row in enumerate([*rows, ()]):
        has_it = len(row) > column + 1
        if has_it and start is None:
            start = number
        elif not has_it and start is not None:
            yield start, number
            start = None


def show(rows: Sequence[Row], *, has_header: bool) -> None:
    """Print rows; the header stands out on a terminal."""
    for number, line in enumerate(aligned(rows)):
        click.secho(line, bold=True) if has_header and number == 0 else click.echo(line)


def rows(table: dict[str, Any], options: TableOptions) -> list[Row]:
    """The rows of a server's Table as text, the header first if it is wanted."""
    definitions = table.get("columnDefinitions") or ()
    shown = [
        number for number, each in enumerate(definitions) if options.wide or not each["priority"]
    ]
    header = [definitions[number]["name"].upper() for number in shown]
    before, behind = ["NAMESPACE"] * options.namespace, ["LABELS"] * options.labels
    found: list[Row] = [[*before, *header, *behind]] if options.headers else []
    for row in table.get("rows") or ():
        cells = [cell_text(row["cells"][number]) for number in shown]
        found.append(list(_with_metadata(cells, row.get("object") or {}, options)))
    return found


def _with_metadata(
    cells: list[str], described: dict[str, Any], options: TableOptions
) -> Iterator[str]:
    metadata = described.get("metadata") or {}
    if options.namespace:
        yield metadata.get("namespace", "")
    if options.kind and cells:
        cells = [f"{options.kind}/{cells[0]}", *cells[1:]]
    yield from cells
    if options.labels:
        yield labels_text(metadata.get("labels"))


def labels_text(labels: dict[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


def cell_text(value: Any) -> str:
    """One line: what follows a line break is left out."""
    if value is None:
        return "<none>"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    first = re.split(r"[\f\n\r]", text, maxsplit=1)[0]
    return text if first == text else f"{first}..."
