"""`dray doctor`."""

from __future__ import annotations

import sys

import click

from dray.api import http_messages, kinds
from dray.api.well_known import FAILED_PREPARE_REASON
from dray.cli.command_errors import Command, WrongUsage
from dray.cli.doctor import problems
from dray.cli.doctor.problems import ClusterProblem, Deletion, Repair
from dray.cli.inputs import cluster_objects
from dray.cli.output import formats
from dray.cli.output.formats import Format
from dray.cli.session import connection
from dray.cli.session.connection import Session, Target
from dray.client.api_client import ObjectSelection


@click.command("doctor", cls=Command)
@connection.options
@cluster_objects.option
@formats.option
@click.option("--fix", is_flag=True, help="Mend what can be mended; asks before each repair.")
@click.option("--yes", is_flag=True, help="With --fix: do not ask.")
def doctor(target: Target, against: str, format: Format, fix: bool, yes: bool) -> None:
    """Say what is wrong with a cluster's claims, slices and drivers, and how to mend it.

    The exit code is 1 while something is wrong.
    """
    if fix and against:
        raise WrongUsage("--fix needs a cluster, not --against")
    found = _look(against, target)
    if found and not against:
        # What is being changed right now may look wrong for a moment.
        before = {(each.about, each.message) for each in found}
        found = [each for each in _look("", target) if (each.about, each.message) in before]
    if format.is_table:
        _show(found)
    else:
        formats.show_document([_document(each) for each in found], format)
    mended = _mended(target, found, yes) if fix else 0
    if len(found) > mended:
        sys.exit(1)


def _look(against: str, target: Target) -> list[ClusterProblem]:
    told = ObjectSelection(field_selector=f"reason={FAILED_PREPARE_REASON}")
    around = cluster_objects.load(against, target, told)
    for refusal in around.unread.values():
        click.echo(f"Could not be looked at: {refusal}", err=True)
    return problems.find(around)


def _show(found: list[ClusterProblem]) -> None:
    if not found:
        click.echo("Nothing is wrong.")
    for ailment in found:
        click.echo(f"{click.style(ailment.about, bold=True)} {ailment.message} [{ailment.fault}]")
        if ailment.advice:
            click.echo(f"  {ailment.advice}")
        for repair in ailment.repairs:
            click.echo(f"  {repair.command}")


def _document(ailment: ClusterProblem) -> dict[str, object]:
    return {
        "fault": ailment.fault,
        "about": ailment.about,
        "message": ailment.message,
        "advice": ailment.advice,
        "repairs": [repair.command for repair in ailment.repairs],
    }


def _mended(target: Target, found: list[ClusterProblem], yes: bool) -> int:
    """Mend what the user wants to have mended; how many ailments that was."""
    curable = [each for each in found if each.repairs]
    chosen = [each for each in curable if yes or _is_wanted(each)]
    if chosen:
        connection.run(target, lambda session: _apply(session, chosen))
        click.echo(f"Mended {len(chosen)} of {len(found)}.", err=True)
    return len(chosen)


def _is_wanted(ailment: ClusterProblem) -> bool:
    return click.confirm(f"Mend {ailment.about} ({ailment.fault})?", err=True)


async def _apply(session: Session, chosen: list[ClusterProblem]) -> None:
    for repair in dict.fromkeys(repair for ailment in chosen for repair in ailment.repairs):
        await _repair(session, repair)


async def _repair(session: Session, repair: Repair) -> None:
    """Write one change; the server refuses it where things are no longer as they were."""
    target = repair.target
    kind = kinds.served("resource.k8s.io", target.kind)
    if isinstance(repair, Deletion):
        guard = {"uid": target.uid}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": guard}
        await session.client.delete(kind, target.name, target.namespace, options)
    else:
        await session.client.patch(
            kind,
            target.name,
            repair.patch,
            target.namespace,
            subresource="status",
            patch_type=http_messages.JSON_PATCH,
        )
