"""Logic, membership, indexing and size.

`&&`, `||` and `?:` do not evaluate all their operands: the compiler knows them by name, what is
declared here only says their types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dray.cel import types
from dray.cel.functions import cost_estimates, dispatching, runtime_costs
from dray.cel.functions.dispatching import operator, refuse
from dray.cel.functions.overloads import Function, Library, Overload, member
from dray.cel.runtime import operations, values
from dray.cel.types import BOOL, BYTES, DYN, INT, STRING, Type

_A, _B, _K, _V = map(types.parameter, "ABKV")
_LIST_A = types.list_of(_A)
_MAP_AB = types.map_of(_A, _B)
_LIST_V = types.list_of(_V)
_MAP_KV = types.map_of(_K, _V)
_OPTIONAL_V = types.optional_of(_V)
_OPTIONAL_LIST = types.optional_of(_LIST_V)
_OPTIONAL_MAP = types.optional_of(_MAP_KV)

_SIZED: frozenset[Any] = values.LIST_CLASSES | values.MAP_CLASSES | {str, bytes}


def logical_not(operand: Any) -> bool:
    if operand.__class__ is bool:
        return not operand
    raise values.no_such_overload()


def not_strictly_false(operand: Any) -> bool:
    return operand is not False


def is_member(value: Any, container: Any) -> bool:
    """Evaluate `value in container`."""
    if container.__class__ in values.MAP_CLASSES:
        return values.find(container, value, values.MISSING) is not values.MISSING
    if container.__class__ not in values.LIST_CLASSES:
        raise values.no_such_overload()
    return values.contains(values.bounded(container), value)


def size(value: Any) -> int:
    if value.__class__ in _SIZED:
        return len(value)
    raise dispatching.missing_operation("size", value)


def index(container: Any, key: Any) -> Any:
    """Evaluate `container[key]`, also of an optional container."""
    return operations.qualify_all(container, (key,))


def optional_index(container: Any, key: Any) -> Any:
    """Evaluate `container[?key]` and `container.?key`."""
    plain = operations.unwrap(container)
    return values.NONE if plain is values.MISSING else operations.wrap(operations.probe(plain, key))


def _membership_cost(arguments: Sequence[Any], result: Any) -> int:
    return runtime_costs.size(arguments[1])


def _membership(name: str) -> Function:
    price = (cost_estimates.membership, _membership_cost)
    return operator(
        name,
        is_member,
        Overload("in_list", (_A, _LIST_A), BOOL, is_member, *price),
        Overload("in_map", (_A, _MAP_AB), BOOL, is_member),
    )


def _unary(name: str, id: str, call: Any) -> Function:
    return operator(name, call, Overload(id, (BOOL,), BOOL, call))


def _special(name: str, id: str, arguments: tuple[Type, ...], result: Type) -> Function:
    return operator(name, refuse, Overload(id, arguments, result, refuse))


def _size() -> Function:
    sized = {"bytes": BYTES, "list": _LIST_A, "map": _MAP_AB, "string": STRING}
    overloads: list[Overload] = []
    for name, type in sized.items():
        overloads.append(Overload(f"size_{name}", (type,), INT, len))
        overloads.append(member(f"{name}_size", (type,), INT, len))
    return operator("size", size, *overloads)


def _optional_indexing(id: str, container: Type, key: Type) -> Overload:
    return Overload(id, (container, key), _OPTIONAL_V, optional_index)


LIBRARY: Library = (
    _special("_?_:_", "conditional", (BOOL, _A, _A), _A),
    _special("_&&_", "logical_and", (BOOL, BOOL), BOOL),
    _special("_||_", "logical_or", (BOOL, BOOL), BOOL),
    _unary("!_", "logical_not", logical_not),
    _unary("@not_strictly_false", "not_strictly_false", not_strictly_false),
    _unary("__not_strictly_false__", "__not_strictly_false__", not_strictly_false),
    _membership("@in"),
    _membership("_in_"),
    _membership("in"),
    _size(),
    operator(
        "_[_]",
        index,
        Overload("index_list", (_LIST_A, INT), _A, index),
        Overload("index_map", (_MAP_AB, _A), _B, index),
        Overload("optional_list_index_int", (_OPTIONAL_LIST, INT), _OPTIONAL_V, index),
        Overload("optional_map_index_value", (_OPTIONAL_MAP, _K), _OPTIONAL_V, index),
    ),
    operator(
        "_[?_]",
        optional_index,
        _optional_indexing("list_optindex_optional_int", _LIST_V, INT),
        _optional_indexing("optional_list_optindex_optional_int", _OPTIONAL_LIST, INT),
        _optional_indexing("map_optindex_optional_value", _MAP_KV, _K),
        _optional_indexing("optional_map_optindex_optional_value", _OPTIONAL_MAP, _K),
    ),
    operator("_?._", optional_index, _optional_indexing("select_optional_field", DYN, STRING)),
)
