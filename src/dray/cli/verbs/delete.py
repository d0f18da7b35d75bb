"""`dray delete`: objects by name, by label, by file."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from dray.api import errors
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.cli.command_errors import DrayCommand, TimedOut, WrongUsage
from dray.cli.inputs import manifests
from dray.cli.output import formats
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection, progress, resource_types
from dray.cli.session.connection import Session, Target
from dray.cli.verbs import listing

POLL_SECONDS = 0.2


@click.command("delete", cls=DrayCommand)
@click.argument("what", nargs=-1, shell_complete=resource_types.complete)
@connection.options
@manifests.files_option()
@formats.option
@click.option("--selector", "-l", default="", help="Those with these labels.")
@click.option("--all", "every", is_flag=True, help="All of the type.")
@click.option("--cascade", type=click.Choice(["background", "foreground", "orphan"]), default=None)
@click.option("--grace-period", type=int, default=None, help="Seconds; 0 for at once.")
@click.option("--ignore-not-found", is_flag=True, help="A missing object is no error.")
@click.option("--wait/--no-wait", default=True, help="Until it is gone.")
@click.option("--timeout", default=0.0, help="How long to wait, in seconds; 0 for ever.")
def delete(
    target: Target,
    what: tuple[str, ...],
    files: tuple[str, ...],
    format: OutputFormat,
    selector: str,
    every: bool,
    cascade: str | None,
    grace_period: int | None,
    ignore_not_found: bool,
    wait: bool,
    timeout: float,
) -> None:
    """Delete objects: TYPE NAME…, TYPE/NAME…, TYPE -l LABELS, TYPE --all, or -f FILE."""
    if not what and not files:
        raise WrongUsage("say what to delete, such as: dray delete pod/x, or give -f FILE")
    options: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if cascade:
        options["propagationPolicy"] = cascade.capitalize()
    if grace_period is not None:
        options["gracePeriodSeconds"] = grace_period

    async def body(session: Session) -> None:
        gone = []
        for kind, name, namespace in await _meant(session, what, files, selector, every):
            try:
                deleted = await session.client.delete(kind, name, namespace, options)
            except errors.NotFound:
                if ignore_not_found:
                    continue
                raise
            described = resource_types.full_name(kind)
            is_name = format.name == "name"
            click.echo(f"{described}/{name}" if is_name else f'{described} "{name}" deleted')
            gone.append((kind, name, namespace, _uid(deleted)))
        if wait:
            with progress.shown("Waiting until they are gone"):
                await _wait_for_all(session, gone, timeout)

    connection.run(target, body)


async def _meant(
    session: Session, what: tuple[str, ...], files: tuple[str, ...], selector: str, every: bool
) -> list[tuple[Kind, str, str]]:
    targets: list[tuple[Kind, str, str]] = []
    for manifest in manifests.read(files):
        kind = await session.resources.of(*manifest.type)
        own = manifest.document.get("metadata", {}).get("namespace") or session.namespace
        targets.append((kind, manifest.name, own if kind.namespaced else ""))
    if what:
        for kind, name in await listing.named_objects(session, what, "delete", selector, every):
            targets.append((kind, name, session.namespace_of(kind)))
    return targets


def _uid(response: JsonObject) -> str:
    """Return the uid of the deleted object; servers answer with a Status or the object."""
    details: dict[str, Any] = response.get("details") or {}
    return str(details.get("uid") or response.get("metadata", {}).get("uid", ""))


async def _wait_for_all(
    session: Session, gone: list[tuple[Kind, str, str, str]], timeout: float
) -> None:
    try:
        async with asyncio.timeout(timeout or None):
            for kind, name, namespace, uid in gone:
                while await _is_there(session, kind, name, namespace, uid):
                    await asyncio.sleep(POLL_SECONDS)
    except TimeoutError as error:
        raise TimedOut(
            f"{kind.singular}/{name} is still there after {timeout:g} s.",
            f"What holds it up: dray get {kind.singular} {name} -o "
            "jsonpath='{.metadata.finalizers}'",
        ) from error


async def _is_there(session: Session, kind: Kind, name: str, namespace: str, uid: str) -> bool:
    try:
        current = await session.client.get(kind, name, namespace)
    except errors.NotFound:
        return False
    return not uid or current["metadata"]["uid"] == uid
