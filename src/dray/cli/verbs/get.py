"""`dray get`: objects as tables or as documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import parse_qsl

import click

from dray.api.http_messages import JSON, Request
from dray.api.kinds import Kind
from dray.cli.command_errors import DrayCommand, WrongUsage
from dray.cli.inputs import manifests
from dray.cli.output import formats, tables
from dray.cli.output.tables import TableOptions
from dray.cli.session import connection, progress, resource_types
from dray.cli.session.connection import Session, Target
from dray.cli.session.resource_types import ObjectArgument, full_name
from dray.cli.verbs import devices, listing, watch
from dray.cli.verbs.listing import GetRequest

ASKING = "Asking the cluster"


@click.command("get", cls=DrayCommand)
@click.argument("what", nargs=-1, shell_complete=resource_types.complete)
@connection.options
@connection.all_namespaces_option
@manifests.files_option()
@formats.option
@click.option("--selector", "-l", "label_selector", default="", help="Labels, such as app=web.")
@click.option("--field-selector", default="", help="Fields, such as spec.nodeName=n1.")
@click.option("--sort-by", default="", metavar="JSONPATH", help="Such as .metadata.name.")
@click.option("--watch", "-w", is_flag=True, help="Go on with what changes.")
@click.option("--headers/--no-headers", default=True, help="With or without the first line.")
@click.option("--show-labels", is_flag=True, help="Add a column with all labels.")
@click.option("--show-managed-fields", is_flag=True, help="Also who manages which field.")
@click.option("--ignore-not-found", is_flag=True, help="A missing object is no error.")
@click.option("--show-partitions", is_flag=True, help="Of devices: one line for each partition.")
@click.option("--raw", default="", metavar="PATH", help="Any path of the server, as it answers.")
def get(target: Target, what: tuple[str, ...], raw: str, **settings: Any) -> None:
    """Show objects: TYPE[,TYPE…] [NAME…] or TYPE/NAME….

    `dray get devices` shows every device, its state and who holds it since when. There -l selects
    by attributes (-l architecture=Hopper) and --field-selector by driver, pool, name, node, state,
    model, partitionOf, tainted, unhealthy, attributes.NAME and capacity.NAME; --show-labels adds
    the attributes.
    """
    if raw:
        connection.run(target, lambda session: _raw(session, raw))
        return
    request = GetRequest(words=what, all_namespaces=target.all_namespaces, **settings)
    if not what and not request.files:
        raise WrongUsage("say what to get, such as: dray get pods", "See: dray api-resources")
    if what and what[0] in devices.NAMES:
        connection.run(target, lambda session: devices.show(session, request))
        return
    if request.show_partitions:
        raise WrongUsage("--show-partitions is for devices: dray get devices --show-partitions")
    connection.run(target, lambda session: _get(session, request))


async def _raw(session: Session, path: str) -> None:
    where, _, query = path.partition("?")
    pairs = tuple(parse_qsl(query, keep_blank_values=True))
    response = await session.client.send(Request("GET", where, pairs, {"accept": JSON}))
    click.echo(response.body, nl=False)


async def _get(session: Session, request: GetRequest) -> None:
    references = await _references(session, request)
    if request.watch:
        await watch.watch(
            session, request, references, _options(request, references[0].kind, False)
        )
    elif request.format.is_table:
        await _show_tables(session, request, references)
    else:
        await _show_documents(session, request, references)


async def _references(session: Session, request: GetRequest) -> list[ObjectArgument]:
    if not request.files:
        return await resource_types.resolve(request.words, session.resources)
    return [
        ObjectArgument(await session.resources.of(*manifest.type), manifest.name)
        for manifest in manifests.read(request.files)
    ]


async def _show_tables(
    session: Session, request: GetRequest, references: Sequence[ObjectArgument]
) -> None:
    several = len({reference.kind for reference in references}) > 1
    with progress.shown(ASKING):
        shown = await listing.tables(session, request, references)
    for number, (kind, table) in enumerate(shown):
        if number:
            click.echo()
        rows = tables.rows(table, _options(request, kind, several))
        tables.show(rows, has_header=request.headers)
    if not shown and not request.ignore_not_found:
        click.echo(_nothing_found(session, references), err=True)


def _options(request: GetRequest, kind: Kind, several: bool) -> TableOptions:
    return TableOptions(
        wide=request.format.is_wide,
        headers=request.headers,
        namespace=request.all_namespaces and kind.namespaced,
        kind=full_name(kind) if several else "",
        labels=request.show_labels,
    )


def _nothing_found(session: Session, references: Iterable[ObjectArgument]) -> str:
    if session.namespace and all(reference.kind.namespaced for reference in references):
        return f"No resources found in {session.namespace} namespace."
    return "No resources found"


async def _show_documents(
    session: Session, request: GetRequest, references: Sequence[ObjectArgument]
) -> None:
    with progress.shown(ASKING):
        collected = await listing.objects(session, request, references)
    if request.format.name == "name":
        for kind, document in collected:
            click.echo(formats.reference(kind, document["metadata"]["name"]))
        return
    shown = [
        formats.presented(document, managed_fields=request.show_managed_fields)
        for _, document in collected
    ]
    if len(references) > 1 or not references[0].name:
        formats.show_document(formats.as_list(shown), request.format)
    elif shown:
        formats.show_document(shown[0], request.format)
