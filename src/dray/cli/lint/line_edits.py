"""Changes to the lines of a manifest, which keep its comments and its layout.

They understand the block style that people write. Whoever makes an edit checks what came of it, and
writes the object anew where that is not what was meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import yaml

from dray.cli.lint import pod_specs
from dray.cli.lint.extended_resources import Use
from dray.cli.lint.source_documents import Document

INDENT = 2


class Edit(NamedTuple):
    """Lines from `start` up to `end` become other lines."""

    start: int
    end: int
    lines: tuple[str, ...]


def applied(lines: Sequence[str], edits: Sequence[Edit]) -> list[str]:
    """The lines after all edits; what is put in where something is taken out must come first."""
    changed = list(lines)
    numbered = enumerate(edits)
    for _, edit in sorted(numbered, key=lambda each: (each[1].start, each[0]), reverse=True):
        changed[edit.start : edit.end] = edit.lines
    return changed


def version(document: Document, lines: Sequence[str], new: str) -> Iterator[Edit]:
    """Another apiVersion."""
    found = child(document.node, "apiVersion")
    if found is not None:
        start, end = found[1].start_mark, found[1].end_mark
        line = lines[start.line]
        changed = line[: start.column] + new + line[end.column :]
        yield Edit(start.line, start.line + 1, (changed,))


def exactly(document: Document, lines: Sequence[str], path: str) -> Iterator[Edit]:
    """Requests as v1 has them: all but the name one level down, below `exactly`."""
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


def claims(document: Document, uses: Sequence[Use], names: Sequence[str]) -> Iterator[Edit]:
    """Containers that ask for claims by name instead of extended resources."""
    path = pod_specs.POD_SPECS[document.kind]
    for use, name in zip(uses, names, strict=True):
        where = f"{path}.{use.path}.resources"
        yield from _prepended(document, where, "claims", [f"- name: {name}"])
        yield from _without(document, where, use.resource)


def resource_claims(document: Document, added: Sequence[tuple[str, str]]) -> Iterator[Edit]:
    """The claims of a pod, each from its template."""
    path = pod_specs.POD_SPECS[document.kind]
    entries = [
        line
        for name, template in added
        for line in (f"- name: {name}", f"  resourceClaimTemplateName: {template}")
    ]
    yield from _prepended(document, path, "resourceClaims", entries)


def _without(document: Document, path: str, resource: str) -> Iterator[Edit]:
    """Take a resource out of limits and requests, and those that become empty out altogether."""
    resources = node_at(document.node, path)
    for field in ("limits", "requests"):
        found = child(resources, field)
        amounts = found[1] if found else None
        if found is None or not isinstance(amounts, yaml.MappingNode):
            continue
        keys = [key.value for key, _ in amounts.value]
        if resource not in keys:
            continue
        if len(keys) == 1:
            yield Edit(found[0].start_mark.line, last_line(amounts) + 1, ())
        else:
            key, value = amounts.value[keys.index(resource)]
            yield Edit(key.start_mark.line, last_line(value) + 1, ())


def _prepended(document: Document, path: str, field: str, entries: Sequence[str]) -> Iterator[Edit]:
    """Put items at the head of a list, which is made where there is none."""
    parent = node_at(document.node, path)
    known = child(parent, field)
    if known is not None and isinstance(known[1], yaml.SequenceNode) and known[1].value:
        parent, new = known[1], list(entries)
    else:
        new = [f"{field}:", *entries]
    if parent is not None:
        mark = parent.start_mark
        yield Edit(mark.line, mark.line, tuple(f"{' ' * mark.column}{each}\n" for each in new))


def node_at(node: yaml.Node | None, path: str) -> yaml.Node | None:
    """What a path such as `spec.containers[0].resources` leads to."""
    for step in path.replace("[", ".").replace("]", "").split("."):
        if isinstance(node, yaml.SequenceNode) and step.isdecimal():
            node = node.value[int(step)] if int(step) < len(node.value) else None
        else:
            found = child(node, step)
            node = found[1] if found else None
    return node


def child(node: yaml.Node | None, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.value == name:
            return key, value
    return None


def last_line(node: yaml.Node) -> int:
    """The last line with something of a node; comments behind it do not count."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return last_line(last[1] if isinstance(last, tuple) else last)
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        # Its end is the beginning of what follows.
        return int(node.end_mark.line) - 1
    return int(node.end_mark.line)
