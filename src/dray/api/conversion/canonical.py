"""The canonical form of objects: as Go writes an object that it has read.

Unknown fields are gone, null is absent, quantities and times have their one canonical form, and
empty values are left out or written out as the Go type of the field says (`resources: {}` in a
container, `lastProbeTime: null` in a pod's condition). Kubernetes stores most kinds as protobuf,
which knows no empty list: one that is always written reads back as null.

The object must be well formed: `decoding.check` finds nothing mistyped or malformed.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dray.api.formats import gotime, quantity, remembered
from dray.api.schema import field_types
from dray.api.schema.field_types import Omission, SchemaField, Type, WireForm

_ZERO_TIME = "0001-01-01T00:00:00Z"

_COLLECTIONS = frozenset({WireForm.LIST, WireForm.MAP, WireForm.BYTES})
_TIMES = frozenset({WireForm.TIME, WireForm.MICRO_TIME})
_SCALAR_ZEROS: dict[WireForm, object] = {
    WireForm.STRING: "",
    WireForm.BOOLEAN: False,
    WireForm.INT32: 0,
    WireForm.INT64: 0,
    WireForm.FLOAT: 0,
}
_OTHER_ZEROS: dict[WireForm, object] = {WireForm.QUANTITY: "0", WireForm.INT_OR_STRING: 0}

Writer = Callable[[Any], Any]


def write(type_name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return `value` in canonical form, as a new object."""
    written: dict[str, Any] = _struct_writer(type_name, True)(value)
    return written


def write_field(type_name: str, name: str, value: Any) -> Any:
    """Return one field of an object as `write` has it, or null if the field has no value."""
    writer = _field_writers(type_name, True).fields[name].write
    return value if writer is None or value is None else writer(value)


