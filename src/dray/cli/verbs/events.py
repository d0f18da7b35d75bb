"""`dray events`: events, the newest last."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence
from typing import Any

import click
import msgspec

from dray.api.formats.durations import since
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.cli.command_errors import DrayCommand, WrongUsage
from dray.cli.output import formats, tables
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection, progress, resource_types
from dray.cli.session.connection import Session, Target
from dray.client.api_client import ObjectSelection
from dray.clock import utc_now


@click.command("events", cls=DrayCommand)
@connection.options
@connection.all_namespaces_option
@formats.option
@click.option("--for", "about", default="", metavar="TYPE/NAME", help="Only about this object.")
@click.option("--types", default="", metavar="Normal,Warning", help="Only of these types.")
@click.option("--watch", "-w", is_flag=True, help="Show the events, then new ones.")
@click.option("--headers/--no-headers", default=True, help="With or without the first line.")
@click.option("--show-managed-fields", is_flag=True, help="Also who manages which field.")
def events(
    target: Target,
    format: OutputFormat,
    about: str,
    types: str,
    watch: bool,
    headers: bool,
    show_managed_fields: bool,
) -> None:
    """Show events, the newest last."""
    requested = {word.strip().lower() for word in types.split(",") if word}
    if unknown := requested - {"normal", "warning"}:
        raise WrongUsage(f"--types: {', '.join(sorted(unknown))} is neither Normal nor Warning")

    def present(event: JsonObject) -> JsonObject:
        return formats.presented(event, managed_fields=show_managed_fields)

    async def body(session: Session) -> None:
        kind, selection = await _selection(session, about)
        with progress.shown("Asking the cluster"):
            page = await session.client.list(kind, selection)
        listed = [{**kind.type_meta, **msgspec.json.decode(item)} for item in page.items]
        found = sorted((item for item in listed if _is_of(item, requested)), key=last_seen)
        if format.is_table:
            _show_table(found, target.all_namespaces, headers=headers, watches=watch)
        else:
            formats.show_document(
                formats.as_list(list(map(present, found))), format, headers=headers
            )
        if watch:
            async for event in session.client.watch(
                kind, selection, resource_version=page.resource_version
            ):
                document = msgspec.json.decode(event.object)
                if event.type not in ("ADDED", "MODIFIED") or not _is_of(document, requested):
                    continue
                if format.is_table:
                    _show_table([document], target.all_namespaces, headers=False, watches=True)
                else:
                    formats.show_document(present(document), format, headers=False)

    connection.run(target, body)


def _is_of(event: JsonObject, types: Collection[str]) -> bool:
    return not types or str(event.get("type", "")).lower() in types


def _show_table(
    shown: Sequence[JsonObject], with_namespaces: bool, *, headers: bool, watches: bool
) -> None:
    if not shown and not watches:
        click.echo("No events found.", err=True)
        return
    now = utc_now()
    header = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    rows = [_row(event, now) for event in shown]
    if with_namespaces:
        header = ["NAMESPACE", *header]
        rows = [
            [event["metadata"].get("namespace", ""), *row]
            for event, row in zip(shown, rows, strict=True)
        ]
    tables.show([header, *rows] if headers else rows, has_header=headers)


async def _selection(session: Session, about: str) -> tuple[Kind, ObjectSelection]:
    """Return the kind of events, and those of the namespace or about one object."""
    (kind,) = await session.resources.named("events")
    if not about:
        return kind, ObjectSelection(session.namespace)
    (reference,) = await resource_types.resolve([about], session.resources)
    resource_types.require_names([reference], "--for")
    fields = f"involvedObject.kind={reference.kind.kind},involvedObject.name={reference.name}"
    # Events about objects without a namespace are in the namespace default.
    namespace = session.namespace if reference.kind.namespaced else ""
    return kind, ObjectSelection(namespace, field_selector=fields)


def last_seen(event: JsonObject) -> str:
    series: dict[str, Any] = event.get("series") or {}
    return str(
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp", "")
    )


def _row(event: JsonObject, now: datetime.datetime) -> list[str]:
    about = event.get("involvedObject") or {}
    return [
        interval(event, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{about.get('kind', '')}/{about.get('name', '')}",
        tables.cell_text(event.get("message", "").strip()),
    ]


def interval(event: JsonObject, now: datetime.datetime) -> str:
    """Return an age, such as `3m (x4 over 10m)` for events that occurred repeatedly."""
    first = event.get("eventTime") or event.get("firstTimestamp")
    first = first or event["metadata"].get("creationTimestamp")
    series: dict[str, Any] = event.get("series") or {}
    count = series.get("count") or event.get("count") or 1
    if count <= 1:
        return since(first, now)
    return f"{since(last_seen(event), now)} (x{count} over {since(first, now)})"
