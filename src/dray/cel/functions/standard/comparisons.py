"""`== != < <= > >=`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dray.api.formats.quantity import Quantity
from dray.api.formats.semver import Version
from dray.cel import types
from dray.cel.functions import cost_estimates, dispatching, prices, runtime_costs
from dray.cel.functions.overloads import CallEstimate, Function, Library, Operand, Overload, Range
from dray.cel.functions.prices import Price
from dray.cel.runtime import values
from dray.cel.types import Type

Relation = Callable[[Any, Any], bool]

_A = types.parameter("A")
_MAXIMUM_FORMAT_SIZE = 64

# Compared in one step, whatever their size; apiserver library/cost.go, CallCost and
# EstimateCallCost of "_==_".
_UNIT_COST_TYPES = frozenset({types.IP, types.CIDR, types.QUANTITY, types.SEMVER})


def _equality_estimate(operands: Sequence[Operand]) -> CallEstimate:
    left, right = operands
    if left.type != right.type:
        return cost_estimates.comparison(operands)
    if left.type in _UNIT_COST_TYPES or left.type.name.startswith("kubernetes.authorization."):
        return CallEstimate(cost_estimates.ONE)
    if left.type == types.NAMED_FORMAT:
        return CallEstimate(Range(1, _MAXIMUM_FORMAT_SIZE).scale(runtime_costs.STRING_FACTOR))
    if left.type == types.URL:
        high = right.size.high if right.size else 1
        return CallEstimate(Range(1, high).scale(runtime_costs.STRING_FACTOR))
    return cost_estimates.comparison(operands)


def _equality_cost(arguments: Sequence[Any], result: Any) -> int:
    left = arguments[0]
    if isinstance(left, Quantity | Version) or hasattr(left, "cel_type"):
        return 1
    return runtime_costs.scan_shorter(arguments, result)


def _ordered_doubles(relation: Relation) -> Relation:
    """Return the relation between numbers, at least one of them a double."""

    def apply(left: Any, right: Any) -> bool:
        left, right = float(left), float(right)
        if math.isnan(left) or math.isnan(right):
            raise values.EvaluationError("NaN values cannot be ordered")
        return relation(left, right)

    return apply


def _ordering(name: str, relation: Relation) -> Relation:
    """Return the relation between any two values."""

    def apply(left: Any, right: Any) -> bool:
        kind = left.__class__
        if kind is right.__class__ and kind in values.SELF_ORDERED:
            return relation(left, right)
        if kind not in values.COMPARABLE:
            raise dispatching.missing_operation(name, left)
        return relation(values.compare(left, right), 0)

    return apply


class _Operand(NamedTuple):
    id: str
    type: Type


_INT = _Operand("int64", types.INT)
_UINT = _Operand("uint64", types.UINT)
_DOUBLE = _Operand("double", types.DOUBLE)
_NUMBERS = (_INT, _UINT, _DOUBLE)
_OTHERS = (
    _Operand("bool", types.BOOL),
    _Operand("string", types.STRING),
    _Operand("bytes", types.BYTES),
    _Operand("timestamp", types.TIMESTAMP),
    _Operand("duration", types.DURATION),
)


def _pair(prefix: str, relation: Relation, left: _Operand, right: _Operand) -> Overload:
    suffix = left.id if left is right else f"{left.id}_{right.id}"
    call = _ordered_doubles(relation) if _DOUBLE in (left, right) else relation
    price = prices.COMPARISON if left.type in (types.STRING, types.BYTES) else ()
    return Overload(f"{prefix}_{suffix}", (left.type, right.type), types.BOOL, call, *price)


def _relation(name: str, prefix: str, relation: Relation) -> Function:
    boolean, *rest = _OTHERS
    overloads = [_pair(prefix, relation, boolean, boolean)]
    for left in _NUMBERS:
        others = [right for right in _NUMBERS if right is not left]
        overloads += [_pair(prefix, relation, left, right) for right in (left, *others)]
    overloads += [_pair(prefix, relation, operand, operand) for operand in rest]
    return dispatching.operator(name, _ordering(name, relation), *overloads)


def _equality(name: str, id: str, relation: Relation, price: Price) -> Function:
    overload = Overload(id, (_A, _A), types.BOOL, relation, *price)
    return dispatching.operator(name, relation, overload, cost=overload.cost)


LIBRARY: Library = (
    _equality("_==_", "equals", values.equal, (_equality_estimate, _equality_cost)),
    _equality("_!=_", "not_equals", values.not_equal, prices.COMPARISON),
    _relation("_<_", "less", operator.lt),
    _relation("_<=_", "less_equals", operator.le),
    _relation("_>_", "greater", operator.gt),
    _relation("_>=_", "greater_equals", operator.ge),
)
