"""Walks over trees that nest deeper than Python calls may.

A visit is a generator: it yields the nodes to visit before it goes on. The visits that wait are
kept on a list, not on the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from dray.cel.syntax import (
    Call,
    Comprehension,
    ListLiteral,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)

Visit: TypeAlias = Iterator[Node]
Visitors: TypeAlias = Mapping[type[Node], Callable[..., Visit | None]]


def walk(root: Node, visitors: Visitors) -> None:
    """Visits the root and what the visits ask for; a visitor that returns None is done at once."""
    waiting: list[Visit] = [iter((root,))]
    while waiting:
        node = next(waiting[-1], None)
        if node is None:
            waiting.pop()
        elif visit := visitors[type(node)](node):
            waiting.append(visit)


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below, in the order they are written."""
    if isinstance(node, Select):
        return (node.operand,)
    if isinstance(node, Call):
        return node.arguments if node.target is None else (node.target, *node.arguments)
    if isinstance(node, ListLiteral):
        return node.elements
    if isinstance(node, MapLiteral):
        return tuple([each for entry in node.entries for each in (entry.key, entry.value)])
    if isinstance(node, StructLiteral):
        return tuple([field.value for field in node.fields])
    if isinstance(node, Comprehension):
        return (node.range, node.init, node.condition, node.step, node.result)
    return ()
