"""`-o custom-columns`: a table whose columns are JSONPath expressions, as in kubectl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dray.cli.command_errors import WrongUsage
from dray.cli.output import jsonpath, tables
from dray.cli.output.jsonpath import Template

NONE = "<none>"


def spec_of_file(text: str) -> str:
    """Return the specification in a file: a line of headers, and a line of paths below it."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(lines) != 2 or len(lines[0]) != len(lines[1]):
        raise WrongUsage("custom-columns-file: expected a line of headers and a line of paths")
    return ",".join(f"{header}:{path}" for header, path in zip(*lines, strict=True))


def parse(spec: str) -> list[tuple[str, Template]]:
    """Return header and path of each column. Raises WrongUsage."""
    columns = []
    for part in spec.split(","):
        header, colon, path = part.partition(":")
        if not colon or not path:
            raise WrongUsage(
                f"custom-columns: expected <header>:<json-path-expr>, got {part}",
                "For example: -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName",
            )
        columns.append((header, jsonpath.relaxed(path)))
    return columns


def rendered(document: Any, spec: str, *, headers: bool = True) -> str:
    """Return a table with a row for the object, or for each item of a List."""
    columns = parse(spec)
    items: Sequence[Any] = [document]
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        items = document["items"]
    rows = [[_cell(template, item) for _, template in columns] for item in items]
    if headers:
        rows.insert(0, [header for header, _ in columns])
    return "".join(f"{line}\n" for line in tables.aligned(rows))


def _cell(template: Template, item: Any) -> str:
    return ",".join(map(_text, template.find(item))) or NONE


def _text(value: Any) -> str:
    """Return a value as Go prints it."""
    if value is None:
        return NONE
    if isinstance(value, Mapping):
        pairs = (f"{key}:{_text(item)}" for key, item in sorted(value.items()))
        return f"map[{' '.join(pairs)}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_text, value))}]"
    return jsonpath.text_of(value)
