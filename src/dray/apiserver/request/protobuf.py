"""Protobuf request bodies, as client-go's typed clients send them, become JSON objects.

A body is four magic bytes and a runtime.Unknown message: apiVersion, kind and the object's bytes.
"""

from __future__ import annotations

import base64
import datetime
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from dray.api import errors
from dray.api.formats import gojson, gotime
from dray.api.schema.field_types import Type, WireForm
from dray.api.types.meta import JsonObject
from dray.apiserver.request import protobuf_types
from dray.apiserver.request.protobuf_types import MAGIC, Embedded, Layout

MAX_DEPTH = 100
MAX_VALUES = 250_000
"""More than an object that can be stored has; each costs about two microseconds."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Malformed(ValueError):
    """The bytes do not match the field numbers."""


def decode(body: bytes) -> JsonObject:
    """Return the object of a body. Raises 400 if it cannot be decoded, 413 if it is too large."""
    if not body.startswith(MAGIC):
        raise errors.bad_request("the body does not start with the magic bytes of protobuf")
    try:
        return _decode_unknown(body[len(MAGIC) :])
    except (ValueError, IndexError) as error:
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
    try:
        type_name = protobuf_types.type_of(api_version, kind)
    except KeyError as error:
        raise Malformed(error.args[0]) from error
    return {"apiVersion": api_version, "kind": kind, **_Decoder().message(raw, type_name)}


class _Decoder:
    """The reading of one body, which ends where the body has too many values."""

    def __init__(self) -> None:
        self._values = 0

    def message(self, data: bytes, type_name: str, depth: int = 0) -> JsonObject:
        if depth > MAX_DEPTH:
            raise Malformed(f"nested more than {MAX_DEPTH} levels deep")
        result: JsonObject = {}
        self._read_into(result, data, protobuf_types.layout(type_name), depth)
        return result

    def _read_into(self, result: JsonObject, data: bytes, layout: Layout, depth: int) -> None:
        """Add the fields of a message; numbers that are unknown are those of newer versions."""
        for number, value in _fields(data):
            field = layout.get(number)
            if field is None:
                continue
            if isinstance(field, Embedded):
                self._read_into(result, _as_bytes(value), field.fields, depth)
            else:
                self._put(result, field.name, field.type, value, depth)

    def _put(
        self, result: JsonObject, name: str, type_: Type, value: int | bytes, depth: int
    ) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise errors.request_entity_too_large(f"limit is {MAX_VALUES} values in protobuf")
        if type_.form is WireForm.LIST and not type_.name:
            assert type_.element is not None
            result.setdefault(name, []).append(self._value(type_.element, value, depth))
        elif type_.form is WireForm.MAP:
            assert type_.element is not None
            key, item = self._map_entry(_as_bytes(value), type_.element, depth)
            result.setdefault(name, {})[key] = item
        else:
            result[name] = self._value(type_, value, depth)

    def _map_entry(self, data: bytes, element: Type, depth: int) -> tuple[str, Any]:
        parts = dict(_fields(data))
        return _text(parts.get(1, b"")), self._value(element, parts.get(2, b""), depth)

    def _value(self, type_: Type, value: int | bytes, depth: int) -> Any:
        form = type_.form
        if form is WireForm.STRUCT:
            return self.message(_as_bytes(value), type_.name, depth + 1)
        if form is WireForm.LIST:
            # A list with a name, such as ExtraValue, is a message with its items.
            assert type_.element is not None
            return [
                self._value(type_.element, item, depth) for _, item in _fields(_as_bytes(value))
            ]
        reader = _READERS.get(form)
        if reader is None:
            raise Malformed(f"a field of the form {form.name} is not allowed here")
        return reader(value)


def _text(value: int | bytes) -> str:
    return _as_bytes(value).decode("utf-8")


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise Malformed("a number instead of a message or a string")
    return value


def _as_int(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise Malformed("a string instead of a number")
    return value - 2**64 if value >= 2**63 else value


def _float(value: int | bytes) -> float:
    if not isinstance(value, int):
        raise Malformed("a string instead of a number")
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
        if wire_type == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire_type == _BYTES:
            length, position = _varint(data, position)
        elif wire_type in (_FIXED64, _FIXED32):
            length = 8 if wire_type == _FIXED64 else 4
        else:
            raise Malformed(f"wire type {wire_type} is unknown")
        if position + length > end:
            raise Malformed("a field is longer than its message")
        content, position = data[position : position + length], position + length
        yield number, content if wire_type == _BYTES else int.from_bytes(content, "little")


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
