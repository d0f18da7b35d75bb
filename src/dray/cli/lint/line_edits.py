"""Edits lines of a manifest, which keeps its comments and its layout.

The edits work for YAML's block style. The caller checks the result of an edit, and writes the whole
object again if it is not the expected one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import yaml

from dray.cli.lint.source_documents import Document

INDENT = 2


class Edit(NamedTuple):
    """Replaces the lines from `start` up to `end`."""

    start: int
    end: int
    lines: tuple[str, ...]


def applied(lines: Sequence[str], edits: Sequence[Edit]) -> list[str]:
    """Return the lines after all edits. Of edits at one line, insertions must come first."""
    changed = list(lines)
    # From the end, so that the line numbers of the others stay right.
    for edit in sorted(edits, key=lambda edit: edit.start)[::-1]:
        changed[edit.start : edit.end] = edit.lines
    return changed


def version(document: Document, lines: Sequence[str], new: str) -> Iterator[Edit]:
    """Yield the edit of the apiVersion."""
    pair = child(document.node, "apiVersion")
    if pair is not None:
        start, end = pair[1].start_mark, pair[1].end_mark
        line = lines[start.line]
        changed = line[: start.column] + new + line[end.column :]
        yield Edit(start.line, start.line + 1, (changed,))


def exactly(document: Document, lines: Sequence[str], path: str) -> Iterator[Edit]:
    """Yield the edits that move all fields of a request but its name below `exactly`."""
    requests = node_at(document.node, path)
    for request in requests.value if isinstance(requests, yaml.SequenceNode) else ():
        if not isinstance(request, yaml.MappingNode) or len(request.value) < 2:
            continue
        keys = [key.value for key, _ in request.value]
        if keys[0] != "name" or {"exactly", "firstAvailable"}.intersection(keys):
            continue
        first = request.value[1][0].start_mark
        moved = lines[first.line : last_line(request) + 1]
        header = f"{' ' * first.column}exactly:\n"
        below = tuple(f"{' ' * INDENT}{line}" if line.strip() else line for line in moved)
        yield Edit(first.line, first.line + len(moved), (header, *below))


def node_at(node: yaml.Node | None, path: str) -> yaml.Node | None:
    """Return the node at a path such as `spec.containers[0].resources`, or None."""
    for step in path.replace("[", ".").replace("]", "").split("."):
        if isinstance(node, yaml.SequenceNode) and step.isdecimal():
            node = node.value[int(step)] if int(step) < len(node.value) else None
        else:
            pair = child(node, step)
            node = pair[1] if pair else None
    return node


def child(node: yaml.Node | None, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.value == name:
            return key, value
    return None


def last_line(node: yaml.Node) -> int:
    """Return the last line of a node, without comments that follow it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return last_line(last[1] if isinstance(last, tuple) else last)
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        # Its end is the beginning of what follows.
        return int(node.end_mark.line) - 1
    return int(node.end_mark.line)
