"""`dray doctor`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from dray.api import http_messages, kinds
from dray.cli import printed_commands
from dray.cli.command_errors import DrayCommand, WrongUsage
from dray.cli.doctor import certificate_checks
from dray.cli.inputs import cluster_objects
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.output import formats
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection
from dray.cli.session.connection import Session, Target
from dray.client.api_client import ObjectSelection
from dray.clock import utc_now
from dray.health import health_checks, problems
from dray.health.problems import ClusterProblem, Deletion, Repair

INCOMPLETE = 6
"""The exit code if nothing was found but something could not be read."""


@click.command("doctor", cls=DrayCommand)
@connection.options
@cluster_objects.option
@formats.option
@click.option("--fix", is_flag=True, help="Repair what can be repaired; asks before each repair.")
@click.option("--yes", is_flag=True, help="With --fix: do not ask.")
def doctor(target: Target, against: str, format: OutputFormat, fix: bool, yes: bool) -> None:
    """Find what is wrong with a cluster's nodes, devices, drivers and claims, and how to fix it.

    The exit code is 1 while something is wrong, and 6 if nothing was found but something could not
    be checked.
    """
    if fix and against:
        raise WrongUsage("--fix needs a cluster, not --against")
    problems_found, limits = examined(target, against)
    chosen = cluster_objects.command_options(against, target)
    for line in limits:
        click.echo(line, err=True)
    if format.is_table:
        _show(problems_found, chosen, is_complete=not limits)
    else:
        formats.show_document(documents(problems_found, chosen), format)
    solved = _repaired(target, problems_found, yes) if fix else 0
    if len(problems_found) > solved:
        sys.exit(1)
    if limits:
        sys.exit(INCOMPLETE)


def examined(target: Target, against: str) -> tuple[list[ClusterProblem], list[str]]:
    """Return the problems of a cluster, and in one line each what could not be checked."""
    objects = _load(against, target)
    found = _find_problems(objects, against, target)
    if found and not against:
        # What is being changed right now may look wrong for a moment.
        before = {(problem.about, problem.message) for problem in found}
        again = _find_problems(_load("", target), "", target)
        found = [item for item in again if (item.about, item.message) in before]
    unread = {**objects.unread, **objects.partly_read}
    return found, [f"could not check: {message}" for message in unread.values()]


def _load(against: str, target: Target) -> ClusterObjects:
    warnings = ObjectSelection(field_selector="type=Warning,involvedObject.kind=Pod")
    return cluster_objects.load(against, target, warnings)


def _find_problems(objects: ClusterObjects, against: str, target: Target) -> list[ClusterProblem]:
    found = problems.find(objects, {**problems.CHECKS, **health_checks.CHECKS})
    if against:
        return found
    live = problems.find(objects, health_checks.LIVE_CHECKS)
    return [*found, *live, *certificate_checks.find(target.connect(), utc_now())]


def _show(problems_found: list[ClusterProblem], chosen: str, *, is_complete: bool) -> None:
    if not problems_found and is_complete:
        click.echo("Nothing is wrong.")
    elif not problems_found:
        click.echo("Nothing was found, but not everything could be checked.")
    for problem in problems_found:
        click.echo(f"{click.style(problem.about, bold=True)} {problem.message} [{problem.fault}]")
        if problem.advice:
            click.echo(f"  {printed_commands.for_cluster(problem.advice, chosen)}")
        for repair in problem.repairs:
            click.echo(f"  {repair.command}{chosen}")


def documents(problems_found: Iterable[ClusterProblem], chosen: str) -> list[dict[str, object]]:
    """Return the problems; `chosen` are the options that choose their cluster."""
    return [
        {
            **problem._asdict(),
            "advice": printed_commands.for_cluster(problem.advice, chosen),
            "repairs": [f"{repair.command}{chosen}" for repair in problem.repairs],
        }
        for problem in problems_found
    ]


def _repaired(target: Target, problems_found: list[ClusterProblem], yes: bool) -> int:
    """Apply the repairs that the user confirms. Returns how many problems that solved."""
    repairable = [problem for problem in problems_found if problem.repairs]
    chosen = [
        item
        for item in repairable
        if yes or click.confirm(f"Repair {item.about} ({item.fault})?", err=True)
    ]
    if chosen:
        connection.run(target, lambda session: _apply(session, chosen))
        click.echo(f"Repaired {len(chosen)} of {len(problems_found)}.", err=True)
    return len(chosen)


async def _apply(session: Session, chosen: list[ClusterProblem]) -> None:
    for repair in dict.fromkeys(repair for problem in chosen for repair in problem.repairs):
        await _repair(session, repair)


async def _repair(session: Session, repair: Repair) -> None:
    """Write one change. The server rejects it if the object has changed since."""
    target = repair.target
    kind = kinds.served("resource.k8s.io", target.kind)
    if isinstance(repair, Deletion):
        guard = {"uid": target.uid}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": guard}
        await session.client.delete(kind, target.name, target.namespace, options)
    else:
        name, namespace, patch_type = target.name, target.namespace, http_messages.JSON_PATCH
        await session.client.patch(
            kind, name, repair.patch, namespace, subresource="status", patch_type=patch_type
        )
