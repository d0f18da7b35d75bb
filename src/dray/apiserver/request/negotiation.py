"""Content negotiation: the form of a response, by `Accept` and `includeObject`."""

from __future__ import annotations

import functools
from enum import Enum
from typing import NamedTuple

from dray.api import errors, http_messages

OFFERED = (http_messages.JSON, http_messages.YAML, http_messages.PROTOBUF)
STREAMED = (f"{http_messages.JSON};stream=watch", f"{http_messages.PROTOBUF};stream=watch")


class Shape(Enum):
    """The form of objects in a response: themselves, a table, or their metadata."""

    OBJECT = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


class Form(NamedTuple):
    shape: Shape
    media_type: str = http_messages.JSON
    version: str = "v1"

    @property
    def is_metadata(self) -> bool:
        return self.shape in (Shape.METADATA, Shape.METADATA_LIST)

    @property
    def is_protobuf(self) -> bool:
        return self.media_type == http_messages.PROTOBUF


PLAIN = Form(Shape.OBJECT)
TABLE = f"as={Shape.TABLE.value}"
"""How a client asks for a table, in `Accept`."""
_JSON_LIKE = frozenset({http_messages.JSON, "*/*", "application/*"})
_UNDERSTOOD = _JSON_LIKE | {http_messages.YAML, http_messages.PROTOBUF}


@functools.lru_cache(maxsize=256)
def negotiate(accept: str, *, streams: bool = False, tables: bool = True) -> Form:
    """Return the form of the first clause that dray supports. Raises 406 if there is none.

    `streams`: whether the response may be a stream, which changes the list in the error. `tables`:
    whether the kind has a table. A response in protobuf is made from JSON (`protobuf_responses`),
    so that its form is that of JSON.
    """
    form = _negotiate(accept, streams, tables)
    return form._replace(media_type=http_messages.JSON) if form.is_protobuf else form


def is_protobuf(accept: str, *, tables: bool) -> bool:
    """Return whether the response is in protobuf: the client accepts it, but not JSON."""
    try:
        return _negotiate(accept, False, tables).is_protobuf
    except errors.StatusError:
        return False


@functools.lru_cache(maxsize=256)
def _negotiate(accept: str, streams: bool, tables: bool) -> Form:
    if not accept:
        return PLAIN
    clauses = sorted(map(_parse_clause, accept.split(",")), key=lambda clause: -clause.quality)
    forms = [form for form in map(_read_clause, clauses) if form is not None]
    if not tables:
        forms = [form for form in forms if form.shape is not Shape.TABLE]
    if forms:
        # JSON rather than protobuf where the client takes the same in both.
        as_json = forms[0]._replace(media_type=http_messages.JSON)
        return as_json if forms[0].is_protobuf and as_json in forms else forms[0]
    if any(clause.media_type in _UNDERSTOOD for clause in clauses):
        raise errors.not_acceptable(OFFERED)
    raise errors.no_representation((*OFFERED, *(STREAMED if streams else ())))


class _Clause(NamedTuple):
    media_type: str
    parameters: dict[str, str]
    quality: float


def _parse_clause(text: str) -> _Clause:
    media_type, *rest = (part.strip() for part in text.split(";"))
    parameters = dict(part.split("=", 1) for part in rest if "=" in part)
    try:
        quality = float(parameters.get("q", 1))
    except ValueError:
        quality = 1.0
    return _Clause(media_type, parameters, quality)


def _read_clause(clause: _Clause) -> Form | None:
    media_type, parameters, _quality = clause
    if media_type not in _UNDERSTOOD:
        return None
    is_json = media_type in _JSON_LIKE
    shape = parameters.get("as", "")
    if not shape:
        return Form(Shape.OBJECT, http_messages.JSON if is_json else media_type)
    if parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in ("v1", "v1beta1"):
        return None
    if media_type == http_messages.PROTOBUF and shape == Shape.TABLE.value:
        return None
    try:
        kept = media_type if media_type == http_messages.PROTOBUF else http_messages.JSON
        return Form(Shape(shape), kept, parameters["v"])
    except ValueError:
        return None
