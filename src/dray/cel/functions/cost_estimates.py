"""Estimates of calls from the sizes of their arguments.

See cel-go checker/cost.go and apiserver cel/library/cost.go. The receiver of a member function is
the first operand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dray.cel.functions.overloads import UNBOUNDED, UNKNOWN, CallEstimate, Operand, Range
from dray.cel.functions.runtime_costs import LIST_CREATION, REGEX_FACTOR, STRING_FACTOR
from dray.cel.syntax.nodes import Literal
from dray.cel.types import Kind

ONE = Range(1, 1)
_TEXTUAL = frozenset({Kind.STRING, Kind.BYTES})


def nominal(operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(ONE)


def scan(operands: Sequence[Operand]) -> CallEstimate:
    """Estimate reading every character of the first operand once."""
    return CallEstimate(operands[0].size_or_unknown.scale(STRING_FACTOR))


def scan_second(operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(operands[1].size_or_unknown.scale(STRING_FACTOR))


def scan_twice(operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(operands[0].size_or_unknown.scale(2 * STRING_FACTOR))


def scan_keeping_size(operands: Sequence[Operand]) -> CallEstimate:
    """Estimate as `scan` does, for a result as large as the first operand."""
    size = operands[0].size_or_unknown
    return CallEstimate(size.scale(STRING_FACTOR), size)


def concatenation(operands: Sequence[Operand]) -> CallEstimate:
    size = operands[0].size_or_unknown.add(operands[1].size_or_unknown)
    return CallEstimate(size.scale(STRING_FACTOR), size)


def list_concatenation(operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(ONE, operands[0].size_or_unknown.add(operands[1].size_or_unknown))


def comparison(operands: Sequence[Operand]) -> CallEstimate:
    """Estimate reading the shorter of two texts."""
    shorter = min(operand.size_or_unknown.high for operand in operands)
    return CallEstimate(Range(min(shorter, 1), shorter).scale(STRING_FACTOR))


def search(operands: Sequence[Operand]) -> CallEstimate:
    text, part = (operand.size_or_unknown.scale(STRING_FACTOR) for operand in operands)
    return CallEstimate(text.multiply(part))


def match(operands: Sequence[Operand]) -> CallEstimate:
    text = operands[0].size_or_unknown.add(ONE).scale(STRING_FACTOR)
    expression = operands[1].size_or_unknown.scale(REGEX_FACTOR)
    return CallEstimate(text.multiply(expression))


def membership(operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(operands[1].size_or_unknown.scale(1))


def traversal(operands: Sequence[Operand]) -> CallEstimate:
    """Estimate comparing every element of a list, or reading every character of a string."""
    if not operands[0].type.parameters:
        return scan(operands)
    return traversal_of_list(operands)


def traversal_of_list(operands: Sequence[Operand]) -> CallEstimate:
    target = operands[0]
    cost = ONE
    if target.type.parameters and target.type.parameters[0].kind in _TEXTUAL:
        element_size = target.element.size_or_unknown if target.element else UNKNOWN
        cost = cost.add(element_size.scale(STRING_FACTOR))
    return CallEstimate(target.size_or_unknown.multiply(cost))


def list_creation(factor: float, count: Range) -> CallEstimate:
    """Estimate a new list and work in proportion to a number of elements."""
    cost = count.scale(factor).add(Range.exactly(1 + LIST_CREATION))
    return CallEstimate(cost, count)


def literal_unsigned(operand: Operand, default: int) -> int:
    """Return the value of an int literal, zero if it is negative."""
    if isinstance(operand.node, Literal) and operand.node.value.__class__ is int:
        assert isinstance(operand.node.value, int)
        return max(operand.node.value, 0)
    return default


def wrapped(number: int) -> int:
    """Wrap `number` as upstream's unsigned arithmetic does."""
    return number & UNBOUNDED


def replacement(operands: Sequence[Operand]) -> CallEstimate:
    text, old, new = (operand.size_or_unknown for operand in operands[:3])
    size = Range(_shortest_replacement(text, old, new), _longest_replacement(text, old, new))
    return CallEstimate(text.scale(2 * STRING_FACTOR), size)


def _longest_replacement(text: Range, old: Range, new: Range) -> int:
    if old.low == 0:
        count, kept = min(text.high + 1, UNBOUNDED), text.high
    elif new.high <= old.low:
        count, kept = 0, text.high
    else:
        count, kept = math.ceil(text.high / old.low), 0
    return min(count * new.high + kept, UNBOUNDED)


def _shortest_replacement(text: Range, old: Range, new: Range) -> int:
    if old.high == 0:
        count, kept = min(text.low + 1, UNBOUNDED), text.low
    elif old.high <= new.low:
        count, kept = 0, text.low
    else:
        count, kept = math.ceil(text.low / old.high), 0
    return min(count * new.low + kept, UNBOUNDED)
