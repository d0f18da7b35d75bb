"""Protobuf request bodies, as client-go's typed clients send them, become JSON objects.

A body is four magic bytes and a runtime.Unknown message: apiVersion, kind and the object's bytes.
`protobuf_fields.json` has the field numbers of every served type; `api.schema` has the types of
fields, and so the encoding of their bytes. A name with a star embeds that type's fields.
"""

from __future__ import annotations

import base64
import datetime
import functools
import pkgutil
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from dray.api import errors, kinds
from dray.api.formats import gojson, gotime
from dray.api.kinds import GroupVersionKind
from dray.api.schema import field_types
from dray.api.schema.field_types import Type, WireForm
from dray.api.types.meta import JsonObject

MAGIC = b"k8s\0"
MAX_DEPTH = 100
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Malformed(ValueError):
    """The bytes do not match the field numbers."""


def decode(body: bytes) -> JsonObject:
    """Return the object of a body. Raises 400 if it cannot be decoded."""
    if not body.startswith(MAGIC):
        raise errors.bad_request("the body does not start with the magic bytes of protobuf")
    try:
        return _decode_unknown(body[len(MAGIC) :])
    except (Malformed, UnicodeDecodeError, struct.error, IndexError) as error:
        raise errors.bad_request(f"the protobuf body cannot be read: {error}") from error


def _decode_unknown(data: bytes) -> JsonObject:
    api_version = kind = ""
    raw = b""
    for number, value in _fields(data):
        if number == 1:
            parts = {key: _text(text) for key, text in _fields(_as_bytes(value))}
            api_version, kind = parts.get(1, ""), parts.get(2, "")
        elif number == 2:
            raw = _as_bytes(value)
        elif number == 3 and value:
            raise Malformed("compressed bodies are not supported")
    type_name = GroupVersionKind(*kinds.parse_api_version(api_version), kind).schema_type
    if type_name not in _numbers():
        raise Malformed(f"no {kind} in {api_version or 'an empty apiVersion'}")
    return {"apiVersion": api_version, "kind": kind, **_message(raw, type_name, 0)}


@functools.cache
def _numbers() -> Mapping[str, Mapping[int, str]]:
    data = pkgutil.get_data("dray.apiserver.request", "protobuf_fields.json")
    assert data is not None
    table: dict[str, str] = msgspec.json.decode(data)
    return {name: _parse_row(row) for name, row in table.items()}


def _parse_row(row: str) -> dict[int, str]:
    return {int(number): name for number, _, name in (item.partition("=") for item in row.split())}


def _message(data: bytes, type_name: str, depth: int) -> JsonObject:
    if depth > MAX_DEPTH:
        raise Malformed(f"nested more than {MAX_DEPTH} levels deep")
    numbers, types = _numbers()[type_name], field_types.fields(type_name)
    result: JsonObject = {}
    for number, value in _fields(data):
        name = numbers.get(number)
        if name is None:
            continue
        if name.startswith("*"):
            embedded = _message(_as_bytes(value), name[1:], depth + 1)
            result.update(embedded)
        else:
            _put(result, name, types[name].type, value, depth)
    return result


def _put(result: JsonObject, name: str, type_: Type, value: int | bytes, depth: int) -> None:
    if type_.form is WireForm.LIST:
        assert type_.element is not None
        result.setdefault(name, []).append(_value(type_.element, value, depth))
    elif type_.form is WireForm.MAP:
        assert type_.element is not None
        key, item = _map_entry(_as_bytes(value), type_.element, depth)
        result.setdefault(name, {})[key] = item
    else:
        result[name] = _value(type_, value, depth)


def _map_entry(data: bytes, element: Type, depth: int) -> tuple[str, Any]:
    parts = dict(_fields(data))
    value = parts.get(2, b"")
    if element.form is WireForm.LIST:
        assert element.element is not None
        item: Any = [
            _value(element.element, element_bytes, depth)
            for _, element_bytes in _fields(_as_bytes(value))
        ]
    else:
        item = _value(element, value, depth)
    return _text(parts.get(1, b"")), item


def _value(type_: Type, value: int | bytes, depth: int) -> Any:
    form = type_.form
    if form is WireForm.STRUCT:
        return _message(_as_bytes(value), type_.name, depth + 1)
    reader = _READERS.get(form)
    if reader is None:
        raise Malformed(f"a field of the form {form.name} cannot stand here")
    return reader(value)


def _text(value: int | bytes) -> str:
    return _as_bytes(value).decode("utf-8")


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise Malformed("a number stands where a message or a string is due")
    return value


def _as_int(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise Malformed("a string stands where a number is due")
    return value - 2**64 if value >= 2**63 else value


def _float(value: int | bytes) -> float:
    if not isinstance(value, int):
        raise Malformed("a string stands where a number is due")
    number: float = struct.unpack("<d", value.to_bytes(8, "little"))[0]
    return number


def _quantity(value: int | bytes) -> str:
    return _text(dict(_fields(_as_bytes(value))).get(1, b"0"))


def _time(layout: str) -> Any:
    def read(value: int | bytes) -> str | None:
        parts = dict(_fields(_as_bytes(value)))
        if not parts:
            return None
        micros = _as_int(parts.get(1, 0)) * 10**6 + _as_int(parts.get(2, 0)) // 1000
        try:
            return gotime.write(_EPOCH + datetime.timedelta(microseconds=micros), layout)
        except OverflowError as error:
            raise Malformed("a time is out of range") from error

    return read


def _int_or_string(value: int | bytes) -> int | str:
    parts = dict(_fields(_as_bytes(value)))
    if parts.get(1, 0) == 1:
        return _text(parts.get(3, b""))
    return _as_int(parts.get(2, 0))


def _raw(value: int | bytes) -> Any:
    content = _as_bytes(dict(_fields(_as_bytes(value))).get(1, b"null"))
    try:
        return gojson.decode(content)
    except gojson.JsonSyntaxError as error:
        raise Malformed(f"a field is not JSON: {error}") from error


def _base64(value: int | bytes) -> str:
    return base64.b64encode(_as_bytes(value)).decode("ascii")


_READERS: Mapping[WireForm, Any] = {
    WireForm.STRING: _text,
    WireForm.BOOLEAN: lambda value: bool(_as_int(value)),
    WireForm.INT32: _as_int,
    WireForm.INT64: _as_int,
    WireForm.FLOAT: _float,
    WireForm.BYTES: _base64,
    WireForm.QUANTITY: _quantity,
    WireForm.INT_OR_STRING: _int_or_string,
    WireForm.TIME: _time(gotime.SECONDS),
    WireForm.MICRO_TIME: _time(gotime.MICROSECONDS),
    WireForm.RAW: _raw,
    WireForm.FIELD_SET: _raw,
}


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield field numbers and values of one message; Kubernetes' types have no packed lists."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        value: int | bytes
        if wire_type == _VARINT:
            value, position = _varint(data, position)
        elif wire_type == _BYTES:
            length, position = _varint(data, position)
            if position + length > end:
                raise Malformed("a field is longer than its message")
            value, position = data[position : position + length], position + length
        elif wire_type in (_FIXED64, _FIXED32):
            width = 8 if wire_type == _FIXED64 else 4
            value = int.from_bytes(data[position : position + width], "little")
            position += width
        else:
            raise Malformed(f"wire type {wire_type} is unknown")
        yield number, value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & (2**64 - 1), position
        shift += 7
        if shift > 63:
            raise Malformed("a number is longer than 64 bits")
