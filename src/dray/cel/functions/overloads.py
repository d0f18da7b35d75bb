"""What a function library tells checker, cost estimate and compiler about a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dray.cel.syntax import Node
from dray.cel.types import Type

UNBOUNDED = 2**64 - 1


class Range(NamedTuple):
    """An estimate: at least `low`, at most `high`; both saturate at UNBOUNDED."""

    low: int
    high: int


class Operand(NamedTuple):
    """One argument (or the receiver) of a call, as the cost estimate knows it.

    `size` is None where nothing bounds it; `element` is the operand of a list's or map's elements
    where its size is known, as it is for values below `device`.
    """

    node: Node
    type: Type
    size: Range | None
    element: Operand | None = None


class CallEstimate(NamedTuple):
    """What one call costs beyond its arguments, and the size of its result where it is known."""

    cost: Range
    result_size: Range | None = None


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature. A member's receiver is the first argument, for types and for `call` alike.

    `call` takes the values in order and raises `EvaluationError`; for operators and for functions
    that cel-go binds once it accepts any value and raises "no such overload" itself.
    `estimate` and `cost` are None where the call costs 1.
    """

    id: str
    arguments: tuple[Type, ...]
    result: Type
    call: Callable[..., Any]
    member: bool = False
    estimate: Callable[[Sequence[Operand]], CallEstimate] | None = None
    cost: Callable[[Sequence[Any], Any], int] | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """A name with its overloads, in the order the checker tries them.

    `dispatch` is used where the static types leave more than one overload: it looks at the values.
    """

    name: str
    overloads: tuple[Overload, ...]
    dispatch: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Library:
    """A named set of functions; macros are the parser's."""

    name: str
    functions: tuple[Function, ...] = field(default=())
