"""Kubernetes' quantity library (apiserver, cel/library/quantity.go)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dray.api.formats import quantity
from dray.api.formats.quantity import Format, Quantity
from dray.cel import types
from dray.cel.functions import cost_estimates, dispatching, runtime_costs
from dray.cel.functions.overloads import Function, Library, Overload
from dray.cel.runtime.values import ComputedQuantity, EvaluationError
from dray.cel.types import Type


def parse(text: str) -> Quantity:
    try:
        return quantity.parse(text)
    except quantity.QuantityError as error:
        raise EvaluationError(str(error)) from None


def is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except quantity.QuantityError:
        return False
    return True


def as_integer(quantity: Quantity) -> int:
    number = quantity.as_int64()
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def is_less_than(quantity: Quantity, other: Quantity) -> bool:
    return quantity.nano < other.nano


def is_greater_than(quantity: Quantity, other: Quantity) -> bool:
    return quantity.nano > other.nano


def add(quantity: Quantity, other: Quantity) -> ComputedQuantity:
    return _computed(quantity + other)


def sub(quantity: Quantity, other: Quantity) -> ComputedQuantity:
    return _computed(quantity - other)


def add_int(amount: Quantity, number: int) -> ComputedQuantity:
    return _computed(amount + quantity.of(number, Format.DECIMAL_EXPONENT))


def sub_int(amount: Quantity, number: int) -> ComputedQuantity:
    return _computed(amount - quantity.of(number, Format.DECIMAL_EXPONENT))


def _computed(quantity: Quantity) -> ComputedQuantity:
    return ComputedQuantity(quantity.nano, quantity.format, quantity.exponent, quantity.is_decimal)


def _from_text(name: str, id: str, result: Type, call: Callable[[str], Any]) -> Function:
    overload = Overload(
        id, (types.STRING,), result, call, estimate=cost_estimates.scan, cost=runtime_costs.scan
    )
    return dispatching.function(name, overload, dispatch_cost=runtime_costs.scan)


def _member(
    id: str, result: Type, call: Callable[..., Any], *others: Type, member: bool = True
) -> Overload:
    return Overload(id, (types.QUANTITY, *others), result, call, member=member)


LIBRARY = Library(
    "quantities",
    (
        _from_text("quantity", "string_to_quantity", types.QUANTITY, parse),
        _from_text("isQuantity", "is_quantity_string", types.BOOL, is_quantity),
        dispatching.function(
            "isInteger", _member("quantity_is_integer", types.BOOL, Quantity.is_integer)
        ),
        dispatching.function("asInteger", _member("quantity_get_int", types.INT, as_integer)),
        dispatching.function(
            "asApproximateFloat", _member("quantity_get_float", types.DOUBLE, Quantity.as_float)
        ),
        dispatching.function(
            "sign", _member("quantity_sign", types.INT, Quantity.sign, member=False)
        ),
        dispatching.function(
            "isLessThan",
            _member("quantity_is_less_than", types.BOOL, is_less_than, types.QUANTITY),
        ),
        dispatching.function(
            "isGreaterThan",
            _member("quantity_is_greater_than", types.BOOL, is_greater_than, types.QUANTITY),
        ),
        dispatching.function(
            "compareTo", _member("quantity_compare_to", types.INT, Quantity.compare, types.QUANTITY)
        ),
        dispatching.function(
            "add",
            _member("quantity_add", types.QUANTITY, add, types.QUANTITY),
            _member("quantity_add_int", types.QUANTITY, add_int, types.INT),
        ),
        dispatching.function(
            "sub",
            _member("quantity_sub", types.QUANTITY, sub, types.QUANTITY),
            _member("quantity_sub_int", types.QUANTITY, sub_int, types.INT),
        ),
    ),
)
