"""Chooses what a call runs: by static types where they suffice, else by the values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dray.cel import values
from dray.cel.functions.costs import Cost
from dray.cel.functions.overloads import Function, Overload
from dray.cel.types import Kind, Type
from dray.cel.values import EvaluationError

Call = Callable[..., Any]

_ANYTHING = frozenset({Kind.DYN, Kind.ANY, Kind.PARAMETER})
_CONTAINERS = frozenset({Kind.LIST, Kind.MAP})

# Values that answer member functions themselves in cel-go, with a shorter message.
_RECEIVERS = frozenset({str, values.Duration, values.Timestamp})


class Binding(NamedTuple):
    """What a call runs, and what it costs at run time; None is 1."""

    call: Call
    cost: Cost | None


def bind(
    function: Function, overload_ids: Sequence[str], argument_types: Sequence[Type]
) -> Binding:
    """The implementation for a checked call, the receiver of a member function first."""
    if len(overload_ids) > 1:
        return Binding(function.dispatch, function.dispatch_cost)
    overload = next(each for each in function.overloads if each.id == overload_ids[0])
    if all(map(_promises, argument_types, overload.arguments)):
        return Binding(overload.call, overload.cost)
    if function.binds_once:
        return Binding(function.dispatch, overload.cost)
    return Binding(dispatcher(function.name, [overload]), overload.cost)


def _promises(static: Type, declared: Type) -> bool:
    """Whether every value of the static type is one that a parameter accepts."""
    if declared.kind in _ANYTHING:
        return True
    if static.name != declared.name:
        return False
    return declared.kind not in _CONTAINERS or all(
        map(_promises, static.parameters, declared.parameters)
    )


def function(name: str, *overloads: Overload, dispatch_cost: Cost | None = None) -> Function:
    """A function whose overloads are told apart by the classes of the arguments."""
    return Function(name, overloads, dispatcher(name, overloads), dispatch_cost)


def operator(name: str, call: Call, *overloads: Overload, cost: Cost | None = None) -> Function:
    """A function with one implementation, which looks at the values itself."""
    return Function(name, overloads, call, cost, binds_once=True)


def dispatcher(name: str, overloads: Sequence[Overload]) -> Call:
    """Calls the first overload that takes the arguments, or raises "no such overload"."""
    arities = {len(overload.arguments) for overload in overloads}
    if any(_looks_inside(each) for overload in overloads for each in overload.arguments):
        return lambda *arguments: _select(name, overloads, arguments)(*arguments)
    if arities == {1}:
        return _unary_dispatcher(name, overloads)
    if arities == {2}:
        return _binary_dispatcher(name, overloads)
    return _general_dispatcher(name, overloads)


def _unary_dispatcher(name: str, overloads: Sequence[Overload]) -> Call:
    known: dict[type, Call] = {}

    def dispatch(argument: Any) -> Any:
        call = known.get(argument.__class__)
        if call is None:
            call = known[argument.__class__] = _select(name, overloads, (argument,))
        return call(argument)

    return dispatch


def _binary_dispatcher(name: str, overloads: Sequence[Overload]) -> Call:
    known: dict[tuple[type, type], Call] = {}

    def dispatch(one: Any, other: Any) -> Any:
        classes = (one.__class__, other.__class__)
        call = known.get(classes)
        if call is None:
            call = known[classes] = _select(name, overloads, (one, other))
        return call(one, other)

    return dispatch


def _general_dispatcher(name: str, overloads: Sequence[Overload]) -> Call:
    known: dict[tuple[type, ...], Call] = {}

    def dispatch(*arguments: Any) -> Any:
        classes = tuple([argument.__class__ for argument in arguments])
        call = known.get(classes)
        if call is None:
            call = known[classes] = _select(name, overloads, arguments)
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
    """Whether `takes` depends on more than the class of a value."""
    return any(
        parameter.kind not in _ANYTHING for parameter in type.parameters if type.kind in _CONTAINERS
    )


def takes(type: Type, value: Any) -> bool:
    """Whether a parameter of this type accepts the value; of a container the first entry counts."""
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


def missing_operation(name: str, operand: Any) -> EvaluationError:
    """The error for an operator that the type of its first operand does not have at all."""
    if operand.__class__ in _RECEIVERS:
        return values.no_such_overload()
    return EvaluationError(f"no such overload: {name}")
