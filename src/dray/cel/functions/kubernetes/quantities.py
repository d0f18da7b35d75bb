"""Kubernetes' quantity library (apiserver, cel/library/quantity.go)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dray.api.formats import quantity
from dray.api.formats.quantity import Quantity, QuantityFormat
from dray.cel.functions import prices
from dray.cel.functions.dispatching import accepts, charged, function
from dray.cel.functions.overloads import Library, Overload, member
from dray.cel.runtime.values import ComputedQuantity, EvaluationError
from dray.cel.types import BOOL, DOUBLE, INT, QUANTITY, STRING, Type


def parse(text: str) -> Quantity:
    try:
        return quantity.parse(text)
    except quantity.QuantityError as error:
        raise EvaluationError(str(error)) from None


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
    return _computed(amount + quantity.of(number, QuantityFormat.DECIMAL_EXPONENT))


def sub_int(amount: Quantity, number: int) -> ComputedQuantity:
    return _computed(amount - quantity.of(number, QuantityFormat.DECIMAL_EXPONENT))


def _computed(quantity: Quantity) -> ComputedQuantity:
    return ComputedQuantity(quantity.nano, quantity.format, quantity.exponent, quantity.is_decimal)


def _member(id: str, result: Type, call: Callable[..., Any], *others: Type) -> Overload:
    return member(id, (QUANTITY, *others), result, call)


LIBRARY: Library = (
    charged("quantity", Overload("string_to_quantity", (STRING,), QUANTITY, parse, *prices.SCAN)),
    charged(
        "isQuantity", Overload("is_quantity_string", (STRING,), BOOL, accepts(parse), *prices.SCAN)
    ),
    function("isInteger", _member("quantity_is_integer", BOOL, Quantity.is_integer)),
    function("asInteger", _member("quantity_get_int", INT, as_integer)),
    function("asApproximateFloat", _member("quantity_get_float", DOUBLE, Quantity.as_float)),
    function("sign", Overload("quantity_sign", (QUANTITY,), INT, Quantity.sign)),
    function("isLessThan", _member("quantity_is_less_than", BOOL, is_less_than, QUANTITY)),
    function("isGreaterThan", _member("quantity_is_greater_than", BOOL, is_greater_than, QUANTITY)),
    function("compareTo", _member("quantity_compare_to", INT, Quantity.compare, QUANTITY)),
    function(
        "add",
        _member("quantity_add", QUANTITY, add, QUANTITY),
        _member("quantity_add_int", QUANTITY, add_int, INT),
    ),
    function(
        "sub",
        _member("quantity_sub", QUANTITY, sub, QUANTITY),
        _member("quantity_sub_int", QUANTITY, sub_int, INT),
    ),
)
