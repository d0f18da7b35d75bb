"""`dray lint`."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Collection
from pathlib import Path

import click

from dray.api import features as gates
from dray.cli import printed_commands
from dray.cli.command_errors import DrayCommand, WrongUsage
from dray.cli.inputs import cluster_objects, manifests
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.lint import reports, rules
from dray.cli.lint.linter import Linter, Texts
from dray.cli.lint.reports import Report
from dray.cli.lint.rules import Severity
from dray.cli.lint.source_documents import DEFAULT_NAMESPACE
from dray.cli.session import connection
from dray.cli.session.connection import Target

ALL = "all"


@click.command("lint", cls=DrayCommand)
@click.argument("files", nargs=-1)
@connection.options
@cluster_objects.option
@click.option("--fix", is_flag=True, help="Correct the files in place where the meaning is clear.")
@click.option(
    "--unsafe-fixes",
    is_flag=True,
    help="With --fix: also change what is requested, such as fewer devices.",
)
@click.option("--output", "-o", "form", type=click.Choice(tuple(reports.FORMS)), default="text")
@click.option(
    "--report",
    "report_files",
    multiple=True,
    metavar="FORMAT=FILE",
    callback=lambda _context, _option, values: reports.targets(values),
    help="Also write the findings to a file, in a format of --output; may be repeated.",
)
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@click.option("--ignore", "ignored", multiple=True, metavar="RULE", help="Leave out a rule.")
@click.option("--feature-gates", default="", metavar="A=true,B=false", help="As in Kubernetes.")
@click.option(
    "--rules",
    "shown_rule",
    is_flag=False,
    flag_value=ALL,
    default="",
    metavar="[RULE]",
    help="Show every rule, or one.",
)
def lint(
    target: Target,
    files: tuple[str, ...],
    against: str,
    fix: bool,
    unsafe_fixes: bool,
    form: str,
    report_files: dict[Path, str],
    strict: bool,
    ignored: tuple[str, ...],
    feature_gates: str,
    shown_rule: str,
) -> None:
    """Find mistakes in manifests and print their corrections.

    With --against, also find out whether the pods and claims could be scheduled there. A comment
    `# dray-lint: ignore=RULE` on a line, above it or above an object leaves out a rule there.
    """
    if shown_rule:
        _show_rules("" if shown_rule == ALL else shown_rule)
        return
    if not files:
        raise WrongUsage("name the files to check", "Or show the rules: dray lint --rules")
    if unsafe_fixes and not fix:
        raise WrongUsage("--unsafe-fixes needs --fix")
    for name in ignored:
        rules.named(name)
    objects = cluster_objects.load(against, target) if against else None
    linter = linter_for(target, objects, ignored, feature_gates)
    texts: Texts = list(manifests.texts(files, recursive=True))
    if fix:
        texts = _fixed(linter, texts, also_unsafe=unsafe_fixes)
    result = linter.check(texts)
    chosen = cluster_objects.command_options(against, target) if against else ""
    found = [
        finding._replace(advice=printed_commands.for_cluster(finding.advice, chosen))
        for finding in result.findings
    ]
    report = Report.of(found, [file for file, _ in texts], is_strict=strict)
    reports.show(report, form, aside=fix and manifests.STANDARD_INPUT in files)
    reports.write(report, report_files)
    _conclude(report, result.objects, form)


def linter_for(
    target: Target,
    objects: ClusterObjects | None,
    ignored: Collection[str] = (),
    feature_gates: str = "",
) -> Linter:
    """Return what checks files, alone or against the objects of a cluster."""
    base = objects.features if objects else gates.DEFAULT
    features = gates.parse(feature_gates, base) if feature_gates else base
    if objects is not None:
        objects.stated = features
    return Linter(features, objects, ignored, target.namespace or DEFAULT_NAMESPACE)


def _show_rules(name: str) -> None:
    if name:
        rule = rules.named(name)
        click.secho(f"{rule.name} ({rule.severity.value})", bold=True)
        click.echo(textwrap.fill(f"{rule.summary} {rule.help}", 100))
        click.echo(f"To leave it out: --ignore {rule.name}, or a comment:")
        click.echo(f"    # dray-lint: ignore={rule.name}")
        return
    width = max(map(len, rules.RULES))
    for rule in rules.RULES.values():
        click.echo(f"{rule.name:<{width}}  {rule.severity.value:<7}  {rule.summary}")


def _fixed(linter: Linter, texts: Texts, *, also_unsafe: bool) -> Texts:
    """Rewrite files in place, or standard input to standard output. Returns the new texts."""
    changed, fixed = linter.fixed(texts, also_unsafe=also_unsafe)
    for finding in fixed:
        words = finding.advice.replace("\n", " ")
        click.echo(f"{finding.file}:{finding.line}: fixed: {words} [{finding.rule}]", err=True)
    for (file, before), (_, after) in zip(texts, changed, strict=True):
        if file == manifests.STANDARD_INPUT_NAME:
            click.echo(after, nl=False)
        elif after != before:
            Path(file).write_text(after, "utf-8")
    return changed


def _conclude(report: Report, objects_seen: int, form: str) -> None:
    """Print a summary for people, and end with 1 if a finding is a failure."""
    problems = report.findings
    errors = sum(finding.severity is Severity.ERROR for finding in problems)
    if form in reports.LINES:
        click.echo(_summary(objects_seen, errors, len(problems) - errors), err=True)
        fixable = sum(finding.fix is not None and finding.fix.is_correction for finding in problems)
        if fixable:
            click.echo(f"dray lint --fix corrects {fixable} of them.", err=True)
    if any(map(report.is_failure, problems)):
        sys.exit(1)


def _summary(objects_seen: int, errors: int, warnings: int) -> str:
    counted = (objects_seen, "object"), (errors, "error"), (warnings, "warning")
    seen, wrong, doubtful = (f"{n} {noun}" if n == 1 else f"{n} {noun}s" for n, noun in counted)
    return f"{seen}: {wrong}, {doubtful}"
