"""Run-time support of compiled expressions: selection, iteration, construction.

A selection `a.b`, `a['b']` or `a.?b` qualifies a value with a key. As in cel-go
(interpreter/attributes.go, applyQualifiers) a chain of them that starts at an optional, or has an
optional step, only probes from there on and gives an optional.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dray.cel.runtime import text_format, values
from dray.cel.runtime.values import MISSING, NONE, EvaluationError, Optional, UInt

SEPARATOR = "\0"

_KEY_CLASSES = frozenset({str, int, UInt, float, bool})

_GO_NAMES: dict[type, str] = {
    type(None): "types.Null",
    bool: "types.Bool",
    int: "types.Int",
    UInt: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    dict: "*types.baseMap",
    values.DefaultingMap: "cel.mapper",
    **dict.fromkeys((list, tuple, range), "*types.baseList"),
    values.Concatenation: "*types.concatList",
    values.Duration: "types.Duration",
    values.Timestamp: "types.Timestamp",
    Optional: "*types.Optional",
    values.ComputedQuantity: "*cel.Quantity",
}


def go_name(value: Any) -> str:
    """Return the name of the Go type that upstream's messages show."""
    name = _GO_NAMES.get(value.__class__)
    if name is None:
        name = f"cel.{values.type_name(value).rpartition('.')[2]}"
    return name


def shortcut(*keys: str) -> str:
    """Return the key under which an object may hold a copy of the value that these keys lead to."""
    return SEPARATOR.join(keys)


def invalid_key(key: Any) -> str | None:
    """Return why a value cannot be a key or an index, or None if it can."""
    return None if key.__class__ in _KEY_CLASSES else f"invalid qualifier type: {go_name(key)}"


def probe(value: Any, key: Any) -> Any:
    """Return the entry of a map or list; MISSING if it does not exist."""
    if key.__class__ not in _KEY_CLASSES:
        raise EvaluationError(invalid_key(key))
    if value.__class__ is dict:
        return values.find(value, key, MISSING)
    if value.__class__ is values.DefaultingMap:
        return values.find(value, key, value.default)
    if isinstance(value, values.Object):
        return _field(value, key)
    if value.__class__ in values.LIST_CLASSES:
        index = _list_index(key)
        return value[index] if 0 <= index < len(value) else MISSING
    return MISSING


def _field(fields: values.Object, key: Any) -> Any:
    try:
        return fields[key]
    except KeyError:
        return MISSING


def as_value(variable: Any) -> Any:
    """Return a variable that is used as a whole."""
    return variable.as_map() if isinstance(variable, values.Object) else variable


def qualify(value: Any, key: Any) -> Any:
    """Return the entry of a map or list, which must exist."""
    result = probe(value, key)
    if result is MISSING:
        raise _missing(value, key)
    return result


def is_present(value: Any, key: Any) -> bool:
    """Evaluate `has()`."""
    return probe(value, key) is not MISSING


def _missing(value: Any, key: Any) -> EvaluationError:
    is_list = value.__class__ in values.LIST_CLASSES
    problem = "index out of bounds" if is_list else "no such key"
    return EvaluationError(f"{problem}: {text_format.printed(key)}")


def _list_index(key: Any) -> int:
    if key.__class__ is int:
        return int(key)
    if key.__class__ is float or key.__class__ is UInt:
        # Infinity and NaN are no integers.
        if float(key).is_integer() and key <= values.MAXIMUM_INT:
            return int(key)
        raise EvaluationError(f"unsupported index value {text_format.printed(key)} in list")
    raise EvaluationError(f"unsupported index type '{values.type_name(key)}' in list")


def unwrap(value: Any) -> Any:
    """Return the start of a chain of selections: of an optional its value, or MISSING."""
    if value.__class__ is not Optional:
        return value
    return MISSING if value is NONE else value.value


def advance(value: Any, key: Any, is_optional: bool) -> Any:
    """Take one step of a chain; an optional step returns MISSING if the entry does not exist."""
    return probe(value, key) if is_optional else qualify(value, key)


def wrap(value: Any, is_optional: bool = True) -> Any:
    """Return the result of a chain of selections."""
    if not is_optional:
        return value
    return NONE if value is MISSING else Optional(value)


def qualify_all(start: Any, keys: Sequence[Any]) -> Any:
    """Evaluate a chain of plain selections from a value that may be an optional."""
    if start.__class__ is not Optional:
        for key in keys:
            start = qualify(start, key)
        return start
    selected = unwrap(start)
    for key in keys:
        if selected is MISSING:
            break
        selected = probe(selected, key)
    return wrap(selected)


def elements(value: Any) -> Iterable[Any]:
    """Return the elements of a loop with one variable."""
    if value.__class__ in values.LIST_CLASSES:
        return value  # type: ignore[no-any-return]
    if isinstance(value, dict):
        return values.keys(value)
    raise EvaluationError(f"got '{go_name(value)}', expected iterable type")


def entries(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the entries of a loop with two variables."""
    if value.__class__ in values.LIST_CLASSES:
        return enumerate(value)
    if isinstance(value, dict):
        return _map_entries(value)
    raise EvaluationError(f"unsupported comprehension range type: {go_name(value)}")


def _map_entries(value: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    for key, entry in value.items():
        yield values.key_value(key), entry


def insert(collected: dict[Any, Any], key: Any, value: Any) -> None:
    """Add an entry to the map that a loop builds."""
    if values.find(collected, key, MISSING) is not MISSING:
        raise EvaluationError(f"insert failed: key {text_format.printed(key)} already exists")
    collected[values.map_key(key)] = value


def insert_all(collected: dict[Any, Any], added: dict[Any, Any]) -> None:
    for key, value in entries(added):
        insert(collected, key, value)


def append_optional(collected: list[Any], element: Any) -> None:
    """Add an element `?element` to a list literal."""
    if element.__class__ is not Optional:
        shown = text_format.printed(element)
        message = f"cannot initialize optional list element from non-optional value {shown}"
        raise EvaluationError(message)
    if element is not NONE:
        collected.append(element.value)


def put(collected: dict[Any, Any], key: Any, value: Any) -> None:
    """Add an entry to a map literal; a later one for the same key wins."""
    collected[values.map_key(key)] = value


def put_optional(collected: dict[Any, Any], key: Any, value: Any) -> None:
    """Add an entry `?key: value` to a map literal; none removes an earlier entry."""
    if value.__class__ is not Optional:
        shown = f"'{text_format.printed(key)}' from non-optional value {text_format.printed(value)}"
        raise EvaluationError(f"cannot initialize optional entry {shown}")
    if value is NONE:
        collected.pop(values.map_key(key), None)
    else:
        put(collected, key, value.value)
