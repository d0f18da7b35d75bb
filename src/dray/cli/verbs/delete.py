"""`dray delete`: objects by name, by label, by file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from dray.api import errors
from dray.api.types.meta import JsonObject
from dray.cli import command_errors, lazy_group
from dray.cli.command_errors import CommandError, DrayCommand, TimedOut, WrongUsage
from dray.cli.inputs import manifests
from dray.cli.output import durations, formats
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection, resource_types
from dray.cli.session.connection import Session, Target
from dray.cli.session.resource_types import ObjectArgument
from dray.cli.verbs import deletion_causes, listing
from dray.cli.verbs.listing import Selection

POLL_SECONDS = 0.2
NOTICE_SECONDS = 3.0
"""How long a deletion may take before the command prints what it waits for."""
CASCADES = ("background", "foreground", "orphan")


class DeleteRequest(NamedTuple):
    """Options of a deletion, and of the lines about it."""

    options: JsonObject
    dry_run: str
    format: OutputFormat
    ignore_not_found: bool

    def message(self, kind: str, name: str, namespace: str) -> str:
        """Return the line about one deleted object, as kubectl prints it."""
        if self.format.name == "name":
            return f"{kind}/{name}"
        verb = "force deleted" if self.options.get("gracePeriodSeconds") == 0 else "deleted"
        where = f" from {namespace} namespace" if namespace else ""
        suffix = {"client": " (dry run)", "server": " (server dry run)"}.get(self.dry_run, "")
        return f'{kind} "{name}" {verb}{where}{suffix}'


class Deleted(NamedTuple):
    """An object that is being deleted."""

    reference: ObjectArgument
    uid: str


@click.command("delete", cls=DrayCommand)
@click.argument("what", nargs=-1, shell_complete=lazy_group.completer("objects"))
@connection.options
@connection.all_namespaces_option
@manifests.files_option()
@manifests.recursive_option
@formats.option
@click.option("--selector", "-l", default="", help="Those with these labels.")
@click.option("--field-selector", default="", help="Those with these fields.")
@click.option("--all", "every", is_flag=True, help="All of the type.")
@click.option(
    "--cascade",
    type=click.Choice(CASCADES),
    is_flag=False,
    flag_value="background",
    default="background",
    show_default=True,
    help="How dependents are deleted, such as the pods of a job.",
)
@click.option("--grace-period", type=int, default=-1, help="Seconds; -1 for the object's own.")
@click.option("--now", is_flag=True, help="The same as --grace-period=1.")
@click.option("--force", is_flag=True, help="Delete a pod at once, without asking its node.")
@click.option("--ignore-not-found", is_flag=True, help="A missing object is no error.")
@click.option("--interactive", "-i", is_flag=True, help="Ask before anything is deleted.")
@click.option("--wait/--no-wait", default=True, help="Wait until it is deleted.")
@click.option(
    "--timeout",
    default="0s",
    callback=durations.parse,
    metavar="DURATION",
    help="How long to wait; 0s for no limit.",
)
@formats.dry_run_option
def delete(
    target: Target,
    what: tuple[str, ...],
    files: tuple[str, ...],
    recursive: bool,
    format: OutputFormat,
    selector: str,
    field_selector: str,
    every: bool,
    ignore_not_found: bool,
    interactive: bool,
    wait: bool,
    timeout: float,
    dry_run: str,
    **how: Any,
) -> None:
    """Delete objects: TYPE NAME…, TYPE/NAME…, TYPE -l LABELS, TYPE --all, or -f FILE."""
    if not what and not files:
        raise WrongUsage("say what to delete, such as: dray delete pod/x, or give -f FILE")
    if format.name not in ("", "name"):
        raise WrongUsage(f"-o {format.name}: dray delete knows only -o name")
    options = _delete_options(**how)
    if dry_run == "server":
        options["dryRun"] = ["All"]
    request = DeleteRequest(options, dry_run, format, ignore_not_found or every)
    selection = Selection(selector, field_selector, every, files, recursive)

    async def body(session: Session) -> None:
        meant, failures = await _meant(session, what, selection)
        number = len(meant) + len(failures)
        if not number:
            click.echo("No resources found", err=True)
        if interactive and not _is_confirmed(meant):
            return
        deleted = await _delete_all(session, meant, request, failures)
        if wait and not dry_run:
            await _wait_for_all(session, deleted, timeout)
        _report(failures, of=number)

    connection.run(target, body)


def _delete_options(cascade: str, grace_period: int, now: bool, force: bool) -> JsonObject:
    """Return kubectl's DeleteOptions. Raises WrongUsage for options that exclude each other."""
    if now and grace_period >= 0:
        raise WrongUsage("--now and --grace-period cannot both be given")
    if force and grace_period > 0:
        raise WrongUsage("--force and a --grace-period above 0 cannot both be given")
    if force:
        grace_period = 0
        click.echo(
            "Warning: --force does not wait until the node has stopped the containers. "
            "They may go on running.",
            err=True,
        )
    elif now or grace_period == 0:
        # As kubectl: 0 deletes without the node, and needs --force.
        grace_period = 1
    options: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
    options["propagationPolicy"] = cascade.capitalize()
    if grace_period >= 0:
        options["gracePeriodSeconds"] = grace_period
    return options


