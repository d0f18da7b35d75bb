"""Lists objects of a cluster: Tables, or the objects themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from dray.api import errors
from dray.api.http_messages import JSON, Request
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.cli.command_errors import ObjectNotFound
from dray.cli.output import jsonpath
from dray.cli.output.formats import OutputFormat
from dray.cli.session import resource_types
from dray.cli.session.connection import Session
from dray.cli.session.resource_types import ObjectArgument
from dray.client import api_client
from dray.client.api_client import ObjectSelection

TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io,{JSON}"

Table = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GetRequest:
    """The objects to get, and how to show them."""

    words: tuple[str, ...]
    files: tuple[str, ...]
    format: OutputFormat
    label_selector: str
    field_selector: str
    sort_by: str
    watch: bool
    headers: bool
    show_labels: bool
    show_managed_fields: bool
    ignore_not_found: bool
    all_namespaces: bool
    show_partitions: bool

    def selection(self, session: Session, reference: ObjectArgument) -> ObjectSelection:
        namespace = session.namespace_of(reference.kind)
        return ObjectSelection(namespace, self.label_selector, self.field_selector)


async def tables(
    session: Session, request: GetRequest, references: Sequence[ObjectArgument]
) -> list[tuple[Kind, Table]]:
    """Return one Table for each kind with rows, in the requested order."""
    by_kind: dict[Kind, Table] = {}
    for reference in references:
        table = await _table(session, request, reference)
        if table is None or not table.get("rows"):
            continue
        merged = by_kind.setdefault(reference.kind, {**table, "rows": []})
        merged["rows"] += table["rows"]
    if request.sort_by:
        for table in by_kind.values():
            table["rows"].sort(key=lambda row: sort_key(row.get("object") or {}, request.sort_by))
    return list(by_kind.items())


async def _table(session: Session, request: GetRequest, reference: ObjectArgument) -> Table | None:
    query = request.selection(session, reference).query()
    if request.sort_by:
        query.append(("includeObject", "Object"))
    path = _path(session, reference)
    response = await session.client.raw(Request("GET", path, tuple(query), {"accept": TABLE}))
    if response.status == 404 and reference.name and request.ignore_not_found:
        return None
    if response.status >= 400:
        raise _explained(api_client.error_of(response), session, reference)
    document: Table = msgspec.json.decode(response.body)
    return document if document.get("kind") == "Table" else _plain_table(document)


def _path(session: Session, reference: ObjectArgument) -> str:
    namespace = session.namespace_of(reference.kind)
    if reference.name:
        return api_client.object_path(reference.kind, reference.name, namespace)
    return api_client.collection_path(reference.kind, namespace)


def _explained(error: errors.StatusError, session: Session, reference: ObjectArgument) -> Exception:
    """Return an ObjectNotFound error with the command that lists the existing objects."""
    if not isinstance(error, errors.NotFound) or not reference.name:
        return error
    is_inside = reference.kind.namespaced and session.namespace
    where = f" -n {session.namespace}" if is_inside else ""
    return ObjectNotFound(str(error), f"See what there is: dray get {reference.kind.plural}{where}")


def _plain_table(document: JsonObject) -> Table:
    """Build a Table of names and ages, for servers that do not send Tables."""
    columns = [{"name": "Name", "priority": 0}, {"name": "Created At", "priority": 0}]
    rows = []
    for item in document.get("items", [document]):
        cells = [item["metadata"]["name"], item["metadata"].get("creationTimestamp")]
        rows.append({"cells": cells, "object": item})
    return {"columnDefinitions": columns, "rows": rows}


async def objects(
    session: Session, request: GetRequest, references: Sequence[ObjectArgument]
) -> list[tuple[Kind, JsonObject]]:
    """Return every requested object, with its kind."""
    collected = [
        (reference.kind, document)
        for reference in references
        for document in await _objects(session, request, reference)
    ]
    if request.sort_by:
        collected.sort(key=lambda pair: sort_key(pair[1], request.sort_by))
    return collected


async def _objects(
    session: Session, request: GetRequest, reference: ObjectArgument
) -> list[JsonObject]:
    kind = reference.kind
    if not reference.name:
        return await listed(session, kind, request.selection(session, reference))
    try:
        return [await session.client.get(kind, reference.name, session.namespace_of(kind))]
    except errors.NotFound as error:
        if request.ignore_not_found:
            return []
        raise _explained(error, session, reference) from error


async def listed(session: Session, kind: Kind, selection: ObjectSelection) -> list[JsonObject]:
    """Return the objects of one kind, with their types, which items of a list lack."""
    page = await session.client.list(kind, selection)
    return [{**kind.type_meta, **msgspec.json.decode(item)} for item in page.items]


async def named_objects(
    session: Session, words: Sequence[str], verb: str, label_selector: str, every: bool
) -> list[ObjectArgument]:
    """Return the objects that a command line means, each by its name.

    Raises WrongUsage for a type alone, without labels and without `every`.
    """
    meant = await resource_types.resolve(words, session.resources)
    if not label_selector and not every:
        resource_types.require_names(meant, verb)
    result: list[ObjectArgument] = []
    for kind, name in meant:
        names = [name]
        if not name:
            selection = ObjectSelection(session.namespace_of(kind), label_selector)
            names = [item["metadata"]["name"] for item in await listed(session, kind, selection)]
        result += [ObjectArgument(kind, name) for name in names]
    return result


def sort_key(document: JsonObject, path: str) -> tuple[int, Any]:
    """Return a sort key: objects without the field first, then numbers, then texts."""
    matches = jsonpath.relaxed(path).find(document)
    if not matches:
        return 0, ""
    if isinstance(matches[0], (int, float)):
        return 1, matches[0]
    return 2, jsonpath.text_of(matches[0])
