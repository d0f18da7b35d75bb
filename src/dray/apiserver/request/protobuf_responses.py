"""Responses in protobuf, for clients that accept nothing else: made from the JSON of a response.

Whoever accepts JSON as well gets that, which is stored and needs no encoding.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import msgspec

from dray.api import errors, http_messages
from dray.api.http_messages import Response
from dray.api.types.meta import JsonObject
from dray.apiserver.request import negotiation, protobuf_encoding

_TABLE = negotiation.Shape.TABLE.value
_STREAM = f"{http_messages.PROTOBUF};stream=watch"


class _Event(msgspec.Struct):
    type: str
    object: JsonObject


_decode_event = msgspec.json.Decoder(_Event).decode


def is_wanted(request_headers: Mapping[str, str]) -> bool:
    """Return whether the client accepts protobuf, but not JSON."""
    accept = request_headers.get("accept", "")
    return http_messages.PROTOBUF in accept and negotiation.is_protobuf(accept, tables=False)


def converted(response: Response, request_headers: Mapping[str, str]) -> Response:
    """Return the response in protobuf if the client accepts only that, else as it is."""
    if not is_wanted(request_headers) or not _is_json(response):
        return response
    accept = request_headers["accept"]
    if response.stream is not None:
        if not negotiation.is_protobuf(accept, tables=True):
            return response
        headers = {**response.headers, "content-type": _STREAM}
        return Response(response.status, headers, stream=_frames(response.stream))
    document = msgspec.json.decode(response.body) if response.body else {}
    if "kind" not in document:
        # Not an object of the API: the version, the paths of the server.
        return response
    if not negotiation.is_protobuf(accept, tables=document.get("kind") == _TABLE):
        return response
    return _encoded(response, document)


def _encoded(response: Response, document: JsonObject) -> Response:
    try:
        body = protobuf_encoding.encode(document)
    except KeyError:
        # Kubernetes has no protobuf form of it either, or dray does not know it.
        refusal = errors.not_acceptable((http_messages.JSON, http_messages.YAML))
        body = protobuf_encoding.encode(errors.to_status(refusal))
        return Response(refusal.code, {"content-type": http_messages.PROTOBUF}, body)
    headers = {**response.headers, "content-type": http_messages.PROTOBUF}
    return msgspec.structs.replace(response, headers=headers, body=body)


def _is_json(response: Response) -> bool:
    return response.headers.get("content-type") == http_messages.JSON


async def _frames(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the events of each chunk, which has whole lines."""
    async for chunk in lines:
        events = map(_decode_event, chunk.splitlines())
        yield b"".join(protobuf_encoding.encode_event(event.type, event.object) for event in events)