async def _meant(
    session: Session, what: tuple[str, ...], selection: Selection
) -> tuple[list[ObjectArgument], list[CommandError]]:
    """Return the objects to delete, and an error for each whose kind is not served."""
    meant: list[ObjectArgument] = []
    failures: list[CommandError] = []
    for manifest in manifests.read(selection.files, recursive=selection.recursive):
        try:
            meant.append(await listing.of_manifest(session, manifest))
        except CommandError as error:
            failures.append(error)
    if what:
        named = selection._replace(files=())
        meant += await listing.named_objects(session, what, "delete", named)
    return meant, failures


def _is_confirmed(meant: Sequence[ObjectArgument]) -> bool:
    click.echo("You are about to delete the following resource(s):")
    for reference in meant:
        click.echo(formats.reference(reference.kind, reference.name))
    if click.confirm("Do you want to continue?"):
        return True
    click.echo("deletion is cancelled")
    return False


async def _delete_all(
    session: Session,
    meant: Sequence[ObjectArgument],
    request: DeleteRequest,
    failures: list[CommandError],
) -> list[Deleted]:
    """Delete objects one after the other; one that is missing does not stop the rest."""
    deleted: list[Deleted] = []
    for reference in meant:
        kind, name, namespace = reference
        try:
            if request.dry_run == "client":
                response = await session.client.get(kind, name, namespace)
            else:
                response = await session.client.delete(kind, name, namespace, request.options)
        except (errors.ServiceUnavailable, errors.Unauthorized):
            raise
        except errors.StatusError as error:
            if not (request.ignore_not_found and isinstance(error, errors.NotFound)):
                failures.append(command_errors.of_status(error))
            continue
        click.echo(request.message(resource_types.full_name(kind), name, namespace))
        deleted.append(Deleted(reference, _uid(response)))
    return deleted


def _report(failures: Sequence[CommandError], *, of: int) -> None:
    """End with the error of the only object; else print each, and end as kubectl does."""
    if not failures:
        return
    if of == 1:
        raise failures[0]
    for failure in failures:
        failure.show()
    raise SystemExit(1)


def _uid(response: JsonObject) -> str:
    """Return the uid of the deleted object; servers answer with a Status or the object."""
    details: dict[str, Any] = response.get("details") or {}
    return str(details.get("uid") or response.get("metadata", {}).get("uid", ""))


async def _wait_for_all(session: Session, deleted: Sequence[Deleted], timeout: float) -> None:
    reference: ObjectArgument | None = None
    try:
        async with asyncio.timeout(timeout or None):
            for reference, uid in deleted:
                await _wait_for(session, reference, uid)
    except TimeoutError as error:
        assert reference is not None
        cause, advice = "", ""
        if (document := await _found(session, reference, "")) is not None:
            cause, advice = await deletion_causes.find(session, reference, document)
        message = f"{reference.kind.singular}/{reference.name} still exists after {timeout:g} s"
        raise TimedOut(f"{message}: {cause}" if cause else f"{message}.", advice) from error


async def _wait_for(session: Session, reference: ObjectArgument, uid: str) -> None:
    """Wait until an object is deleted. Prints what holds it, and again when that changes."""
    loop, printed = asyncio.get_running_loop(), ""
    notice_time = loop.time() + NOTICE_SECONDS
    while (document := await _found(session, reference, uid)) is not None:
        if loop.time() >= notice_time:
            notice_time = loop.time() + NOTICE_SECONDS
            cause, advice = await deletion_causes.find(session, reference, document)
            if cause != printed:
                shown = f"{reference.kind.singular}/{reference.name}"
                click.echo(f"Waiting for {shown}: {cause}\n{advice}", err=True)
                printed = cause
        await asyncio.sleep(POLL_SECONDS)


async def _found(session: Session, reference: ObjectArgument, uid: str) -> JsonObject | None:
    """Return the object if it still exists, or None."""
    try:
        current = await session.client.get(*reference)
    except errors.NotFound:
        return None
    return None if uid and current["metadata"]["uid"] != uid else current
