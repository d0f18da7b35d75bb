"""Objects as client-go's typed clients send them: the reverse of what the server reads."""

from __future__ import annotations

from typing import Any

from dray.api import kinds
from dray.api.kinds import GroupVersionKind
from dray.api.schema import field_types
from dray.api.schema.field_types import Type, WireForm
from dray.api.types.meta import JsonObject
from dray.apiserver.request import protobuf


def encode(document: JsonObject) -> bytes:
    api_version, kind = document["apiVersion"], document["kind"]
    type_name = GroupVersionKind(*kinds.parse_api_version(api_version), kind).schema_type
    meta = _bytes(1, api_version.encode()) + _bytes(2, kind.encode())
    if type_name not in protobuf._numbers():
        return protobuf.MAGIC + _bytes(1, meta)
    fields = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
    return protobuf.MAGIC + _bytes(1, meta) + _bytes(2, _message(type_name, fields))


def _message(type_name: str, value: JsonObject) -> bytes:
    numbers = {name: number for number, name in protobuf._numbers()[type_name].items()}
    types = field_types.fields(type_name)
    return b"".join(_field(numbers[name], types[name].type, item) for name, item in value.items())


def _field(number: int, type_: Type, value: Any) -> bytes:
    if type_.form is WireForm.LIST:
        assert type_.element is not None
        return b"".join(_field(number, type_.element, each) for each in value)
    if type_.form is WireForm.MAP:
        assert type_.element is not None
        return b"".join(
            _bytes(number, _bytes(1, key.encode()) + _field(2, type_.element, each))
            for key, each in value.items()
        )
    if type_.form is WireForm.STRUCT:
        return _bytes(number, _message(type_.name, value))
    if type_.form is WireForm.QUANTITY:
        return _bytes(number, _bytes(1, value.encode()))
    if isinstance(value, str):
        return _bytes(number, value.encode())
    return _varint(number << 3) + _varint(int(value))


def _bytes(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    groups = []
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])
