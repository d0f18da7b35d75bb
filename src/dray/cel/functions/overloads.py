"""Declarations of functions for checker, cost estimate and compiler."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from dray.cel.syntax.nodes import Node
from dray.cel.types import Type

UNBOUNDED = 2**64 - 1


class Range(NamedTuple):
    """An estimate: at least `low`, at most `high`; all arithmetic saturates at UNBOUNDED."""

    low: int
    high: int

    @classmethod
    def exactly(cls, value: int) -> Range:
        return cls(value, value)

    def add(self, other: Range) -> Range:
        return Range(min(self.low + other.low, UNBOUNDED), min(self.high + other.high, UNBOUNDED))

    def multiply(self, other: Range) -> Range:
        return Range(min(self.low * other.low, UNBOUNDED), min(self.high * other.high, UNBOUNDED))

    def scale(self, factor: float) -> Range:
        """Times a cost per unit, rounded up."""
        return Range(scale(self.low, factor), scale(self.high, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


UNKNOWN = Range(0, UNBOUNDED)


def scale(value: int, factor: float) -> int:
    """`value * factor` rounded up, with the rounding errors of 64-bit floats that cel-go has."""
    return min(math.ceil(float(value) * factor), UNBOUNDED)


class Operand(NamedTuple):
    """One argument (or the receiver) of a call, as the cost estimate knows it.

    `size` is None where nothing bounds it; `element` is the operand of a list's or map's elements
    where its size is known, as it is for values below `device`.
    """

    node: Node
    type: Type
    size: Range | None
    element: Operand | None = None

    @property
    def size_or_unknown(self) -> Range:
        return UNKNOWN if self.size is None else self.size


class CallEstimate(NamedTuple):
    """The cost of one call beyond its arguments, and the size of its result if it is bounded."""

    cost: Range
    result_size: Range | None = None


Estimate: TypeAlias = Callable[[Sequence[Operand]], CallEstimate]
Cost: TypeAlias = Callable[[Sequence[Any], Any], int]


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature. A member's receiver is the first argument, for types and for `call` alike.

    `call` takes values of the declared types, in order, and raises `EvaluationError`;
    `dispatching.guarded` is for where the static types promise less.
    `estimate` and `cost` are None where the call costs 1. `cost` is given the arguments and the
    result, each of them possibly an `EvaluationError`.
    """

    id: str
    arguments: tuple[Type, ...]
    result: Type
    call: Callable[..., Any]
    estimate: Estimate | None = None
    cost: Cost | None = None
    member: bool = False


def member(
    id: str,
    arguments: tuple[Type, ...],
    result: Type,
    call: Callable[..., Any],
    estimate: Estimate | None = None,
    cost: Cost | None = None,
) -> Overload:
    """Return an overload that is called on its first argument."""
    return Overload(id, arguments, result, call, estimate, cost, member=True)


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A name with its overloads, in the order the checker tries them.

    `dispatch` is used where the static types leave more than one overload: it looks at the values.
    `dispatch_cost` is what such a call costs at run time, None where that is 1. With `binds_once`
    there is one implementation for all overloads, and `dispatch` is it; operators are made so.
    """

    name: str
    overloads: tuple[Overload, ...]
    dispatch: Callable[..., Any]
    dispatch_cost: Cost | None = None
    binds_once: bool = False


Library: TypeAlias = tuple[Function, ...]
"""The functions of one module here; macros are the parser's."""
