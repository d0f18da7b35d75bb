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
from dray.cli.verbs import listing
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
        raise WrongUsage("only one object or one type can be watched at a time")
    (reference,) = references
    selection = _named(request.selection(session, reference), reference.name)
    version = await _newest_version(session, reference, selection) if request.watch_only else ""
    if request.format.is_table:
        if request.output_watch_events:
            options = options._replace(event="")
        shows_devices = listing.wants_devices(request, reference.kind)
        await _watch_table(session, reference, selection, options, version, shows_devices)
    else:
        await _watch_objects(session, request, reference, selection, version)


async def _newest_version(
    session: Session, reference: ObjectArgument, selection: ObjectSelection
) -> str:
    """Return the version after which every change is new."""
    return (await session.client.list(reference.kind, selection)).resource_version


def _named(selection: ObjectSelection, name: str) -> ObjectSelection:
    if not name:
        return selection
    fields = filter(None, (selection.field_selector, f"metadata.name={name}"))
    return ObjectSelection(selection.namespace, selection.label_selector, ",".join(fields))


async def _watch_objects(
    session: Session,
    request: GetRequest,
    reference: ObjectArgument,
    selection: ObjectSelection,
    version: str,
) -> None:
    headers = request.headers
    events = session.client.watch(reference.kind, selection, resource_version=version)
    async for event in events:
        if event.type == "BOOKMARK":
            continue
        document: JsonObject = msgspec.json.decode(event.object)
        if request.format.name == "name":
            click.echo(formats.reference(reference.kind, document["metadata"]["name"]))
            continue
        shown = formats.presented(document, managed_fields=request.show_managed_fields)
        if request.output_watch_events:
            shown = {"type": event.type, "object": shown}
        formats.show_document(shown, request.format, headers=headers)
        headers = False


async def _watch_table(
    session: Session,
    reference: ObjectArgument,
    selection: ObjectSelection,
    options: TableOptions,
    version: str,
    shows_devices: bool,
) -> None:
    """Print rows as they change, below one header."""
    after = [("resourceVersion", version)] if version else []
    if shows_devices:
        after.append(("includeObject", "Object"))
    query = (("watch", "true"), *after, *selection.query())
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
        if options.event is not None:
            options = options._replace(event=event["type"])
        table = {**table, "columnDefinitions": definitions}
        if shows_devices:
            table = listing.with_devices(table)
        shown = tables.rows(table, options)
        tables.show(shown, has_header=options.headers)
        options = options._replace(headers=False)
