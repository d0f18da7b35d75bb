"""What `dray get` asks a cluster for: Tables for people, objects for machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from dray.api import errors
from dray.api.http_messages import JSON, Request
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.cli.command_errors import NotFound
from dray.cli.output import jsonpath
from dray.cli.output.formats import Format
from dray.cli.session.connection import Session
from dray.cli.session.resource_types import Reference
from dray.client import api_client
from dray.client.api_client import ObjectSelection

TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io,{JSON}"

Table = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to get and how to show it."""

    words: tuple[str, ...]
    files: tuple[str, ...]
    format: Format
    label_selector: str
    field_selector: str
    sort_by: str
    watch: bool
    headers: bool
    show_labels: bool
    show_managed_fields: bool
    ignore_not_found: bool
    all_namespaces: bool

    def selection(self, session: Session, reference: Reference) -> ObjectSelection:
        namespace = session.namespace if reference.kind.namespaced else ""
        return ObjectSelection(namespace, self.label_selector, self.field_selector)


async def tables(
    session: Session, wanted: Wanted, found: Sequence[Reference]
) -> list[tuple[Kind, Table]]:
    """One Table for each kind that has something to show, in the order they were asked for."""
    by_kind: dict[Kind, Table] = {}
    for reference in found:
        table = await _table(session, wanted, reference)
        if table is None or not table.get("rows"):
            continue
        known = by_kind.setdefault(reference.kind, {**table, "rows": []})
        known["rows"] += table["rows"]
    if wanted.sort_by:
        for table in by_kind.values():
            table["rows"].sort(key=lambda row: _sort_key(row.get("object") or {}, wanted.sort_by))
    return list(by_kind.items())


async def _table(session: Session, wanted: Wanted, reference: Reference) -> Table | None:
    query = wanted.selection(session, reference).query()
    if wanted.sort_by:
        query.append(("includeObject", "Object"))
    path = _path(session, reference)
    response = await session.client.raw(Request("GET", path, tuple(query), {"accept": TABLE}))
    if response.status == 404 and reference.name and wanted.ignore_not_found:
        return None
    if response.status >= 400:
        raise _explained(api_client.error_of(response), session, reference)
    document: Table = msgspec.json.decode(response.body)
    return document if document.get("kind") == "Table" else _plain_table(document)


def _path(session: Session, reference: Reference) -> str:
    namespace = session.namespace if reference.kind.namespaced else ""
    if reference.name:
        return api_client.object_path(reference.kind, reference.name, namespace)
    return api_client.collection_path(reference.kind, namespace)


def _explained(error: errors.StatusError, session: Session, reference: Reference) -> Exception:
    """A missing object with the command that shows which there are."""
    if not isinstance(error, errors.NotFound) or not reference.name:
        return error
    is_inside = reference.kind.namespaced and session.namespace
    where = f" -n {session.namespace}" if is_inside else ""
    return NotFound(str(error), f"See what there is: dray get {reference.kind.plural}{where}")


def _plain_table(document: JsonObject) -> Table:
    """For servers that make no Tables: names and times of creation."""
    columns = [{"name": "Name", "priority": 0}, {"name": "Created At", "priority": 0}]
    rows = [
        {
            "cells": [each["metadata"]["name"], each["metadata"].get("creationTimestamp")],
            "object": each,
        }
        for each in document.get("items", [document])
    ]
    return {"columnDefinitions": columns, "rows": rows}


async def objects(
    session: Session, wanted: Wanted, found: Sequence[Reference]
) -> list[tuple[Kind, JsonObject]]:
    """Every object that is meant, with its kind."""
    collected: list[tuple[Kind, JsonObject]] = []
    for reference in found:
        collected += [
            (reference.kind, object_) for object_ in await _objects(session, wanted, reference)
        ]
    if wanted.sort_by:
        collected.sort(key=lambda pair: _sort_key(pair[1], wanted.sort_by))
    return collected


async def _objects(session: Session, wanted: Wanted, reference: Reference) -> list[JsonObject]:
    kind = reference.kind
    if not reference.name:
        return await listed(session, kind, wanted.selection(session, reference))
    try:
        namespace = session.namespace if kind.namespaced else ""
        return [await session.client.get(kind, reference.name, namespace)]
    except errors.NotFound as error:
        if wanted.ignore_not_found:
            return []
        raise _explained(error, session, reference) from error


async def listed(session: Session, kind: Kind, selection: ObjectSelection) -> list[JsonObject]:
    """The objects of one kind; each says what it is, which items of a list do not."""
    page = await session.client.list(kind, selection)
    described = {"apiVersion": kind.preferred.api_version, "kind": kind.kind}
    return [{**described, **msgspec.json.decode(item)} for item in page.items]


async def expanded(
    session: Session, meant: Sequence[Reference], label_selector: str
) -> list[Reference]:
    """The same objects, each by its name."""
    found: list[Reference] = []
    for reference in meant:
        if reference.name:
            found.append(reference)
            continue
        namespace = session.namespace if reference.kind.namespaced else ""
        every = await listed(session, reference.kind, ObjectSelection(namespace, label_selector))
        found += [Reference(reference.kind, each["metadata"]["name"]) for each in every]
    return found


def _sort_key(document: JsonObject, path: str) -> tuple[int, Any]:
    """Objects without the field come first; texts and numbers do not mix."""
    found = jsonpath.relaxed(path).find(document)
    if not found:
        return 0, ""
    if isinstance(found[0], (int, float)):
        return 1, found[0]
    return 2, jsonpath.text_of(found[0])
