"""Recursion without Python's call stack: a step yields the steps inside it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

Result = TypeVar("Result")

# A step yields the step whose result it needs next and is sent that result.
Step: TypeAlias = Generator["Step[Any]", Any, Result]


def run(step: Step[Result]) -> Result:
    """The result of a step, however deep the steps inside it nest."""
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
