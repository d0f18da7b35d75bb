"""Objects as tables, as `kubectl get` requests them, and rows of a watch."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterable

from dray.api.kinds import Kind
from dray.api.schema import field_types
from dray.api.table_columns import Column
from dray.api.types.meta import JsonObject
from dray.apiserver.printing import cells

METADATA, NONE, OBJECT = "Metadata", "None", "Object"
"""Values of `includeObject`: what each row has besides its cells."""


def table(
    kind: Kind,
    documents: Iterable[JsonObject],
    list_metadata: JsonObject,
    *,
    now: datetime.datetime,
    include: str = METADATA,
    with_columns: bool = True,
) -> JsonObject:
    """Return a Table. Only the first event of a watch has the columns."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata,
        "columnDefinitions": column_definitions(kind.columns) if with_columns else None,
        "rows": [_row(kind, document, now, include) for document in documents],
    }


@functools.cache
def column_definitions(columns: tuple[Column, ...]) -> list[JsonObject]:
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.text or field_types.text(*column.field),
            "priority": column.priority,
        }
        for column in columns
    ]


def partial_metadata(document: JsonObject) -> JsonObject:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": document["metadata"],
    }


def _row(kind: Kind, document: JsonObject, now: datetime.datetime, include: str) -> JsonObject:
    row: JsonObject = {"cells": cells.cells(kind.group, kind.kind, document, now)}
    if include == METADATA:
        row["object"] = partial_metadata(document)
    else:
        row["object"] = document if include == OBJECT else None
    return row
