"""`dray get`: objects as tables or as documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

import click

from dray.api.http_messages import JSON, Request
from dray.cli import lazy_group
from dray.cli.command_errors import DrayCommand, WrongUsage
from dray.cli.inputs import manifests
from dray.cli.output import formats, tables
from dray.cli.output.tables import TableOptions
from dray.cli.session import connection, progress, resource_types
from dray.cli.session.connection import Session, Target
from dray.cli.session.resource_types import ObjectArgument, full_name
from dray.cli.verbs import listing
from dray.cli.verbs.listing import GetRequest

ASKING = "Asking the cluster"


def _comma_separated(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(word for value in values for word in value.split(",") if word)


@click.command("get", cls=DrayCommand)
@click.argument("what", nargs=-1, shell_complete=lazy_group.completer("objects"))
@connection.options
@connection.all_namespaces_option
@manifests.files_option()
@manifests.recursive_option
@formats.option
@click.option("--selector", "-l", "label_selector", default="", help="Labels, such as app=web.")
@click.option("--field-selector", default="", help="Fields, such as spec.nodeName=n1.")
@click.option("--sort-by", default="", metavar="JSONPATH", help="Such as .metadata.name.")
@click.option("--watch", "-w", is_flag=True, help="Show the objects, then their changes.")
@click.option("--watch-only", is_flag=True, help="Show only changes.")
@click.option("--output-watch-events", is_flag=True, help="With --watch: also the type of change.")
@click.option("--headers/--no-headers", default=True, help="With or without the first line.")
@click.option(
    "--label-columns",
    "-L",
    multiple=True,
    metavar="KEY",
    callback=_comma_separated,
    help="Add a column for this label; may be repeated.",
)
@click.option("--show-labels", is_flag=True, help="Add a column with all labels.")
@click.option("--show-kind", is_flag=True, help="Show names as TYPE/NAME.")
@click.option("--show-managed-fields", is_flag=True, help="Also who manages which field.")
@click.option("--subresource", default="", help="Of the named objects, such as status.")
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
        if what or settings["files"]:
            raise WrongUsage("--raw and a type or a file cannot both be given")
        connection.run(target, lambda session: _raw(session, raw))
        return
    request = GetRequest(words=what, all_namespaces=target.all_namespaces, **settings)
    if not what and not request.files:
        raise WrongUsage("say what to get, such as: dray get pods", "See: dray api-resources")
    _refuse_combinations(request)
    names = resource_types.device_names(what)
    if names is not None:
        # Imported here: of all that is got, only devices need the allocator.
        from dray.cli.verbs import devices

        request = replace(request, words=("devices", *names))
        connection.run(target, lambda session: devices.show(session, request))
        return
    if request.show_partitions:
        raise WrongUsage("--show-partitions is for devices: dray get devices --show-partitions")
    connection.run(target, lambda session: _get(session, request))


def _refuse_combinations(request: GetRequest) -> None:
    """Raise WrongUsage for options that would not be honoured together."""
    watches = request.watch or request.watch_only
    if watches and request.sort_by:
        raise WrongUsage("--sort-by cannot sort what is watched")
    if request.output_watch_events and not watches:
        raise WrongUsage("--output-watch-events needs --watch or --watch-only")
    if request.recursive and not request.files:
        raise WrongUsage("--recursive needs --filename")


async def _raw(session: Session, path: str) -> None:
    where, _, query = path.partition("?")
    pairs = tuple(parse_qsl(query, keep_blank_values=True))
    response = await session.client.send(Request("GET", where, pairs, {"accept": JSON}))
    click.echo(response.body, nl=False)


async def _get(session: Session, request: GetRequest) -> None:
    references = await _references(session, request)
    listing.refuse_name_and_selector(
        references, has_selector=bool(request.label_selector or request.field_selector)
    )
    if request.subresource and not all(reference.name for reference in references):
        raise WrongUsage("--subresource needs the names of objects")
    if request.watch or request.watch_only:
        from dray.cli.verbs import watch

        await watch.watch(session, request, references, _options(request, references))
    elif request.format.is_table:
        await _show_tables(session, request, references)
    else:
        await _show_documents(session, request, references)


async def _references(session: Session, request: GetRequest) -> list[ObjectArgument]:
    if not request.files:
        return await resource_types.resolve(request.words, session.resources)
    return [
        await listing.of_manifest(session, manifest)
        for manifest in manifests.read(request.files, recursive=request.recursive)
    ]


async def _show_tables(
    session: Session, request: GetRequest, references: Sequence[ObjectArgument]
) -> None:
    options = _options(request, references)
    with progress.shown(ASKING):
        shown = await listing.tables(session, request, references)
    for number, (kind, table) in enumerate(shown):
        if number:
            click.echo()
        prefix = full_name(kind) if options.kind else ""
        in_namespaces = options.namespace and kind.namespaced
        rows = tables.rows(table, options._replace(kind=prefix, namespace=in_namespaces))
        tables.show(rows, has_header=request.headers)
    if not shown and not request.ignore_not_found:
        click.echo(_nothing_found(session, references), err=True)


def _options(request: GetRequest, references: Sequence[ObjectArgument]) -> TableOptions:
    kinds = {reference.kind for reference in references}
    first = references[0].kind
    return TableOptions(
        wide=request.format.is_wide,
        headers=request.headers,
        namespace=request.all_namespaces and any(kind.namespaced for kind in kinds),
        kind=full_name(first) if request.show_kind or len(kinds) > 1 else "",
        labels=request.show_labels,
        label_columns=request.label_columns,
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
    is_list = len(references) > 1 or not references[0].name
    if is_list or shown:
        document = formats.as_list(shown) if is_list else shown[0]
        formats.show_document(document, request.format, headers=request.headers)
