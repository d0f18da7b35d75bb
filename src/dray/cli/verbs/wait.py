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
from dray.cli.command_errors import DrayCommand, TimedOut, WrongUsage
from dray.cli.output import durations, formats, jsonpath
from dray.cli.session import connection, progress
from dray.cli.session.connection import Session, Target
from dray.cli.session.resource_types import ObjectArgument
from dray.cli.verbs import listing
from dray.client.api_client import ObjectSelection

WATCH_SECONDS = 300
RETRY_SECONDS = 0.2


class Goal(NamedTuple):
    """The state to wait for. `is_met` receives None for a deleted object."""

    is_met: Callable[[JsonObject | None], bool]
    message: str = "condition met"


@click.command("wait", cls=DrayCommand)
@click.argument("what", nargs=-1, required=True)
@connection.options
@click.option(
    "--for",
    "goal",
    required=True,
    metavar="GOAL",
    help="condition=NAME[=VALUE] | jsonpath=PATH[=VALUE] | create | delete",
)
@click.option("--timeout", default="30s", show_default=True, callback=durations.parse)
@click.option("--selector", "-l", default="", help="Those with these labels.")
@click.option("--all", "every", is_flag=True, help="All of the type.")
def wait(
    target: Target, what: tuple[str, ...], goal: str, timeout: float, selector: str, every: bool
) -> None:
    """Wait until objects are as they should be: TYPE NAME… or TYPE/NAME…."""
    parsed = parse_goal(goal)

    async def body(session: Session) -> None:
        meant = await listing.named_objects(session, what, "wait", selector, every)
        if not meant:
            raise WrongUsage("no matching resources found")
        await _wait_for_all(session, meant, parsed, timeout)

    connection.run(target, body)


def parse_goal(text: str) -> Goal:
    word, _, rest = text.partition("=")
    if word == "delete":
        return Goal(lambda document: document is None)
    if word == "create":
        return Goal(lambda document: document is not None)
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
    session: Session, meant: Sequence[ObjectArgument], goal: Goal, timeout: float
) -> None:
    for reference in meant:
        shown = formats.reference(*reference)
        try:
            with progress.shown(f"Waiting for {shown}"):
                async with asyncio.timeout(timeout):
                    await _wait_for(session, reference, goal)
        except TimeoutError as error:
            raise TimedOut(
                f"timed out after {timeout:g} s waiting for {shown}",
                f"See how it stands: dray describe {reference.kind.singular} {reference.name}",
            ) from error
        click.echo(f"{shown} {goal.message}")


async def _wait_for(session: Session, reference: ObjectArgument, goal: Goal) -> None:
    kind, fields = reference.kind, f"metadata.name={reference.name}"
    selection = ObjectSelection(session.namespace_of(kind), field_selector=fields)
    while True:
        page = await session.client.list(kind, selection)
        if goal.is_met(msgspec.json.decode(page.items[0]) if page.items else None):
            return
        if await _follow(session, kind, selection, page.resource_version, goal):
            return
        await asyncio.sleep(RETRY_SECONDS)


async def _follow(
    session: Session, kind: Kind, selection: ObjectSelection, version: str, goal: Goal
) -> bool:
    """Watch the object. Returns whether the goal was met before the watch ended."""
    events = session.client.watch(
        kind, selection, resource_version=version, timeout_seconds=WATCH_SECONDS
    )
    with contextlib.suppress(errors.Expired, errors.Gone):
        async for event in events:
            if event.type == "BOOKMARK":
                continue
            gone = event.type == "DELETED"
            if goal.is_met(None if gone else msgspec.json.decode(event.object)):
                return True
    return False
