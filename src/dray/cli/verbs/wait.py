"""`dray wait`: waits until objects have a condition or a value, exist or are deleted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import click
import msgspec

from dray.api import errors
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.cli import lazy_group
from dray.cli.command_errors import DrayCommand, ObjectNotFound, TimedOut, WrongUsage
from dray.cli.inputs import manifests
from dray.cli.output import durations, formats, jsonpath
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection, progress
from dray.cli.session.connection import Session, Target
from dray.cli.session.resource_types import ObjectArgument
from dray.cli.verbs import listing
from dray.cli.verbs.listing import Selection
from dray.client.api_client import ObjectSelection

WATCH_SECONDS = 300
WEEK_SECONDS = 7 * 24 * 3600.0
RETRY_SECONDS = 0.2


class Goal(NamedTuple):
    """The state to wait for. `is_met` receives None for a deleted object."""

    is_met: Callable[[JsonObject | None], bool]
    creates: bool = False
    deletes: bool = False


def _timeout(context: click.Context, parameter: click.Parameter, text: str) -> float:
    if text.startswith("-"):
        durations.parse(context, parameter, text[1:])
        return WEEK_SECONDS
    return durations.parse(context, parameter, text)


@click.command("wait", cls=DrayCommand)
@click.argument("what", nargs=-1, shell_complete=lazy_group.completer("objects"))
@connection.options
@connection.all_namespaces_option
@manifests.files_option()
@manifests.recursive_option
@formats.option
@click.option(
    "--for",
    "goals",
    required=True,
    multiple=True,
    metavar="GOAL",
    help="condition=NAME[=VALUE] | jsonpath=PATH[=VALUE] | create | delete; may be repeated.",
)
@click.option(
    "--timeout",
    default="30s",
    show_default=True,
    callback=_timeout,
    metavar="DURATION",
    help="0s checks once; a negative one waits a week.",
)
@click.option("--selector", "-l", default="", help="Those with these labels.")
@click.option("--field-selector", default="", help="Those with these fields.")
@click.option("--all", "every", is_flag=True, help="All of the type.")
def wait(
    target: Target,
    what: tuple[str, ...],
    files: tuple[str, ...],
    recursive: bool,
    format: OutputFormat,
    goals: tuple[str, ...],
    timeout: float,
    selector: str,
    field_selector: str,
    every: bool,
) -> None:
    """Wait for a condition on objects: TYPE NAME…, TYPE/NAME…, or -f FILE.

    With several --for, objects reach one goal after the other.
    """
    if not what and not files:
        raise WrongUsage("say what to wait for, such as: dray wait pod/x --for=condition=Ready")
    parsed = sorted(map(parse_goal, goals), key=lambda goal: not goal.creates)
    selection = Selection(selector, field_selector, every, files, recursive)

    async def body(session: Session) -> None:
        meant = await _meant(session, what, selection, parsed, timeout)
        deadline = asyncio.get_running_loop().time() + timeout
        for goal in parsed:
            await _wait_for_all(session, meant, goal, deadline, timeout, format)

    connection.run(target, body)


async def _meant(
    session: Session,
    what: tuple[str, ...],
    selection: Selection,
    goals: Sequence[Goal],
    timeout: float,
) -> list[ObjectArgument]:
    """Return the objects to wait for; with --for=create, wait until a selector finds some."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while True:
        meant = await listing.named_objects(session, what, "wait", selection)
        if meant or any(goal.deletes for goal in goals):
            return meant
        if not goals[0].creates:
            raise WrongUsage("no matching resources found")
        if loop.time() >= deadline:
            raise TimedOut(f"timed out after {timeout:g} s: no matching resources were created")
        await asyncio.sleep(RETRY_SECONDS)


