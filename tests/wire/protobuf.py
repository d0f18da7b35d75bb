"""Objects as client-go's typed clients send them, also those of kinds that dray does not serve."""

from __future__ import annotations

from dray.api.types.meta import JsonObject
from dray.apiserver.request import protobuf_encoding
from dray.apiserver.request.protobuf_types import MAGIC


def encode(document: JsonObject) -> bytes:
    try:
        return protobuf_encoding.encode(document)
    except KeyError:
        parts = [document["apiVersion"].encode(), document["kind"].encode()]
        meta = b"".join(
            bytes([number << 3 | 2, len(part)]) + part for number, part in enumerate(parts, 1)
        )
        return MAGIC + b"\x0a" + bytes([len(meta)]) + meta
