"""Objects with every field set that the schema has: what is lost on the way of one shows."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator
from typing import Any

from dray.api import kinds
from dray.api.kinds import GroupVersionKind
from dray.api.schema import field_types
from dray.api.schema.field_types import Type, WireForm
from dray.api.types.meta import JsonObject


def served() -> list[GroupVersionKind]:
    """Every kind that a client may send, in each version, and those of subresources."""
    own = [kind.in_version(version) for kind in kinds.KINDS for version in kind.versions]
    spoken = {
        subresource.kind
        for kind in kinds.KINDS
        for subresource in kind.subresources
        if subresource.kind and field_types.has(subresource.kind.schema_type)
    }
    return [*own, *sorted(spoken - set(own))]


def make(gvk: GroupVersionKind, type_name: str = "") -> JsonObject:
    """An object of the kind; values differ from field to field."""
    values = itertools.count(1)
    fields = _struct(type_name or gvk.schema_type, values)
    return {**fields, "apiVersion": gvk.api_version, "kind": gvk.kind}


def _struct(type_name: str, values: Iterator[int], above: tuple[str, ...] = ()) -> JsonObject:
    """A structure that can hold itself does so once."""
    inside = (*above, type_name)
    return {
        name: _value(field.type, values, inside)
        for name, field in field_types.fields(type_name).items()
        if field.embedded != "TypeMeta" and inside.count(field.type.content.name) < 2
    }


def _value(type_: Type, values: Iterator[int], inside: tuple[str, ...]) -> Any:
    if type_.form is WireForm.STRUCT:
        return _struct(type_.name, values, inside)
    if type_.form is WireForm.LIST:
        assert type_.element is not None
        # One structure is enough: lists of them in lists of them would make an object huge.
        count = 1 if type_.element.form is WireForm.STRUCT else 2
        return [_value(type_.element, values, inside) for _ in range(count)]
    if type_.form is WireForm.MAP:
        assert type_.element is not None
        return {f"key-{n}": _value(type_.element, values, inside) for n in range(2)}
    return _scalar(type_.form, next(values))


def _scalar(form: WireForm, value: int) -> Any:
    match form:
        case WireForm.STRING:
            return f"text-{value} ä"
        case WireForm.BOOLEAN:
            return True
        case WireForm.INT32:
            return value if value % 2 else -value
        case WireForm.INT64:
            return 2**40 + value if value % 2 else -(2**40) - value
        case WireForm.FLOAT:
            return value + 0.5
        case WireForm.BYTES:
            return base64.b64encode(bytes([value % 256, 0, 255])).decode()
        case WireForm.QUANTITY:
            return f"{value}m"
        case WireForm.INT_OR_STRING:
            return value if value % 2 else f"{value}%"
        case WireForm.TIME:
            return f"20{value % 100:02}-02-03T04:05:06Z"
        case WireForm.MICRO_TIME:
            return f"20{value % 100:02}-02-03T04:05:06.000{value % 1000:03}Z"
        case WireForm.RAW | WireForm.FIELD_SET:
            return {f"f:{value}": {"list": [1, "two", None, {"x": 1.5}]}}
    raise AssertionError(form)
