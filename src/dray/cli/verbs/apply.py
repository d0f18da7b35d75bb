"""`dray apply` and `dray create`: write objects of files to the cluster."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

import click
import msgspec

from dray.api import errors, http_messages
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.cli import command_errors, printed_commands
from dray.cli.command_errors import CommandError, DrayCommand, WrongUsage
from dray.cli.inputs import manifests
from dray.cli.inputs.manifests import Manifest
from dray.cli.output import formats
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection
from dray.cli.session.connection import FIELD_MANAGER, Session, Target
from dray.client import api_client

if TYPE_CHECKING:
    from dray.cli.lint.advice import Advice

Writing = Callable[[Session, Kind, JsonObject], Awaitable[tuple[JsonObject, str]]]
"""Writes one object. Returns the object, and the verb for the message."""

NONE, CLIENT, SERVER = "none", "client", "server"
_SUFFIXES = {NONE: "", CLIENT: " (dry run)", SERVER: " (server dry run)"}
_dry_run = click.option(
    "--dry-run",
    type=click.Choice([NONE, CLIENT, SERVER]),
    is_flag=False,
    flag_value=SERVER,
    default=NONE,
    help="Write nothing: let the server check (server, also without a value), or only show what "
    "would be sent (client).",
)
_MISSING = {
    r'namespaces "([a-z0-9-]+)" not found': "Namespace",
    r"looking up service account ([a-z0-9-]+)/([a-z0-9.-]+): ": "ServiceAccount",
    r"no PriorityClass with name (\S+) was found": "PriorityClass",
}
"""The server's words about an object that does not exist, and its kind."""
_DEVICE_FIELDS = re.compile(r"resourceclaim|\bresources\b", re.IGNORECASE)
_recursive = click.option("--recursive", "-R", is_flag=True, help="Also subdirectories.")
_lint = click.option(
    "--lint/--no-lint",
    "has_advice",
    default=True,
    help="Whether to say below errors how to correct them, and to warn about objects that cannot "
    "work.",
)


@click.command("apply", cls=DrayCommand)
@connection.options
@manifests.files_option(required=True)
@_recursive
@formats.option
@_dry_run
@click.option(
    "--server-side",
    type=click.Choice(["true", "false"]),
    is_flag=False,
    flag_value="true",
    default=None,
    help="As in kubectl; dray applies on the server in any case.",
)
@click.option("--field-manager", default=FIELD_MANAGER, show_default=True)
@click.option("--force-conflicts", is_flag=True, help="Take over fields that others manage.")
@_lint
def apply(
    target: Target,
    files: tuple[str, ...],
    recursive: bool,
    format: OutputFormat,
    dry_run: str,
    server_side: str | None,
    field_manager: str,
    force_conflicts: bool,
    has_advice: bool,
) -> None:
    """Make objects what the files say, by server-side apply."""
    if server_side == "false":
        advice = "Use kubectl apply for that, or leave the option out."
        raise WrongUsage("--server-side=false: objects are applied on the server only", advice)
    query = [("fieldManager", field_manager), ("force", str(force_conflicts).lower())]

    async def one(session: Session, kind: Kind, document: JsonObject) -> tuple[JsonObject, str]:
        if dry_run == CLIENT:
            return await _compared(session, kind, document)
        changed, verb = await _applied(session, kind, document, _with_dry_run(query, dry_run))
        return changed, "serverside-applied" if server_side else verb

    _write_all(target, _Input(target, files, recursive, has_advice), one, format, dry_run)


@click.command("create", cls=DrayCommand)
@connection.options
@manifests.files_option(required=True)
@_recursive
@formats.option
@_dry_run
@click.option("--field-manager", default=FIELD_MANAGER, show_default=True)
@_lint
def create(
    target: Target,
    files: tuple[str, ...],
    recursive: bool,
    format: OutputFormat,
    dry_run: str,
    field_manager: str,
    has_advice: bool,
) -> None:
    """Create the objects of the files."""
    query = _with_dry_run([("fieldManager", field_manager)], dry_run)

    async def one(session: Session, kind: Kind, document: JsonObject) -> tuple[JsonObject, str]:
        if dry_run == CLIENT:
            return document, "created"
        path = api_client.collection_path(kind, _namespace(session, kind, document))
        return await _send(session, "POST", path, document, query), "created"

    _write_all(target, _Input(target, files, recursive, has_advice), one, format, dry_run)


def _with_dry_run(query: list[tuple[str, str]], dry_run: str) -> list[tuple[str, str]]:
    """Return the query with strict field validation, as kubectl sends it."""
    is_dry = [("dryRun", "All")] if dry_run == SERVER else []
    return [*query, ("fieldValidation", "Strict"), *is_dry]


async def _compared(session: Session, kind: Kind, document: JsonObject) -> tuple[JsonObject, str]:
    """Return the object of the file, and what applying it would do, without writing."""
    name, namespace = _name(kind, document), _namespace(session, kind, document)
    try:
        current = await session.client.get(kind, name, namespace)
    except errors.NotFound:
        return document, "created"
    return document, "unchanged" if _contains(current, document) else "configured"


