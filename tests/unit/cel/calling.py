"""Calls functions of a library as compiled code does where it knows no types."""

from __future__ import annotations

from typing import Any

import pytest

from dray.cel.functions.overloads import Function, Library, Overload
from dray.cel.runtime.values import EvaluationError


def function(library: Library, name: str) -> Function:
    return next(each for each in library if each.name == name)


def overload(library: Library, id: str) -> Overload:
    return next(each for function in library for each in function.overloads if each.id == id)


def call(library: Library, name: str, *arguments: Any) -> Any:
    return function(library, name).dispatch(*arguments)


def failure(library: Library, name: str, *arguments: Any) -> str:
    """The text of the error that a call raises."""
    with pytest.raises(EvaluationError) as caught:
        call(library, name, *arguments)
    return str(caught.value)


def cost(library: Library, id: str, *arguments: Any) -> int:
    """The run-time cost of a call of one overload."""
    chosen = overload(library, id)
    result = chosen.call(*arguments)
    return 1 if chosen.cost is None else chosen.cost(arguments, result)
