"""`dray api-resources` and `dray version`: the kinds and the version of a cluster."""

from __future__ import annotations

import platform
from typing import Any

import click

import dray
from dray.api.kinds import Kind
from dray.cli import command_errors
from dray.cli.command_errors import CommandError, DrayCommand
from dray.cli.output import formats, tables
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection, resource_types
from dray.cli.session.connection import Session, Target
from dray.client import discovery


@click.command("api-resources", cls=DrayCommand)
@connection.options
@formats.option
@click.option("--api-group", default=None, help="Only of this group; empty for the core group.")
@click.option("--namespaced", type=bool, default=None, help="Only those in namespaces, or not.")
@click.option("--headers/--no-headers", default=True, help="With or without the first line.")
def api_resources(
    target: Target,
    format: OutputFormat,
    api_group: str | None,
    namespaced: bool | None,
    headers: bool,
) -> None:
    """List what the cluster serves."""

    async def body(session: Session) -> list[Kind]:
        return await session.resources.preferred()

    shown = [
        kind
        for kind in sorted(connection.run(target, body), key=lambda kind: (kind.group, kind.plural))
        if kind.verbs and api_group in (None, kind.group) and namespaced in (None, kind.namespaced)
    ]
    if format.name == "name":
        for kind in shown:
            click.echo(f"{kind.plural}.{kind.group}" if kind.group else kind.plural)
    elif format.is_table:
        header = ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]
        header += ["VERBS", "CATEGORIES"] if format.is_wide else []
        rows = [_row(kind, wide=format.is_wide) for kind in shown]
        tables.show([header, *rows] if headers else rows, has_header=headers)
    else:
        formats.show_document(
            {"kind": "APIResourceList", "resources": list(map(_document, shown))}, format
        )


def _row(kind: Kind, *, wide: bool) -> list[str]:
    row = [
        kind.plural,
        ",".join(kind.short_names),
        kind.preferred.api_version,
        str(kind.namespaced).lower(),
        kind.kind,
    ]
    return [*row, ",".join(sorted(kind.verbs)), ",".join(kind.categories)] if wide else row


def _document(kind: Kind) -> dict[str, Any]:
    return {
        "name": kind.plural,
        "singularName": kind.singular,
        "group": kind.group,
        "version": kind.versions[0],
        "kind": kind.kind,
        "namespaced": kind.namespaced,
        "shortNames": list(kind.short_names),
        "categories": list(kind.categories),
        "verbs": list(kind.verbs),
        "fullName": resource_types.full_name(kind),
    }


@click.command("version", cls=DrayCommand)
@connection.options
@formats.option
@click.option("--client", "client_only", is_flag=True, help="Do not ask the server.")
def version(target: Target, format: OutputFormat, client_only: bool) -> None:
    """Print the versions of dray and of the server."""
    own = {"version": dray.__version__, "pythonVersion": platform.python_version()}
    document: dict[str, Any] = {"clientVersion": own}
    trouble: CommandError | None = None
    if not client_only:
        trouble = _add_server(target, document)
    if format.is_table:
        click.echo(f"dray {own['version']} (Python {own['pythonVersion']})")
        if "serverVersion" in document:
            click.echo(f"Server: {document['serverVersion']['gitVersion']}")
    else:
        formats.show_document(document, format)
    if trouble is not None:
        raise trouble


def _add_server(target: Target, document: dict[str, Any]) -> CommandError | None:
    try:
        with command_errors.reported():
            server = connection.run(target, lambda session: discovery.version_of(session.client))
    except CommandError as failure:
        return failure
    document["serverVersion"] = server.document
    return None
