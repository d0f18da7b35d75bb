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
    """Lines with their cells one below the other; the last cell of a line is not padded."""
    known = [list(row) for row in rows]
    widths = [
        max(min_width, padding + max(len(row[column]) for row in known if len(row) > column))
        for column in range(max(map(len, known), default=0))
    ]
    return [_line(row, widths) for row in known]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
    return "".join([*padded, *row[-1:]])


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