def _contains(current: object, wanted: object) -> bool:
    """Return whether a value has everything that another one has."""
    if isinstance(current, dict) and isinstance(wanted, dict):
        return all(name in current and _contains(current[name], wanted[name]) for name in wanted)
    if isinstance(current, list) and isinstance(wanted, list):
        return len(current) == len(wanted) and all(map(_contains, current, wanted))
    return current == wanted


def _name(kind: Kind, document: JsonObject) -> str:
    """Return the name of an object. Raises CommandError without one."""
    name = str(document.get("metadata", {}).get("name", ""))
    if not name:
        raise CommandError(
            f"a {kind.kind} without metadata.name cannot be applied", "Use dray create."
        )
    return name


async def _applied(
    session: Session, kind: Kind, document: JsonObject, query: list[tuple[str, str]]
) -> tuple[JsonObject, str]:
    name, namespace = _name(kind, document), _namespace(session, kind, document)
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


class _Input:
    """The objects of the files of a command, and lint's advice about them."""

    def __init__(
        self, target: Target, files: tuple[str, ...], recursive: bool, has_advice: bool
    ) -> None:
        self._target = target
        self._texts = list(manifests.texts(files, recursive=recursive))
        self._has_advice = has_advice
        self._advice: Advice | None = None
        self.manifests: list[Manifest] = []
        self.unreadable: list[tuple[str, WrongUsage]] = []
        """Files that are not YAML, with the error."""
        for source, text in self._texts:
            try:
                found = list(manifests.documents(source, text))
            except WrongUsage as error:
                self.unreadable.append((source, error))
                continue
            self.manifests += [Manifest(source, document) for document in found]

    async def advice(self, session: Session) -> Advice | None:
        """Return the advice, made when first needed; None if it is not wanted."""
        if self._advice is None and self._has_advice:
            # Imported here, because most objects are written without a complaint.
            from dray.cli.lint import advice

            documents = [manifest.document for manifest in self.manifests]
            objects = await advice.read(session, documents)
            context = self._target.connect().context
            self._advice = advice.Advice(self._texts, session.namespace, context, objects)
        return self._advice

    def is_about_devices(self) -> bool:
        """Return whether some object may have to do with devices, by a quick look."""
        return any(_DEVICE_FIELDS.search(text) for _, text in self._texts)


def _write_all(
    target: Target, given: _Input, one: Writing, format: OutputFormat, dry_run: str
) -> None:
    """Write objects one after the other; rejected ones do not stop the rest."""

    async def body(session: Session) -> int:
        refused = 0
        accepted: list[Manifest] = []
        for source, unreadable in given.unreadable:
            refused += 1
            unreadable.show()
            advice = await given.advice(session)
            _echo(advice.on_file(source) if advice else ())
        for manifest in given.manifests:
            try:
                kind = await session.resources.of(*manifest.type)
                document = _placed(session, kind, manifest.document)
                changed, verb = await one(session, kind, document)
            except (errors.ServiceUnavailable, errors.Unauthorized):
                raise
            except (errors.StatusError, CommandError) as error:
                refused += 1
                await _show_refusal(session, manifest, error, given)
                continue
            formats.show_change(kind, changed, f"{verb}{_SUFFIXES[dry_run]}", format)
            accepted.append(manifest)
        await _warn(session, accepted, given)
        return refused

    refused = connection.run(target, body)
    if refused:
        raise SystemExit(1)


async def _show_refusal(
    session: Session, manifest: Manifest, error: Exception, given: _Input
) -> None:
    """Print why an object was not written, and lint's advice."""
    failure = command_errors.of_status(error) if isinstance(error, errors.StatusError) else error
    assert isinstance(failure, CommandError)
    words = _creation_of_missing(failure.message) or failure.advice
    if isinstance(error, errors.Conflict) and not words:
        words = "To take over these fields: --force-conflicts"
    CommandError(f"{manifest.source}: {failure.message}", words).show()
    is_about_object = not isinstance(error, errors.Forbidden | errors.Conflict)
    advice = await given.advice(session) if is_about_object else None
    _echo(advice.on_error(manifest, failure.message) if advice else ())


def _creation_of_missing(message: str) -> str:
    """Return the command that creates the object which a message misses, or ""."""
    for pattern, kind in _MISSING.items():
        found = re.search(pattern, message)
        if found is None:
            continue
        if kind == "PriorityClass":
            return "Name one of: dray get priorityclasses; or remove priorityClassName."
        *namespace, name = found.groups()
        option = f" -n {namespace[0]}" if namespace else ""
        written = f'{{"apiVersion": "v1", "kind": "{kind}", "metadata": {{"name": "{name}"}}}}'
        return f"Create it: echo '{written}' | dray apply{option} -f -"
    return ""


async def _warn(session: Session, accepted: list[Manifest], given: _Input) -> None:
    """Print warnings about objects that were written and cannot work."""
    advice = await given.advice(session) if accepted and given.is_about_devices() else None
    for manifest in accepted if advice else ():
        assert advice is not None
        for line in map(printed_commands.for_same_cluster, advice.warnings(manifest)):
            if not line.startswith(" "):
                click.secho("Warning: ", fg="yellow", nl=False, err=True)
            click.echo(line, err=True)


def _echo(lines: Iterator[str] | tuple[()]) -> None:
    for line in lines:
        click.echo(printed_commands.for_same_cluster(line), err=True)
