"""`dray plan -f`: would these objects run now?"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from dray.cli.command_errors import WrongUsage
from dray.cli.output import formats, junit, tables
from dray.cli.output.formats import OutputFormat
from dray.cli.output.junit import Case, Failure
from dray.cli.plan import fit_answers, plan_inputs
from dray.cli.plan.fit_answers import BlockedPod, FitAnswer
from dray.cli.session import progress
from dray.cli.session.connection import Target
from dray.explain.text import phrases
from dray.planner.placement import place as placing
from dray.planner.placement.place import PlannedPod

PODS = "pods"
"""The title of those that nothing makes."""


def run(
    target: Target,
    files: Sequence[str],
    against: str,
    format: OutputFormat,
    junit_file: Path | None = None,
) -> None:
    """Print where the pods of some files would run; exits with 1 if not all of them do."""
    cluster = plan_inputs.load(against, target)
    namespace = plan_inputs.namespace_of(against, target)
    submission = plan_inputs.submitted(files, cluster, namespace)
    with progress.shown("Looking for nodes"):
        waiting = submission.waiting
        plan = placing.place(submission.cluster, [*waiting, *submission.pods])
        before, own = plan.pods[: len(waiting)], plan.pods[len(waiting) :]
        answers = fit_answers.answers(submission.cluster, plan, own)
    if junit_file is not None:
        _write(junit_file, _test_results(answers))
    placed = [planned for planned in before if planned.node]
    if format.is_table:
        _print(answers, placed, is_wide=format.is_wide)
    else:
        formats.show_document(_document(answers, placed), format)
    if any(answer.obstacle for answer in answers):
        sys.exit(1)


def _document(answers: Sequence[FitAnswer], before: Sequence[PlannedPod]) -> dict[str, object]:
    return {
        "fits": not any(answer.obstacle for answer in answers),
        "pods": [answer.document() for answer in answers],
        "placedBefore": [FitAnswer(planned, None).document() for planned in before],
    }


def _print(answers: Sequence[FitAnswer], before: Sequence[PlannedPod], *, is_wide: bool) -> None:
    if before:
        names = [str(planned.submitted.pod.metadata.key) for planned in before]
        first = phrases.limited(names, len(names), "pod")
        click.echo(f"Pods that wait already get their nodes first: {first}")
    by_owner: dict[tuple[str, str], list[FitAnswer]] = {}
    for answer in answers:
        namespace = answer.planned.submitted.pod.metadata.namespace
        owner = PODS if answer.owner.startswith("pod/") else answer.owner
        by_owner.setdefault((namespace, owner), []).append(answer)
    namespaces = {namespace for namespace, _ in by_owner}
    for (namespace, owner), members in by_owner.items():
        where = f" in {namespace}" if len(namespaces) > 1 else ""
        fitting = sum(answer.obstacle is None for answer in members)
        click.secho(f"{owner}{where}: {fitting} of {len(members)} fit", bold=True)
        for line in _lines(members, is_wide=is_wide):
            click.echo(line)


def _lines(members: Sequence[FitAnswer], *, is_wide: bool) -> Iterator[str]:
    fitting = [answer.planned for answer in members if answer.obstacle is None]
    if fitting:
        header = ["  POD", "NODE", "DEVICES"]
        rows = [header, *(_row(planned, is_wide=is_wide) for planned in fitting)]
        has_devices = any(cells[2] for cells in rows[1:])
        yield from tables.aligned(cells if has_devices else cells[:2] for cells in rows)
    for planned in fitting:
        if planned.evicted:
            names = ", ".join(str(pod.metadata.key) for pod in planned.evicted)
            yield f"  {planned.submitted.pod.metadata.name} evicts {names}"
    blocked: dict[BlockedPod, list[str]] = {}
    for answer in members:
        if answer.obstacle is not None:
            name = answer.planned.submitted.pod.metadata.name
            blocked.setdefault(answer.obstacle, []).append(name)
    for obstacle, (first, *others) in blocked.items():
        mark = click.style("✗", fg="red")
        yield f"  {mark} {first}: {obstacle.reason}"
        for number, fix in enumerate(obstacle.fixes):
            yield click.style(f"    {'or' if number else 'fix'}: {fix}", fg="green")
        if others:
            yield f"    the same holds for {phrases.limited(others, len(others), 'pod')}"


def _row(planned: PlannedPod, *, is_wide: bool) -> list[str]:
    devices = []
    for claim, result in fit_answers.results(planned):
        name = str(result.device_id) if is_wide else result.device
        if is_wide:
            name = f"{claim.metadata.name}/{result.request}={name}"
        share = ",".join(f"{key}={value}" for key, value in result.consumed_capacity.items())
        devices.append(f"{name} ({share})" if share else name)
    return [f"  {planned.submitted.pod.metadata.name}", planned.node, ", ".join(devices)]


def _test_results(answers: Sequence[FitAnswer]) -> str:
    cases = []
    for answer in answers:
        metadata = answer.planned.submitted.pod.metadata
        name, obstacle = f"{metadata.namespace}/{metadata.name}", answer.obstacle
        if obstacle is None:
            cases.append(Case(answer.owner, name, f"node {answer.planned.node}\n"))
        else:
            text = "\n".join((obstacle.reason, *obstacle.fixes, ""))
            cases.append(Case(answer.owner, name, text, Failure(obstacle.check, obstacle.reason)))
    return junit.document("dray plan", cases)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise WrongUsage(f"{path}: cannot be written: {error.strerror}") from error