def parse_goal(text: str) -> Goal:
    word, _, rest = text.partition("=")
    if word == "delete":
        return Goal(lambda document: document is None, deletes=True)
    if word == "create":
        return Goal(lambda document: document is not None, creates=True)
    if word == "condition" and rest:
        name, _, value = rest.partition("=")
        return Goal(lambda document: _has_condition(document, name, value or "true"))
    if word == "jsonpath" and rest:
        return _path_goal(rest)
    raise WrongUsage(
        f"--for={text}: write condition=NAME[=VALUE], jsonpath=PATH[=VALUE], create or delete"
    )


def _has_condition(document: JsonObject | None, name: str, value: str) -> bool:
    """Return whether a condition is met; one about an older generation does not count."""
    if document is None:
        return False
    generation = document["metadata"].get("generation", 0)
    return any(
        condition.get("type", "").lower() == name.lower()
        and str(condition.get("status", "")).lower() == value.lower()
        and condition.get("observedGeneration", generation) >= generation
        for condition in (document.get("status") or {}).get("conditions") or ()
    )


def _path_goal(text: str) -> Goal:
    """Parse a goal such as `{.status.phase}=Running`; without a value, any value counts."""
    path, brace, behind = text.rpartition("}")
    if not brace:
        path, _, behind = text.partition("=")
        behind = f"={behind}" if behind else ""
    template = jsonpath.relaxed(path + brace)
    value = behind.removeprefix("=").strip("\"'")

    def is_met(document: JsonObject | None) -> bool:
        matches = template.find(document) if document is not None else []
        if not behind:
            return bool(matches)
        return len(matches) == 1 and jsonpath.text_of(matches[0]) == value

    return Goal(is_met)


async def _wait_for_all(
    session: Session,
    meant: Sequence[ObjectArgument],
    goal: Goal,
    deadline: float,
    timeout: float,
    format: OutputFormat,
) -> None:
    for reference in meant:
        shown = formats.reference(reference.kind, reference.name)
        try:
            with progress.shown(f"Waiting for {shown}"):
                reached = await _wait_for(session, reference, goal, deadline)
        except TimeoutError as error:
            where = f" -n {reference.namespace}" if reference.namespace else ""
            raise TimedOut(
                f"timed out after {timeout:g} s waiting for {shown}",
                f"See its state: dray describe {reference.kind.singular} {reference.name}{where}",
            ) from error
        if format.is_table or reached is None:
            click.echo(f"{shown} condition met")
        else:
            formats.show_change(reference.kind, reached, "condition met", format)


async def _wait_for(
    session: Session, reference: ObjectArgument, goal: Goal, deadline: float
) -> JsonObject | None:
    """Wait until an object reaches a goal. Returns the object, or None if it is deleted.

    Looks once also after the deadline, then raises TimeoutError.
    """
    kind, fields = reference.kind, f"metadata.name={reference.name}"
    selection = ObjectSelection(reference.namespace, field_selector=fields)
    while True:
        page = await session.client.list(kind, selection)
        found = msgspec.json.decode(page.items[0]) if page.items else None
        if goal.is_met(found):
            return {**kind.type_meta, **found} if found is not None else None
        if found is None and not goal.creates and not goal.deletes:
            raise ObjectNotFound(f'{kind.plural} "{reference.name}" not found')
        if asyncio.get_running_loop().time() >= deadline:
            raise TimeoutError
        async with asyncio.timeout_at(deadline):
            reached, last = await _follow(session, kind, selection, page.resource_version, goal)
            if reached:
                return last
            await asyncio.sleep(RETRY_SECONDS)


async def _follow(
    session: Session, kind: Kind, selection: ObjectSelection, version: str, goal: Goal
) -> tuple[bool, JsonObject | None]:
    """Watch the object. Returns whether the goal was met before the watch ended, and the object."""
    events = session.client.watch(
        kind, selection, resource_version=version, timeout_seconds=WATCH_SECONDS
    )
    with contextlib.suppress(errors.Expired, errors.Gone):
        async for event in events:
            if event.type == "BOOKMARK":
                continue
            gone = event.type == "DELETED"
            document = None if gone else msgspec.json.decode(event.object)
            if goal.is_met(document):
                return True, document
            if gone:
                break
    return False, None
