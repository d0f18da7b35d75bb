"""`dray get --watch`: shows changes until the user stops it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from dray.api import errors
from dray.api.http_messages import Request
from dray.api.types.meta import JsonObject
from dray.cli.command_errors import WrongUsage
from dray.cli.output import formats, tables
from dray.cli.output.tables import TableOptions
from dray.cli.session.connection import Session
from dray.cli.session.resource_types import ObjectArgument
from dray.cli.verbs.listing import TABLE, GetRequest
from dray.client import api_client
from dray.client.api_client import ObjectSelection


async def watch(
    session: Session,
    request: GetRequest,
    references: Sequence[ObjectArgument],
    options: TableOptions,
) -> None:
    if len(references) != 1:
        raise WrongUsage("one type at a time can be watched")
    (reference,) = references
    selection = _named(request.selection(session, reference), reference.name)
    if request.format.is_table:
        await _watch_table(session, reference, selection, options)
    else:
        await _watch_objects(session, request, reference, selection)


def _named(selection: ObjectSelection, name: str) -> ObjectSelection:
    if not name:
        return selection
    fields = filter(None, (selection.field_selector, f"metadata.name={name}"))
    return ObjectSelection(selection.namespace, selection.label_selector, ",".join(fields))


async def _watch_objects(
    session: Session, request: GetRequest, reference: ObjectArgument, selection: ObjectSelection
) -> None:
    async for event in session.client.watch(reference.kind, selection):
        if event.type == "BOOKMARK":
            continue
        document: JsonObject = msgspec.json.decode(event.object)
        if request.format.name == "name":
            click.echo(formats.reference(reference.kind, document["metadata"]["name"]))
        else:
            formats.show_document(formats.presented(document), request.format)


async def _watch_table(
    session: Session, reference: ObjectArgument, selection: ObjectSelection, options: TableOptions
) -> None:
    """Print rows as they change, below one header."""
    query = (("watch", "true"), *selection.query())
    path = api_client.collection_path(reference.kind, selection.namespace)
    response = await session.client.raw(Request("GET", path, query, {"accept": TABLE}))
    if response.stream is None:
        raise api_client.error_of(response)
    definitions: list[Any] = []
    async for line in api_client.lines(response.stream):
        event = msgspec.json.decode(line)
        if event["type"] == "ERROR":
            raise errors.from_status(event["object"])
        table = event["object"]
        if event["type"] == "BOOKMARK" or table.get("kind") != "Table":
            continue
        definitions = table.get("columnDefinitions") or definitions
        shown = tables.rows({**table, "columnDefinitions": definitions}, options)
        tables.show(shown, has_header=options.headers)
        options = options._replace(headers=False)
