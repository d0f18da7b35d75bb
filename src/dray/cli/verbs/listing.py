"""Lists objects of a cluster: Tables, or the objects themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from dray.api import errors, kinds
from dray.api.http_messages import JSON, Request
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.cli.command_errors import ObjectNotFound, WrongUsage
from dray.cli.inputs import manifests
from dray.cli.inputs.manifests import Manifest
from dray.cli.output import jsonpath
from dray.cli.output.formats import OutputFormat
from dray.cli.session import resource_types
from dray.cli.session.connection import Session
from dray.cli.session.resource_types import ObjectArgument
from dray.client import api_client
from dray.client.api_client import ObjectSelection

TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io,{JSON}"

_CLAIM = (kinds.RESOURCE_CLAIM.group, kinds.RESOURCE_CLAIM.kind)

Table = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GetRequest:
    """The objects to get, and how to show them."""

    words: tuple[str, ...]
    files: tuple[str, ...] = ()
    format: OutputFormat = field(default_factory=OutputFormat)
    label_selector: str = ""
    field_selector: str = ""
    sort_by: str = ""
    watch: bool = False
    headers: bool = True
    show_labels: bool = False
    show_managed_fields: bool = False
    ignore_not_found: bool = False
    all_namespaces: bool = False
    label_columns: tuple[str, ...] = ()
    show_kind: bool = False
    subresource: str = ""
    recursive: bool = False
    watch_only: bool = False
    output_watch_events: bool = False
    show_partitions: bool = False

    def selection(self, session: Session, reference: ObjectArgument) -> ObjectSelection:
        namespace = session.place(reference)
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
    if request.sort_by or wants_devices(request, reference.kind):
        query.append(("includeObject", "Object"))
    path = _path(session, reference, request.subresource)
    response = await session.client.raw(Request("GET", path, tuple(query), {"accept": TABLE}))
    if response.status == 404 and reference.name and request.ignore_not_found:
        return None
    if response.status >= 400:
        raise explained(api_client.error_of(response), session, reference)
    document: Table = msgspec.json.decode(response.body)
    table = document if document.get("kind") == "Table" else _plain_table(document)
    return with_devices(table) if wants_devices(request, reference.kind) else table


def wants_devices(request: GetRequest, kind: Kind) -> bool:
    """Return whether a Table of ResourceClaims gets a column of devices."""
    return request.format.is_wide and (kind.group, kind.kind) == _CLAIM


def with_devices(table: Table) -> Table:
    """Add the allocated devices to a Table of ResourceClaims."""
    column = {"name": "Devices", "priority": 1}
    rows = [
        {**row, "cells": [*row["cells"], ",".join(allocated_devices(row.get("object") or {}))]}
        for row in table.get("rows") or ()
    ]
    definitions = [*(table.get("columnDefinitions") or ()), column]
    return {**table, "columnDefinitions": definitions, "rows": rows}


def allocated_devices(claim: JsonObject) -> list[str]:
    """Return the devices of a ResourceClaim as POOL/DEVICE."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    return [f"{result['pool']}/{result['device']}" for result in results]


def _path(session: Session, reference: ObjectArgument, subresource: str) -> str:
    namespace = session.place(reference)
    if reference.name:
        return api_client.object_path(reference.kind, reference.name, namespace, subresource)
    return api_client.collection_path(reference.kind, namespace)


def explained(error: errors.StatusError, session: Session, reference: ObjectArgument) -> Exception:
    """Return an ObjectNotFound error with the command that lists the existing objects."""
    if not isinstance(error, errors.NotFound) or not reference.name:
        return error
    namespace = session.place(reference)
    where = f" -n {namespace}" if namespace else ""
    advice = f"See what there is: dray get {reference.kind.plural}{where}"
    if reference.kind.plural == "replicationcontrollers":
        advice = f"These are not claims. See the claims: dray get resourceclaims{where}"
    return ObjectNotFound(str(error), advice)


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
        where = session.place(reference), request.subresource
        return [await session.client.get(kind, reference.name, *where)]
    except errors.NotFound as error:
        if request.ignore_not_found:
            return []
        raise explained(error, session, reference) from error


async def listed(session: Session, kind: Kind, selection: ObjectSelection) -> list[JsonObject]:
    """Return the objects of one kind, with their types, which items of a list lack."""
    page = await session.client.list(kind, selection)
    return [{**kind.type_meta, **msgspec.json.decode(item)} for item in page.items]


class Selection(NamedTuple):
    """The objects that a command line means besides those it names."""

    labels: str = ""
    fields: str = ""
    every: bool = False
    files: tuple[str, ...] = ()
    recursive: bool = False

    @property
    def has_selector(self) -> bool:
        return bool(self.labels or self.fields)


async def named_objects(
    session: Session, words: Sequence[str], verb: str, selection: Selection
) -> list[ObjectArgument]:
    """Return the objects that a command line means, each by its name and namespace.

    Raises WrongUsage for a type alone, without a selector and without --all.
    """
    result = [
        await of_manifest(session, manifest)
        for manifest in manifests.read(selection.files, recursive=selection.recursive)
    ]
    meant = await resource_types.resolve(words, session.resources) if words else []
    refuse_name_and_selector(meant, has_selector=selection.has_selector)
    if not selection.has_selector and not selection.every:
        resource_types.require_names(meant, verb)
    for reference in meant:
        if reference.name:
            result.append(reference._replace(namespace=session.place(reference)))
            continue
        chosen = ObjectSelection(session.place(reference), selection.labels, selection.fields)
        for item in await listed(session, reference.kind, chosen):
            metadata = item["metadata"]
            result.append(
                ObjectArgument(reference.kind, metadata["name"], metadata.get("namespace", ""))
            )
    return result


async def of_manifest(session: Session, manifest: Manifest) -> ObjectArgument:
    """Return the object of a file. Raises ObjectNotFound if its kind is not served."""
    kind = await session.resources.of(*manifest.type)
    if not manifest.name:
        raise WrongUsage(f"{manifest.source}: a {kind.kind} without metadata.name")
    own = manifest.document.get("metadata", {}).get("namespace") or session.namespace
    return ObjectArgument(kind, manifest.name, str(own) if kind.namespaced else "")


def refuse_name_and_selector(meant: Iterable[ObjectArgument], *, has_selector: bool) -> None:
    """Raise WrongUsage if objects are named and selected at once, which nothing would honour."""
    if has_selector and any(reference.name for reference in meant):
        raise WrongUsage("give either names or a selector, not both")


def sort_key(document: JsonObject, path: str) -> tuple[int, Any]:
    """Return a sort key: objects without the field first, then numbers, then texts."""
    matches = jsonpath.relaxed(path).find(document)
    if not matches:
        return 0, ""
    if isinstance(matches[0], (int, float)):
        return 1, matches[0]
    return 2, jsonpath.text_of(matches[0])
