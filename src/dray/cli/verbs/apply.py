"""`dray apply` and `dray create`: write objects of files to the cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import click
import msgspec

from dray.api import errors, http_messages
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.cli import command_errors
from dray.cli.command_errors import CommandError, DrayCommand
from dray.cli.inputs import manifests
from dray.cli.inputs.manifests import Manifest
from dray.cli.output import formats
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection
from dray.cli.session.connection import FIELD_MANAGER, Session, Target
from dray.client import api_client

Writing = Callable[[Session, Kind, JsonObject], Awaitable[tuple[JsonObject, str]]]
"""Writes one object. Returns the object, and the verb for the message."""

_dry_run = click.option("--dry-run", is_flag=True, help="Let the server check, write nothing.")
_recursive = click.option("--recursive", "-R", is_flag=True, help="Also subdirectories.")


@click.command("apply", cls=DrayCommand)
@connection.options
@manifests.files_option(required=True)
@_recursive
@formats.option
@_dry_run
@click.option("--field-manager", default=FIELD_MANAGER, show_default=True)
@click.option("--force-conflicts", is_flag=True, help="Take over fields that others manage.")
def apply(
    target: Target,
    files: tuple[str, ...],
    recursive: bool,
    format: OutputFormat,
    dry_run: bool,
    field_manager: str,
    force_conflicts: bool,
) -> None:
    """Make objects what the files say, by server-side apply."""
    query = [("fieldManager", field_manager), ("force", str(force_conflicts).lower())]

    async def one(session: Session, kind: Kind, document: JsonObject) -> tuple[JsonObject, str]:
        return await _applied(session, kind, document, _with_dry_run(query, dry_run))

    _write_all(target, manifests.read(files, recursive=recursive), one, format, dry_run)


@click.command("create", cls=DrayCommand)
@connection.options
@manifests.files_option(required=True)
@_recursive
@formats.option
@_dry_run
def create(
    target: Target, files: tuple[str, ...], recursive: bool, format: OutputFormat, dry_run: bool
) -> None:
    """Create the objects of the files."""
    query = _with_dry_run([("fieldManager", FIELD_MANAGER)], dry_run)

    async def one(session: Session, kind: Kind, document: JsonObject) -> tuple[JsonObject, str]:
        path = api_client.collection_path(kind, _namespace(session, kind, document))
        return await _send(session, "POST", path, document, query), "created"

    _write_all(target, manifests.read(files, recursive=recursive), one, format, dry_run)


def _with_dry_run(query: list[tuple[str, str]], dry_run: bool) -> list[tuple[str, str]]:
    """Return the query with strict field validation, as kubectl sends it."""
    return [*query, ("fieldValidation", "Strict"), *([("dryRun", "All")] if dry_run else [])]


async def _applied(
    session: Session, kind: Kind, document: JsonObject, query: list[tuple[str, str]]
) -> tuple[JsonObject, str]:
    name = document.get("metadata", {}).get("name", "")
    namespace = _namespace(session, kind, document)
    if not name:
        raise CommandError(
            f"a {kind.kind} without metadata.name cannot be applied", "Use dray create."
        )
    before = await _version(session, kind, name, namespace)
    path = api_client.object_path(kind, name, namespace)
    changed = await _send(session, "PATCH", path, document, query, http_messages.APPLY_PATCH)
    return changed, _outcome(before, changed)


async def _version(session: Session, kind: Kind, name: str, namespace: str) -> str:
    try:
        current = await session.client.get(kind, name, namespace)
    except errors.NotFound:
        return ""
    return str(current["metadata"].get("resourceVersion", ""))


def _outcome(before: str, changed: JsonObject) -> str:
    if not before:
        return "created"
    return "unchanged" if changed["metadata"].get("resourceVersion") == before else "configured"


def _namespace(session: Session, kind: Kind, document: JsonObject) -> str:
    if not kind.namespaced:
        return ""
    own = document.get("metadata", {}).get("namespace", "")
    return str(own or session.namespace)


def _placed(session: Session, kind: Kind, document: JsonObject) -> JsonObject:
    """Return the object with its namespace, as kubectl sends it: errors then name both."""
    namespace = _namespace(session, kind, document)
    if not namespace:
        return document
    return {**document, "metadata": {**document.get("metadata", {}), "namespace": namespace}}


async def _send(
    session: Session,
    method: str,
    path: str,
    document: JsonObject,
    query: list[tuple[str, str]],
    content_type: str = http_messages.JSON,
) -> JsonObject:
    headers = {"accept": http_messages.JSON, "content-type": content_type}
    body = msgspec.json.encode(document)
    request = http_messages.Request(method, path, tuple(query), headers, body)
    response = await session.client.send(request)
    changed: JsonObject = msgspec.json.decode(response.body)
    return changed


def _write_all(
    target: Target, documents: list[Manifest], one: Writing, format: OutputFormat, dry_run: bool
) -> None:
    """Write objects one after the other; rejected ones do not stop the rest."""

    async def body(session: Session) -> int:
        refused = 0
        for manifest in documents:
            try:
                kind = await session.resources.of(*manifest.type)
                document = _placed(session, kind, manifest.document)
                changed, verb = await one(session, kind, document)
            except (errors.ServiceUnavailable, errors.Unauthorized):
                raise
            except (errors.StatusError, CommandError) as error:
                refused += 1
                failure = (
                    error if isinstance(error, CommandError) else command_errors.of_status(error)
                )
                CommandError(f"{manifest.source}: {failure.message}", failure.advice).show()
                continue
            suffix = " (server dry run)" if dry_run else ""
            formats.show_change(kind, changed, f"{verb}{suffix}", format)
        return refused

    refused = connection.run(target, body)
    if refused:
        raise SystemExit(1)
