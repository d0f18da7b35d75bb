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


PLAIN = Form(Shape.OBJECT)
_JSON_LIKE = frozenset({http_messages.JSON, "*/*", "application/*"})
_UNDERSTOOD = _JSON_LIKE | {http_messages.YAML, http_messages.PROTOBUF}


@functools.lru_cache(maxsize=256)
def negotiate(accept: str, *, streams: bool = False) -> Form:
    """Return the form of the first clause that dray supports. Raises 406 if there is none.

    `streams`: whether the response may be a stream, which changes the list in the error.
    """
    if not accept:
        return PLAIN
    clauses = accept.split(",")
    for clause in clauses:
        form = _read_clause(clause)
        if form is not None:
            return form
    if any(clause.split(";", 1)[0].strip() in _UNDERSTOOD for clause in clauses):
        raise errors.not_acceptable(OFFERED)
    raise errors.no_representation((*OFFERED, *(STREAMED if streams else ())))


def _read_clause(clause: str) -> Form | None:
    media_type, *rest = (part.strip() for part in clause.split(";"))
    parameters = dict(part.split("=", 1) for part in rest if "=" in part)
    if media_type not in _JSON_LIKE and media_type != http_messages.YAML:
        return None
    shape = parameters.get("as", "")
    if not shape:
        return Form(
            Shape.OBJECT,
            http_messages.YAML if media_type == http_messages.YAML else http_messages.JSON,
        )
    if parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in ("v1", "v1beta1"):
        return None
    try:
        return Form(Shape(shape), http_messages.JSON, parameters["v"])
    except ValueError:
        return None
