"""`dray events`: events, the newest last."""

from __future__ import annotations

import datetime
from typing import Any

import click

from dray.api.formats.durations import since
from dray.api.types.meta import JsonObject
from dray.cli.command_errors import DrayCommand
from dray.cli.output import formats, tables
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection, progress, resource_types
from dray.cli.session.connection import Session, Target
from dray.cli.verbs import listing
from dray.client.api_client import ObjectSelection
from dray.clock import utc_now


@click.command("events", cls=DrayCommand)
@connection.options
@connection.all_namespaces_option
@formats.option
@click.option("--for", "about", default="", metavar="TYPE/NAME", help="Only about this object.")
@click.option("--types", default="", metavar="Normal,Warning", help="Only of these types.")
@click.option("--headers/--no-headers", default=True, help="With or without the first line.")
def events(target: Target, format: OutputFormat, about: str, types: str, headers: bool) -> None:
    """Show events."""
    requested = [word.lower() for word in types.split(",") if word]

    async def body(session: Session) -> list[JsonObject]:
        shown = await about_objects(session, about)
        return [
            event for event in shown if not requested or event.get("type", "").lower() in requested
        ]

    with progress.shown("Asking the cluster"):
        shown = connection.run(target, body)
    if not format.is_table:
        formats.show_document(formats.as_list(list(map(formats.presented, shown))), format)
        return
    if not shown:
        click.echo("No events found.", err=True)
        return
    now = utc_now()
    header = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    rows = [_row(event, now) for event in shown]
    if target.all_namespaces:
        header = ["NAMESPACE", *header]
        rows = [
            [event["metadata"].get("namespace", ""), *row]
            for event, row in zip(shown, rows, strict=True)
        ]
    tables.show([header, *rows] if headers else rows, has_header=headers)


async def about_objects(session: Session, about: str = "") -> list[JsonObject]:
    """Return the events of the namespace, or about one object, the oldest first."""
    (kind,) = await session.resources.named("events")
    selection = ObjectSelection(session.namespace)
    if about:
        (reference,) = await resource_types.resolve([about], session.resources)
        fields = f"involvedObject.kind={reference.kind.kind},involvedObject.name={reference.name}"
        selection = ObjectSelection(session.namespace, field_selector=fields)
    return sorted(await listing.listed(session, kind, selection), key=last_seen)


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