def without_nulls(type_name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the canonical form without null fields, as wire structs need it."""
    written: dict[str, Any] = _struct_writer(type_name, False)(value)
    return written


class _FieldWriter(NamedTuple):
    """The writer of one field.

    `write` is None if the value does not change, `absent` if a field without a value is left out.
    """

    write: Writer | None
    drops_empty: bool
    absent: Callable[[], Any] | None


_PLAIN = _FieldWriter(None, True, None)
"""How most fields are written: as they are, and not at all where they are empty."""


class _StructWriter(NamedTuple):
    fields: Mapping[str, _FieldWriter]
    always: Sequence[tuple[str, Callable[[], Any]]]
    """What is written also where the object has no such field."""


@functools.cache
def _writer(type: Type, nulls: bool) -> Writer | None:
    """Return the function that turns a value other than null into Go's form.

    None if nothing changes.
    """
    match type.form:
        case WireForm.STRUCT:
            return _struct_writer(type.name, nulls)
        case WireForm.MAP:
            return _map_writer(type, nulls)
        case WireForm.LIST:
            return _list_writer(type, nulls)
        case WireForm.QUANTITY:
            return _quantity_text
        case WireForm.TIME:
            return functools.partial(_time_text, layout=gotime.SECONDS)
        case WireForm.MICRO_TIME:
            return functools.partial(_time_text, layout=gotime.MICROSECONDS)
        case _:
            return None


@functools.cache
def _struct_writer(struct: str, nulls: bool) -> Writer:
    def write_struct(value: Mapping[str, Any]) -> dict[str, Any]:
        # Looked up here and not outside, because structures may contain themselves.
        fields, always = _field_writers(struct, nulls)
        written: dict[str, Any] = {}
        for name, item in value.items():
            field = fields.get(name)
            if field is _PLAIN:
                if item:
                    written[name] = item
                continue
            if field is None:
                continue
            write_value, drops_empty, absent = field
            is_absent = item is None
            if not is_absent and write_value is not None:
                item = write_value(item)
            if not (is_absent or (drops_empty and not item)):
                written[name] = item
            elif absent is not None:
                written[name] = absent()
        for name, zero in always:
            if name not in value:
                written[name] = zero()
        return written

    return write_struct


@functools.cache
def _field_writers(struct: str, nulls: bool) -> _StructWriter:
    fields = {
        field.name: _field_writer(field, nulls) for field in field_types.fields(struct).values()
    }
    always = [(name, field.absent) for name, field in fields.items() if field.absent is not None]
    return _StructWriter(fields, always)


def _field_writer(field: SchemaField, nulls: bool) -> _FieldWriter:
    writer = _FieldWriter(_writer(field.type, nulls), _drops_empty(field), _absent(field, nulls))
    return _PLAIN if writer == _PLAIN else writer


def _drops_empty(field: SchemaField) -> bool:
    """Return whether an empty value is the same as none."""
    if field.type.is_pointer:
        return False
    if field.type.form in _SCALAR_ZEROS:
        return field.omission is not Omission.NEVER
    return field.type.form in _COLLECTIONS | _TIMES


def _absent(field: SchemaField, nulls: bool) -> Callable[[], Any] | None:
    """Return a factory of the form of null and of absent values, or None if nothing is written."""
    zero = _zero(field.type, nulls)
    # To Go, `omitempty` says nothing about structures, nor about types with a form of their own.
    can_be_empty = (
        field.type.is_pointer or field.type.form in _COLLECTIONS or field.type.form in _SCALAR_ZEROS
    )
    is_omitted = field.omission is Omission.WHEN_ZERO or (
        field.omission is Omission.WHEN_EMPTY and can_be_empty
    )
    if is_omitted or (not nulls and _is_null(field.type)):
        return None
    return zero


def _zero(type: Type, nulls: bool) -> Callable[[], Any]:
    """Return a factory of what Go writes for the type's zero value."""
    if _is_null(type):
        return lambda: None
    if type.form is WireForm.STRUCT:
        write_struct = _struct_writer(type.name, nulls)
        return lambda: write_struct({})
    zero = (_SCALAR_ZEROS | _OTHER_ZEROS)[type.form]
    return lambda: zero


def _is_null(type: Type) -> bool:
    """Return whether Go writes the type's zero value as null."""
    has_zero = type.form in _SCALAR_ZEROS or type.form in _OTHER_ZEROS
    return type.is_pointer or not (has_zero or type.form is WireForm.STRUCT)


def _map_writer(type: Type, nulls: bool) -> Writer:
    write_value, zero = _element_writers(type, nulls)

    def write_map(value: Mapping[str, Any]) -> dict[str, Any]:
        if write_value is None:
            return {key: zero() if item is None else item for key, item in value.items()}
        return {key: zero() if item is None else write_value(item) for key, item in value.items()}

    return write_map


def _list_writer(type: Type, nulls: bool) -> Writer:
    write_value, zero = _element_writers(type, nulls)

    def write_list(value: list[Any]) -> list[Any]:
        if write_value is None:
            return [zero() if item is None else item for item in value]
        return [zero() if item is None else write_value(item) for item in value]

    return write_list


def _element_writers(type: Type, nulls: bool) -> tuple[Writer | None, Callable[[], Any]]:
    """Return the writers for the elements of a list or map, in which null is the zero value."""
    assert type.element is not None, type
    if type.element.form is WireForm.BYTES:
        # In protobuf, in which Kubernetes stores objects, no bytes are empty bytes.
        return None, str
    return _writer(type.element, nulls), _zero(type.element, nulls)


def _quantity_text(value: Any) -> str:
    return _canonical_quantity(value if isinstance(value, str) else json.dumps(value))


@remembered.for_short_texts(4096)
def _canonical_quantity(text: str) -> str:
    return str(quantity.parse(text.strip()))


@remembered.for_short_texts(4096)
def _time_text(value: str, layout: str) -> str | None:
    """Return the time in UTC; Go's zero time is written as null."""
    time = gotime.parse(value, layout)
    return None if gotime.write(time) == _ZERO_TIME else gotime.write(time, layout)


def prune_nulls(value: Any) -> Any:
    """Return the value without the members that are null, at any depth; nothing is filled in."""
    if isinstance(value, dict):
        return {key: prune_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [prune_nulls(item) for item in value]
    return value
