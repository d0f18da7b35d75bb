"""`dray history`: show who held which device when."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from dray.api import kinds
from dray.cli.command_errors import DrayCommand, WrongUsage
from dray.cli.history import answers, times
from dray.cli.history.answers import HistoryAnswer, HistoryQuestion
from dray.cli.history.past_revisions import Period
from dray.cli.output import formats, tables
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection
from dray.cli.session.connection import Target

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

GAP = "<not recorded>"


class _History(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands and not args[0].startswith("-"):
            have = "devices, claims, nodes and users have a history"
            raise WrongUsage(f"{args[0]}: only {have}", _advice(args))
        return super().resolve_command(ctx, args)


def _advice(args: Sequence[str]) -> str:
    word, _, name = args[0].partition("/")
    kind = kinds.by_name(word)
    if kind is None:
        return f"Write: dray history device {args[0]}"
    named = name or "".join(args[1:2]) or "NAME"
    if kind is kinds.RESOURCE_CLAIM:
        return f"Write: dray history claim {named}"
    if kind is kinds.NODE:
        return f"Write: dray history node {named}"
    name = "/".join(args[:2])
    about = name if "/" in name else f"{name}/NAME"
    return f"Write: dray history device NODE/DEVICE; events of others: dray events --for {about}"


@click.group("history", cls=_History)
def history() -> None:
    """Show who held which device when.

    `dray up` records it for 30 days, `dray record --file FILE` that of any cluster. Without a
    record, devices and claims are shown as far back as the server keeps old revisions.
    """


def _options(function: Decorated) -> Decorated:
    for option in (
        click.option(
            "--file",
            type=click.Path(dir_okay=False, path_type=Path),
            help="The file of a recorder, instead of that of `dray up`.",
        ),
        click.option(
            "--since", default="", metavar="TIME", help="Not before this time, or 2h for 2 h ago."
        ),
        click.option(
            "--at",
            default="",
            metavar="TIME",
            help="Only at this time: 14:02, or 2026-11-15T14:02:00Z.",
        ),
        formats.option,
    ):
        function = option(function)
    return function


@history.command("device", cls=DrayCommand)
@click.argument("device")
@connection.options_of_cluster
@_options
def device(target: Target, device: str, format: OutputFormat, **when: Any) -> None:
    """Show who used a device when: NODE/DEVICE, or DRIVER/POOL/DEVICE."""
    _show(target, HistoryQuestion("device", device, **when), format)


@history.command("claim", cls=DrayCommand)
@click.argument("name")
@connection.options
@_options
def claim(target: Target, name: str, format: OutputFormat, **when: Any) -> None:
    """Show which devices a claim held when: NAME, or NAMESPACE/NAME."""
    if "/" not in name:
        name = f"{_namespace(target)}/{name}"
    _show(target, HistoryQuestion("claim", name, **when), format)


@history.command("node", cls=DrayCommand)
@click.argument("name")
@connection.options_of_cluster
@_options
def node(target: Target, name: str, format: OutputFormat, **when: Any) -> None:
    """Show who held the devices of a node when."""
    _show(target, HistoryQuestion("node", name, **when), format)


@history.command("user", cls=DrayCommand)
@click.argument("name")
@connection.options_of_cluster
@_options
def user(target: Target, name: str, format: OutputFormat, **when: Any) -> None:
    """Show which devices a user's claims held when.

    The user is the annotation dray.dev/user of the claim or its pod. Without one it is the program
    that created them, such as kubectl-create.
    """
    _show(target, HistoryQuestion("user", name, **when), format)


def _namespace(target: Target) -> str:
    return target.namespace or target.connect().namespace


def _show(target: Target, question: HistoryQuestion, format: OutputFormat) -> None:
    found = answers.answer(target, question)
    if format.is_table:
        _print(question, found)
    else:
        formats.show_document(found.document(), format)


def _print(question: HistoryQuestion, found: HistoryAnswer) -> None:
    has_devices = question.subject != "device" or _has_parts(question, found)
    if found.items or found.gaps:
        has_users = bool(found.recorded_until) and question.subject != "user"
        header = ["SINCE", "UNTIL", *(["DEVICE"] if has_devices else []), "CLAIM"]
        header += [*(["USER"] if has_users else []), "USED BY"]
        rows = _rows(found, has_devices=has_devices, has_users=has_users)
        tables.show([header, *rows], has_header=True)
    else:
        at = f" at {question.at}" if question.at else ""
        held = "was held by nobody" if question.subject == "device" else "held nothing"
        held = "had no device in use" if question.subject == "node" else held
        click.echo(f"{question.name} {held}{at}.")
    if found.marks:
        click.echo()
        named = ["DEVICE"] if has_devices else []
        marks = [
            [
                *_shown(mark.since, mark.until),
                *([_name(mark.device)] if has_devices else []),
                mark.kind,
                mark.key,
            ]
            for mark in found.marks
        ]
        tables.show([["SINCE", "UNTIL", *named, "MARK", "TAINT"], *marks], has_header=True)
    click.echo(_extent(found), err=True)


def _has_parts(question: HistoryQuestion, found: HistoryAnswer) -> bool:
    """Return whether some of the answer is about partitions of the device of the question."""
    devices = {*(item.device for item in found.items), *(mark.device for mark in found.marks)}
    return not all(f"/{device}".endswith(f"/{question.name}") for device in devices)


def _name(device: str) -> str:
    """Return POOL/DEVICE of DRIVER/POOL/DEVICE."""
    return device.partition("/")[2]


def _rows(found: HistoryAnswer, *, has_devices: bool, has_users: bool) -> Iterator[list[str]]:
    """Return the periods, and the gaps between them, in the order of their starts."""
    gaps = [(since, [*_shown(since, until), GAP]) for since, until in found.gaps]
    held = [
        (period.since, _row(period, has_devices=has_devices, has_users=has_users))
        for period in found.items
    ]
    yield from (row for _, row in sorted([*held, *gaps], key=lambda item: item[0]))


def _row(period: Period, *, has_devices: bool, has_users: bool) -> list[str]:
    since, until = _shown(period.since, period.until)
    return [
        since,
        f"after {until}" if period.until_is_about else until,
        *([_name(period.device)] if has_devices else []),
        f"{period.namespace}/{period.claim}",
        *([period.user or "<none>"] if has_users else []),
        ",".join(period.used_by) or "<none>",
    ]


def _shown(since: str, until: str) -> list[str]:
    return [times.local(since), times.local(until) if until else "<now>"]


def _extent(found: HistoryAnswer) -> str:
    if found.recorded_until:
        since, until = times.local(found.reaches_back_to), times.local(found.recorded_until)
        return f"Recorded from {since} to {until}."
    since = found.reaches_back_to
    start = f"at {times.local(since)}" if since else f"at revision {found.revision}"
    return f"History starts {'with the cluster' if found.revision <= 1 else start}."
