"""Walks over trees that nest deeper than Python calls may.

A visit is a generator: it yields the nodes to visit before it goes on. The visits that wait are
kept on a list, not on the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from dray.cel.syntax import Node

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
