"""`dray get`: objects as tables for people and as documents for machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import click
import msgspec

from dray.api import errors
from dray.api.exchange import JSON, Request
from dray.api.kinds import Kind
from dray.cli import connection, devices, jsonpath, manifests, output, references, tables
from dray.cli.connection import Session, Target
from dray.cli.failures import Command, Failure, WrongUsage
from dray.cli.output import Format, Object
from dray.cli.references import Reference
from dray.cli.resources import full_name
from dray.cli.tables import TableOptions
from dray.client import verbs
from dray.client.verbs import Selection

TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io,{JSON}"


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
    all_namespaces: bool = False


@click.command("get", cls=Command)
@click.argument("what", nargs=-1)
@connection.options
@connection.all_namespaces_option
@manifests.files_option()
@output.option
@click.option("--selector", "-l", default="", help="Labels, such as app=web.")
@click.option("--field-selector", default="", help="Fields, such as spec.nodeName=n1.")
@click.option("--sort-by", default="", metavar="JSONPATH", help="Such as .metadata.name.")
@click.option("--watch", "-w", is_flag=True, help="Go on with what changes.")
@click.option("--no-headers", is_flag=True, help="Rows only.")
@click.option("--show-labels", is_flag=True, help="Add a column with all labels.")
@click.option("--show-managed-fields", is_flag=True, help="Also who manages which field.")
@click.option("--ignore-not-found", is_flag=True, help="A missing object is no error.")
@click.option("--raw", default="", metavar="PATH", help="Any path of the server, as it answers.")
def get(
    target: Target,
    what: tuple[str, ...],
    selector: str,
    no_headers: bool,
    raw: str,
    **settings: Any,
) -> None:
    """Show objects: TYPE[,TYPE…] [NAME…] or TYPE/NAME….

    `dray get devices` shows every device, its attributes and who holds it since when.
    """
    if raw:
        connection.run(target, lambda session: _raw(session, raw))
        return
    wanted = Wanted(
        words=what,
        label_selector=selector,
        headers=not no_headers,
        all_namespaces=target.all_namespaces,
        **settings,
    )
    if not what and not wanted.files:
        raise WrongUsage("say what to get, such as: dray get pods", "See: dray api-resources")
    if what and what[0] in devices.NAMES:
        connection.run(target, lambda session: devices.show(session, what[1:], wanted.format))
        return
    connection.run(target, lambda session: _get(session, wanted))


async def _raw(session: Session, path: str) -> None:
    where, _, query = path.partition("?")
    pairs = tuple((key, value) for key, _, value in (p.partition("=") for p in query.split("&")))
    response = await session.client.raw(
        Request("GET", where, pairs if query else (), {"accept": JSON})
    )
    if response.status >= 400:
        raise verbs.error_of(response)
    click.echo(response.body, nl=False)


async def _get(session: Session, wanted: Wanted) -> None:
    if wanted.files:
        found = [
            Reference(
                await session.resources.of(each.document["apiVersion"], each.document["kind"]),
                each.name,
            )
            for each in manifests.read(wanted.files)
        ]
    else:
        found = await references.resolve(wanted.words, session.resources)
    if wanted.watch:
        await _watch(session, wanted, found)
    elif wanted.format.is_table:
        await _show_tables(session, wanted, found)
    else:
        await _show_documents(session, wanted, found)


async def _show_tables(session: Session, wanted: Wanted, found: Sequence[Reference]) -> None:
    several = len({each.kind for each in found}) > 1
    is_first = True
    for kind, tables_of_kind in await _tables(session, wanted, found):
        rows = [row for table in tables_of_kind for row in table.get("rows") or ()]
        if not rows:
            continue
        table = {**tables_of_kind[0], "rows": _sorted_rows(rows, wanted.sort_by)}
        if not is_first:
            click.echo()
        is_first = False
        shown = _options(wanted, kind, several or any("/" in word for word in wanted.words[1:]))
        tables.show(tables.rows(table, shown), has_header=wanted.headers)
    if is_first and not wanted.ignore_not_found:
        click.echo(_nothing_found(session, found), err=True)


def _options(wanted: Wanted, kind: Kind, several: bool) -> TableOptions:
    return TableOptions(
        wide=wanted.format.is_wide,
        headers=wanted.headers,
        namespace=wanted.all_namespaces and kind.namespaced,
        kind=full_name(kind) if several else "",
        labels=wanted.show_labels,
    )


def _nothing_found(session: Session, found: Iterable[Reference]) -> str:
    if session.namespace and all(each.kind.namespaced for each in found):
        return f"No resources found in {session.namespace} namespace."
    return "No resources found"


async def _tables(
    session: Session, wanted: Wanted, found: Sequence[Reference]
) -> list[tuple[Kind, list[dict[str, Any]]]]:
    """The Tables of each kind, in the order they were asked for."""
    by_kind: dict[Kind, list[dict[str, Any]]] = {}
    for reference in found:
        table = await _table(session, wanted, reference)
        if table is not None:
            by_kind.setdefault(reference.kind, []).append(table)
    return list(by_kind.items())


async def _table(session: Session, wanted: Wanted, reference: Reference) -> dict[str, Any] | None:
    query = _selection(session, wanted, reference.kind).query()
    if wanted.sort_by:
        query.append(("includeObject", "Object"))
    path = _path(session, reference)
    response = await session.client.raw(Request("GET", path, tuple(query), {"accept": TABLE}))
    if response.status == 404 and reference.name and wanted.ignore_not_found:
        return None
    if response.status >= 400:
        raise _explained(verbs.error_of(response), reference, session.namespace)
    document: dict[str, Any] = msgspec.json.decode(response.body)
    return document if document.get("kind") == "Table" else _plain_table(document)


def _explained(
    error: errors.StatusError, reference: Reference, namespace: str
) -> errors.StatusError | Failure:
    if isinstance(error, errors.NotFound) and reference.name:
        where = f" -n {namespace}" if reference.kind.namespaced and namespace else ""
        return _not_found(error, f"See what there is: dray get {reference.kind.plural}{where}")
    return error


def _not_found(error: errors.NotFound, advice: str) -> Failure:
    from dray.cli.failures import NotFound

    return NotFound(str(error), advice)


def _path(session: Session, reference: Reference) -> str:
    namespace = session.namespace if reference.kind.namespaced else ""
    if reference.name:
        return verbs.object_path(reference.kind, reference.name, namespace)
    return verbs.collection_path(reference.kind, namespace)


def _selection(session: Session, wanted: Wanted, kind: Kind) -> Selection:
    namespace = session.namespace if kind.namespaced else ""
    return Selection(namespace, wanted.label_selector, wanted.field_selector)


def _plain_table(document: Object) -> dict[str, Any]:
    """For servers that make no Tables: names and times of creation."""
    items = document["items"] if "items" in document else [document]
    columns = [{"name": "Name", "priority": 0}, {"name": "Created At", "priority": 0}]
    rows = [
        {"cells": [each["metadata"]["name"], each["metadata"].get("creationTimestamp")], **each}
        for each in items
    ]
    return {"columnDefinitions": columns, "rows": [{**row, "object": row} for row in rows]}


def _sorted_rows(rows: list[dict[str, Any]], sort_by: str) -> list[dict[str, Any]]:
    if not sort_by:
        return rows
    return sorted(rows, key=lambda row: sort_key(row.get("object") or {}, sort_by))


def sort_key(document: Object, path: str) -> tuple[int, Any]:
    """Objects without the field come first; texts and numbers do not mix in one column."""
    found = jsonpath.relaxed(path).find(document)
    if not found:
        return 0, ""
    value = found[0]
    is_number = isinstance(value, (int, float))
    return (1, value) if is_number else (2, jsonpath.text_of(value))


async def _show_documents(session: Session, wanted: Wanted, found: Sequence[Reference]) -> None:
    collected: list[tuple[Kind, Object]] = []
    for reference in found:
        collected += await _objects(session, wanted, reference)
    if wanted.sort_by:
        collected.sort(key=lambda pair: sort_key(pair[1], wanted.sort_by))
    if wanted.format.name == "name":
        for kind, document in collected:
            output.show_names(kind, [document])
        return
    shown = [
        output.presented(document, managed_fields=wanted.show_managed_fields)
        for _, document in collected
    ]
    if len(found) == 1 and found[0].name:
        if shown:
            output.show_document(shown[0], wanted.format)
    else:
        output.show_document(output.as_list(shown), wanted.format)


async def _objects(
    session: Session, wanted: Wanted, reference: Reference
) -> list[tuple[Kind, Object]]:
    kind = reference.kind
    if reference.name:
        try:
            namespace = session.namespace if kind.namespaced else ""
            return [(kind, await session.client.get(kind, reference.name, namespace))]
        except errors.NotFound as error:
            if wanted.ignore_not_found:
                return []
            raise _explained(error, reference, session.namespace) from error
    page = await session.client.list(kind, _selection(session, wanted, kind))
    described = {"apiVersion": kind.in_version(kind.versions[0]).api_version, "kind": kind.kind}
    return [(kind, {**described, **msgspec.json.decode(item)}) for item in page.items]


async def _watch(session: Session, wanted: Wanted, found: Sequence[Reference]) -> None:
    if len(found) != 1:
        raise WrongUsage("one type at a time can be watched")
    (reference,) = found
    if wanted.format.is_table:
        await _watch_table(session, wanted, reference)
        return
    selection = _named(_selection(session, wanted, reference.kind), reference.name)
    async for event in session.client.watch(reference.kind, selection):
        if event.type == "BOOKMARK":
            continue
        document: Object = msgspec.json.decode(event.object)
        if wanted.format.name == "name":
            output.show_names(reference.kind, [document])
        else:
            output.show_document(output.presented(document), wanted.format)


def _named(selection: Selection, name: str) -> Selection:
    if not name:
        return selection
    fields = filter(None, (selection.field_selector, f"metadata.name={name}"))
    return Selection(selection.namespace, selection.label_selector, ",".join(fields))


async def _watch_table(session: Session, wanted: Wanted, reference: Reference) -> None:
    """Rows as they change; the header once, the widths those of the rows that came together."""
    kind = reference.kind
    selection = _named(_selection(session, wanted, kind), reference.name)
    headers = wanted.headers
    query = (("watch", "true"), *selection.query())
    path = verbs.collection_path(kind, selection.namespace)
    response = await session.client.raw(Request("GET", path, query, {"accept": TABLE}))
    if response.status >= 400 or response.stream is None:
        raise verbs.error_of(response)
    definitions: list[Any] = []
    async for line in verbs.lines(response.stream):
        event = msgspec.json.decode(line)
        if event["type"] == "ERROR":
            raise errors.from_status(event["object"])
        table = event["object"]
        if event["type"] == "BOOKMARK" or table.get("kind") != "Table":
            continue
        definitions = table.get("columnDefinitions") or definitions
        options = _options(wanted, kind, False)._replace(headers=headers)
        rows = tables.rows({**table, "columnDefinitions": definitions}, options)
        tables.show(rows, has_header=headers)
        headers = False
