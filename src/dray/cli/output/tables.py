"""Aligns columns of text as kubectl does, and prints the Tables of API servers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import click

MIN_WIDTH = 6
PADDING = 3
"""The values of kubectl: k8s.io/cli-runtime, printers/tabwriter.go."""

Row = Sequence[str]


class TableOptions(NamedTuple):
    """Parts to show of a Table besides its own columns."""

    wide: bool = False
    headers: bool = True
    namespace: bool = False
    kind: str = ""
    """Prefix of names if several kinds are listed."""
    labels: bool = False
    label_columns: tuple[str, ...] = ()
    event: str | None = None
    """Type of a change, for its own column; "" if only the header has one."""


def aligned(rows: Iterable[Row], min_width: int = MIN_WIDTH, padding: int = PADDING) -> list[str]:
    """Return lines with aligned cells, as Go's text/tabwriter does.

    A column is as wide as its adjacent lines need; the last cell of a line belongs to no column
    and is not padded.
    """
    lines = [list(row) for row in rows]
    padded: list[list[str]] = [[] for _ in lines]
    for column in range(max(map(len, lines), default=1) - 1):
        for start, end in _stretches(lines, column):
            longest = max(_width(row[column]) for row in lines[start:end])
            width = max(min_width, longest + padding)
            for number in range(start, end):
                cell = lines[number][column]
                padded[number].append(cell + " " * (width - _width(cell)))
    return ["".join([*cells, *row[-1:]]) for cells, row in zip(padded, lines, strict=True)]


def _width(cell: str) -> int:
    """Return the number of characters that a terminal shows, without those that set colours."""
    return len(click.unstyle(cell)) if "\x1b" in cell else len(cell)


def right_aligned(rows: Iterable[Row], columns: Iterable[int]) -> list[list[str]]:
    """Return the rows with the cells of some columns moved to the right, as numbers are read."""
    lines = [list(row) for row in rows]
    for column in columns:
        width = max((len(row[column]) for row in lines), default=0)
        for row in lines:
            row[column] = row[column].rjust(width)
    return lines


def _stretches(rows: Sequence[Row], column: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of lines for which `column` is not the last one."""
    start = None
    for number, row in enumerate([*rows, ()]):
        has_it = len(row) > column + 1
        if has_it and start is None:
            start = number
        elif not has_it and start is not None:
            yield start, number
            start = None


def show(rows: Sequence[Row], *, has_header: bool) -> None:
    """Print rows, with a highlighted header on a terminal."""
    for number, line in enumerate(aligned(rows)):
        click.secho(line, bold=True) if has_header and number == 0 else click.echo(line)


def rows(table: dict[str, Any], options: TableOptions) -> list[Row]:
    """Return the rows of a server's Table as text, with the header if requested."""
    definitions = table.get("columnDefinitions") or ()
    shown = [
        number
        for number, definition in enumerate(definitions)
        if options.wide or not definition["priority"]
    ]
    header = [definitions[number]["name"].upper() for number in shown]
    before = ["EVENT"] * (options.event is not None) + ["NAMESPACE"] * options.namespace
    behind = [key.rpartition("/")[2].upper() for key in options.label_columns]
    behind += ["LABELS"] * options.labels
    result: list[Row] = [[*before, *header, *behind]] if options.headers else []
    for row in table.get("rows") or ():
        cells = [cell_text(row["cells"][number]) for number in shown]
        result.append(list(_with_metadata(cells, row.get("object") or {}, options)))
    return result


def _with_metadata(
    cells: list[str], described: dict[str, Any], options: TableOptions
) -> Iterator[str]:
    metadata = described.get("metadata") or {}
    if options.event is not None:
        yield options.event
    if options.namespace:
        yield metadata.get("namespace", "")
    if options.kind and cells:
        cells = [f"{options.kind}/{cells[0]}", *cells[1:]]
    yield from cells
    labels = metadata.get("labels") or {}
    yield from (labels.get(key, "") for key in options.label_columns)
    if options.labels:
        yield labels_text(metadata.get("labels"))


def labels_text(labels: dict[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


def cell_text(value: Any) -> str:
    """Return the first line of a value's text."""
    if value is None:
        return "<none>"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    first = re.split(r"[\f\n\r]", text, maxsplit=1)[0]
    return text if first == text else f"{first}..."
