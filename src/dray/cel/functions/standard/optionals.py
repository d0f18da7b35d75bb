"""Optional values.

`or` and `orValue` evaluate their argument only if they need it: the compiler knows them by name.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from dray.cel import types
from dray.cel.functions import runtime_costs
from dray.cel.functions.dispatching import function, operator
from dray.cel.functions.overloads import Library, Overload, member
from dray.cel.runtime import text_format, times, values
from dray.cel.runtime.values import EvaluationError, Optional

_V = types.parameter("V")
_LIST = types.list_of(_V)
_OPTIONAL = types.optional_of(_V)
_OPTIONALS = types.list_of(_OPTIONAL)

_FALSE_WHEN_ZERO: frozenset[Any] = (
    values.LIST_CLASSES
    | values.MAP_CLASSES
    | {type(None), bool, int, values.UInt, float, str, bytes}
)


def none() -> Optional:
    return values.NONE


def of_non_zero_value(value: Any) -> Optional:
    return values.NONE if is_zero(value) else Optional(value)


def is_zero(value: Any) -> bool:
    """Return whether this is the zero value of its type; not every type has one."""
    if value.__class__ is values.Timestamp:
        return times.is_zero_time(value)
    if value.__class__ is values.Duration:
        return not value.nanoseconds
    return value.__class__ in _FALSE_WHEN_ZERO and not value


def value(optional: Optional) -> Any:
    if not optional.has_value:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def or_optional(optional: Any, other: Any) -> Any:
    if optional.__class__ is not Optional:
        raise values.no_such_overload()
    return optional if optional.has_value else other


def or_value(optional: Any, other: Any) -> Any:
    if optional.__class__ is not Optional:
        raise values.no_such_overload()
    return optional.value if optional.has_value else other


def first(elements: values.CelList) -> Optional:
    return Optional(elements[0]) if elements else values.NONE


def last(elements: values.CelList) -> Optional:
    return Optional(elements[len(elements) - 1]) if elements else values.NONE


def unwrap(optionals: values.CelList) -> list[Any]:
    """Return the values of those optionals that have one."""
    for item in values.bounded(optionals):
        if item.__class__ is not Optional:
            raise EvaluationError(f"value {text_format.printed(item)} is not optional")
    return [optional.value for optional in optionals if optional.has_value]


_FREE = (None, runtime_costs.free)
_OR = member("optional_or_optional", (_OPTIONAL, _OPTIONAL), _OPTIONAL, or_optional, *_FREE)
_OR_VALUE = member("optional_orValue_value", (_OPTIONAL, _V), _V, or_value, *_FREE)
_HAS_VALUE = attrgetter("has_value")
_OF_NON_ZERO = Overload("optional_ofNonZeroValue", (_V,), _OPTIONAL, of_non_zero_value)

LIBRARY: Library = (
    function("optional.of", Overload("optional_of", (_V,), _OPTIONAL, Optional)),
    function("optional.ofNonZeroValue", _OF_NON_ZERO),
    function("optional.none", Overload("optional_none", (), _OPTIONAL, none)),
    function("optional.unwrap", Overload("optional_unwrap", (_OPTIONALS,), _LIST, unwrap)),
    function("unwrapOpt", member("optional_unwrapOpt", (_OPTIONALS,), _LIST, unwrap)),
    function("value", member("optional_value", (_OPTIONAL,), _V, value)),
    function("hasValue", member("optional_hasValue", (_OPTIONAL,), types.BOOL, _HAS_VALUE)),
    operator("or", or_optional, _OR, cost=runtime_costs.free),
    operator("orValue", or_value, _OR_VALUE, cost=runtime_costs.free),
    function("first", member("list_first", (_LIST,), _OPTIONAL, first)),
    function("last", member("list_last", (_LIST,), _OPTIONAL, last)),
)
