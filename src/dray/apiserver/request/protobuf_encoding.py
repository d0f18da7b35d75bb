"""Objects in protobuf, as client-go's typed clients read them: the reverse of `protobuf`.

The writer of a type is composed once from the types of its fields. What JSON leaves out is left out
here, too; Go reads the same object from both.
"""

from __future__ import annotations

import base64
import datetime
import functools
import struct
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dray.api.formats import gotime
from dray.api.schema.field_types import Type, WireForm
from dray.api.types.meta import JsonObject
from dray.apiserver.request import protobuf_types
from dray.apiserver.request.protobuf_types import MAGIC, Embedded, Layout

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_VARINT, _FIXED64, _BYTES = 0, 1, 2

Write = Callable[[Any], bytes]


def encode(document: JsonObject) -> bytes:
    """Return a body: magic bytes, and the type beside the object. Raises KeyError (`type_of`)."""
    # Discovery leaves out the version of its own kinds.
    api_version, kind = document.get("apiVersion", "v1"), document["kind"]
    name = protobuf_types.type_of(api_version, kind)
    type_meta = _bytes(1, api_version.encode()) + _bytes(2, kind.encode())
    message = _bytes(1, type_meta) + _bytes(2, _object(name, document))
    # Go writes the empty encoding and media type, too.
    return b"%b%b\x1a\x00\x22\x00" % (MAGIC, message)


def encode_event(type_: str, document: JsonObject) -> bytes:
    """Return an event of a watch: the length in four bytes, then the message."""
    body = _bytes(1, type_.encode()) + _bytes(2, _bytes(1, encode(document)))
    return len(body).to_bytes(4, "big") + body


def _object(type_name: str, document: JsonObject) -> bytes:
    if type_name == protobuf_types.METADATA_LIST:
        items = (_object(protobuf_types.METADATA, item) for item in document["items"])
        listed = b"".join(_bytes(2, data) for data in items)
        return _message_writer(type_name)(document) + listed
    return _message_writer(type_name)(document)


@functools.cache
def _message_writer(type_name: str) -> Write:
    return _layout_writer(protobuf_types.layout(type_name))


def _layout_writer(layout: Layout) -> Write:
    embedded = {number: field for number, field in layout.items() if isinstance(field, Embedded)}
    write_own = _fields_writer(layout)
    if not embedded:
        return write_own
    inner = [(number, _layout_writer(field.fields)) for number, field in embedded.items()]

    def write(value: Mapping[str, Any]) -> bytes:
        parts = [write_own(value)]
        for number, write_inner in inner:
            if content := write_inner(value):
                parts.append(_bytes(number, content))
        return b"".join(parts)

    return write


def _fields_writer(layout: Layout) -> Write:
    # Types refer to themselves (JSON schemas do), so a structure's writer is made when it is used.
    writers: dict[str, Write] = {}
    missing = {
        field.name: (number, field.type)
        for number, field in layout.items()
        if not isinstance(field, Embedded)
    }

    def write(value: Mapping[str, Any]) -> bytes:
        parts = []
        for name, item in value.items():
            if item is None:
                continue
            writer = writers.get(name)
            if writer is None:
                if name not in missing:
                    continue
                writer = writers[name] = _field_writer(*missing[name])
            parts.append(writer(item))
        return b"".join(parts)

    return write


def _field_writer(number: int, type_: Type) -> Write:
    """Return the function that writes a field, its number included."""
    form = type_.form
    if form is WireForm.LIST:
        assert type_.element is not None
        if type_.name:
            # A list with a name, such as ExtraValue, is a message with its items.
            return _delimited(number, _repeated(1, type_.element))
        return _repeated(number, type_.element)
    if form is WireForm.MAP:
        assert type_.element is not None
        return _map_writer(number, type_.element)
    if form in _NUMBERS:
        tag = _varint(number << 3 | _VARINT)
        return lambda value: tag + _varint(int(value))
    if form is WireForm.FLOAT:
        tag = _varint(number << 3 | _FIXED64)
        return lambda value: tag + struct.pack("<d", value)
    content = _message_writer(type_.name) if form is WireForm.STRUCT else _CONTENTS[form]
    return _delimited(number, content)


def _repeated(number: int, element: Type) -> Write:
    one = _field_writer(number, element)
    return lambda items: b"".join(map(one, items))


def _delimited(number: int, content: Write) -> Write:
    tag = _varint(number << 3 | _BYTES)
    heads = [tag + bytes([length]) for length in range(0x80)]

    def write(value: Any) -> bytes:
        data = content(value)
        length = len(data)
        return heads[length] + data if length < 0x80 else tag + _varint(length) + data

    return write


def _map_writer(number: int, element: Type) -> Write:
    write_value = _field_writer(2, element)

    def write_entry(key: str, value: Any) -> bytes:
        # A null is a list or bytes without a value, which Go leaves out.
        return _bytes(1, key.encode()) + (b"" if value is None else write_value(value))

    def write(entries: Mapping[str, Any]) -> bytes:
        return b"".join(_bytes(number, write_entry(key, entries[key])) for key in sorted(entries))

    return write


def _bytes(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    value &= 2**64 - 1
    groups = bytearray()
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


_ONE_BYTE = [bytes([value]) for value in range(0x80)]


def _quantity(value: Any) -> bytes:
    return _bytes(1, str(value).encode())


def _int_or_string(value: int | str) -> bytes:
    if isinstance(value, str):
        return b"\x08\x01\x10\x00" + _bytes(3, value.encode())
    return b"\x08\x00\x10" + _varint(value) + b"\x1a\x00"


def _time(layout: str) -> Write:
    @functools.lru_cache(maxsize=1024)
    def write(text: str) -> bytes:
        since = gotime.parse(text, layout) - _EPOCH
        seconds = since.days * 86400 + since.seconds
        nanoseconds = since.microseconds * 1000
        return b"\x08%b\x10%b" % (_varint(seconds), _varint(nanoseconds))

    return write


def _raw(value: Any) -> bytes:
    return _bytes(1, msgspec.json.encode(value))


_NUMBERS = frozenset({WireForm.BOOLEAN, WireForm.INT32, WireForm.INT64})
_CONTENTS: Mapping[WireForm, Write] = {
    WireForm.STRING: str.encode,
    WireForm.BYTES: base64.b64decode,
    WireForm.QUANTITY: _quantity,
    WireForm.INT_OR_STRING: _int_or_string,
    WireForm.TIME: _time(gotime.SECONDS),
    WireForm.MICRO_TIME: _time(gotime.MICROSECONDS),
    WireForm.RAW: _raw,
    WireForm.FIELD_SET: _raw,
}
