"""Walk trees that nest deeper than Python's call stack: a step yields the steps inside it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

from dray.cel.syntax.nodes import Node

Result = TypeVar("Result")

# A step yields the step whose result it needs next and is sent that result.
Step: TypeAlias = Generator["Step[Any]", Any, Result]


def run(step: Step[Result]) -> Result:
    """Run a step to its result; steps may nest to any depth."""
    pending: list[Step[Any]] = [step]
    result: Any = None
    while pending:
        try:
            inner = pending[-1].send(result)
        except StopIteration as finished:
            pending.pop()
            result = finished.value
        else:
            pending.append(inner)
            result = None
    return result  # type: ignore[no-any-return]


Visit: TypeAlias = Iterator[Node]
Visitors: TypeAlias = Mapping[type[Node], Callable[..., Visit | None]]


def walk(root: Node, visitors: Visitors) -> None:
    """Visit the root and all nodes that visits request.

    A visitor that returns None is done at once.
    """
    waiting: list[Visit] = [iter((root,))]
    while waiting:
        node = next(waiting[-1], None)
        if node is None:
            waiting.pop()
        elif visit := visitors[type(node)](node):
            waiting.append(visit)
