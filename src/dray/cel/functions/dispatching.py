"""Chooses the overload that a call runs by its values, where static types do not suffice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from dray.cel.functions.overloads import Cost, Function, Overload
from dray.cel.runtime import values
from dray.cel.runtime.values import EvaluationError
from dray.cel.types import Kind, Type

Call = Callable[..., Any]

_ANYTHING = frozenset({Kind.DYN, Kind.ANY, Kind.PARAMETER})
_CONTAINERS = frozenset({Kind.LIST, Kind.MAP})

# Values that answer member functions themselves in cel-go, with a shorter message.
_RECEIVERS = frozenset({str, values.Duration, values.Timestamp})


def guarded(function: Function, overload: Overload) -> Call:
    """Return the only overload that the static types allow, for arguments of any type."""
    return function.dispatch if function.binds_once else dispatcher(function.name, [overload])


def function(name: str, *overloads: Overload, dispatch_cost: Cost | None = None) -> Function:
    """Return a function whose overloads are chosen by the classes of the arguments."""
    return Function(name, overloads, dispatcher(name, overloads), dispatch_cost)


def charged(name: str, *overloads: Overload) -> Function:
    """Return a function that costs the same, whichever of its overloads the values choose."""
    return function(name, *overloads, dispatch_cost=overloads[0].cost)


def operator(name: str, call: Call, *overloads: Overload, cost: Cost | None = None) -> Function:
    """Return a function with one implementation that checks the values itself."""
    return Function(name, overloads, call, cost, binds_once=True)


def dispatcher(name: str, overloads: Sequence[Overload]) -> Call:
    """Return a function that calls the first overload that takes its arguments."""
    arities = {len(overload.arguments) for overload in overloads}
    if any(_looks_inside(argument) for overload in overloads for argument in overload.arguments):
        return lambda *arguments: _select(name, overloads, arguments)(*arguments)
    if arities == {1}:
        return _unary_dispatcher(name, overloads)
    if arities == {2}:
        return _binary_dispatcher(name, overloads)
    return _general_dispatcher(name, overloads)


def _unary_dispatcher(name: str, overloads: Sequence[Overload]) -> Call:
    cache: dict[type, Call] = {}

    def dispatch(argument: Any) -> Any:
        call = cache.get(argument.__class__)
        if call is None:
            call = cache[argument.__class__] = _select(name, overloads, (argument,))
        return call(argument)

    return dispatch


def _binary_dispatcher(name: str, overloads: Sequence[Overload]) -> Call:
    cache: dict[tuple[type, type], Call] = {}

    def dispatch(one: Any, other: Any) -> Any:
        classes = (one.__class__, other.__class__)
        call = cache.get(classes)
        if call is None:
            call = cache[classes] = _select(name, overloads, (one, other))
        return call(one, other)

    return dispatch


def _general_dispatcher(name: str, overloads: Sequence[Overload]) -> Call:
    cache: dict[tuple[type, ...], Call] = {}

    def dispatch(*arguments: Any) -> Any:
        classes = tuple([argument.__class__ for argument in arguments])
        call = cache.get(classes)
        if call is None:
            call = cache[classes] = _select(name, overloads, arguments)
        return call(*arguments)

    return dispatch


def _select(name: str, overloads: Sequence[Overload], arguments: Sequence[Any]) -> Call:
    for overload in overloads:
        if len(overload.arguments) == len(arguments) and all(
            map(takes, overload.arguments, arguments)
        ):
            return overload.call
    signature = ", ".join(map(values.type_name, arguments))
    raise EvaluationError(f"no such overload: {name}({signature})")


def _looks_inside(type: Type) -> bool:
    """Return whether `takes` depends on more than the class of a value."""
    return any(
        parameter.kind not in _ANYTHING for parameter in type.parameters if type.kind in _CONTAINERS
    )


def takes(type: Type, value: Any) -> bool:
    """Return whether a parameter of this type accepts the value.

    Of a container the first entry counts.
    """
    if type.kind in _ANYTHING:
        return True
    if values.type_name(value) != type.name:
        return False
    if type.kind is Kind.LIST:
        return not value or takes(type.parameters[0], value[0])
    if type.kind is Kind.MAP and value:
        key, entry = next(iter(value.items()))
        return takes(type.parameters[0], values.key_value(key)) and takes(type.parameters[1], entry)
    return True


def refuse(*operands: Any) -> NoReturn:
    """Take the place of a function where no operands are acceptable. Raises EvaluationError."""
    raise values.no_such_overload()


def accepts(parse: Call) -> Callable[..., bool]:
    """Return a function that tells whether `parse` raises no EvaluationError."""

    def is_accepted(*arguments: Any) -> bool:
        try:
            parse(*arguments)
        except EvaluationError:
            return False
        return True

    return is_accepted


def missing_operation(name: str, operand: Any) -> EvaluationError:
    """Return the error for an operator that the type of its first operand does not have at all."""
    if operand.__class__ in _RECEIVERS:
        return values.no_such_overload()
    return EvaluationError(f"no such overload: {name}")
