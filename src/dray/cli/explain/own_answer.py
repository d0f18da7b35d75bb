"""The answer of `dray explain` from what the command itself reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from dray.cli.explain import fixes, preemption
from dray.cli.explain.documents import Documents
from dray.cli.explain.explain_run import ExplainRun
from dray.cli.explain.fixes import Fix
from dray.cli.explain.names import ObjectName
from dray.cli.explain.output import ExplainedGroup, Printer, show_documents
from dray.cli.output import formats
from dray.cli.output.formats import OutputFormat
from dray.cli.session.connection import Target

if TYPE_CHECKING:
    from dray.cli.lint.findings import Finding


@dataclass(frozen=True, slots=True)
class Question:
    """The arguments of `ExplainRun`: what to explain, and in which cluster."""

    target: Target
    names: Sequence[ObjectName]
    texts: Sequence[tuple[str, str]]
    against: str
    feature_gates: str
    is_whole: bool
    """Whether a namespace or the cluster is explained."""


def show(question: Question, format: OutputFormat, *, fix: bool, if_preempted: bool) -> bool:
    """Print the answer. Returns whether everything fits or is allocated."""
    run = ExplainRun(question.target, question.names, question.texts, question.against, _print_note)
    if invalid := run.invalid(question.feature_gates):
        _show_invalid(invalid, format)
        return False
    if if_preempted:
        return preemption.show(run.if_preempted(question.feature_gates), format)
    groups = run.explained(is_whole=question.is_whole, feature_gates=question.feature_gates)
    return _show(groups, run.source, format, fix=fix)


def _show(
    groups: Sequence[ExplainedGroup], source: Documents, format: OutputFormat, *, fix: bool
) -> bool:
    """Print explanations. Returns whether everything fits or is allocated."""
    if fix:
        _print_fixes(groups, source)
    elif format.is_table:
        Printer(source, is_wide=format.is_wide).show(groups)
    else:
        show_documents(groups, format)
    return all(item.is_good for group in groups for item in group.members)


def _print_fixes(groups: Sequence[ExplainedGroup], source: Documents) -> None:
    by_documents: dict[str, Fix] = {}
    for item in (item for group in groups for item in group.members):
        fix = None
        if item.pod is not None:
            fix = fixes.of_pod(item.target, item.pod, source)
        elif item.claims is not None:
            fix = fixes.of_claims(item.target, item.claims, source)
        if fix is not None:
            by_documents.setdefault(str(fix.documents or fix.words), fix)
        elif not item.is_good:
            click.echo(f"{item.target.title}: no fix was found", err=True)
    if not by_documents:
        click.echo("There is nothing to change.", err=True)
    click.echo("---\n".join(map(fixes.text, by_documents.values())), nl=False)


def _print_note(line: str) -> None:
    click.echo(line, err=True)


def _show_invalid(found: Sequence[Finding], format: OutputFormat) -> None:
    from dray.cli.lint import file_checks, reports

    if format.is_table:
        click.secho(file_checks.title(found), bold=True)
        reports.show(reports.Report.of(found), "text")
    else:
        formats.show_document(reports.documents(reports.Report.of(found).findings), format)
