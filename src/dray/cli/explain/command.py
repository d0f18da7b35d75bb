"""`dray explain`: why a pod or a claim waits or fails, and what would help."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from dray.api import kinds
from dray.cli.command_errors import DrayCommand, ObjectNotFound, WrongUsage
from dray.cli.explain import fixes, preemption, targets
from dray.cli.explain.documents import Documents
from dray.cli.explain.explain_run import ExplainRun
from dray.cli.explain.fixes import Fix
from dray.cli.explain.output import ExplainedGroup, Printer, show_documents
from dray.cli.inputs import cluster_objects, manifests
from dray.cli.output import formats
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection
from dray.cli.session.connection import Target

if TYPE_CHECKING:
    from dray.cli.lint.findings import Finding


@click.command("explain", cls=DrayCommand)
@click.argument("what", nargs=-1)
@connection.options
@connection.all_namespaces_option
@manifests.files_option()
@cluster_objects.option
@formats.option
@click.option("--fix", is_flag=True, help="Print the changed manifests, ready to be applied.")
@click.option(
    "--feature-gates", default="", metavar="A=true,B=false", help="Of the cluster, if they differ."
)
@click.option("--if-preempted", is_flag=True, help="List the pods that would be evicted for a pod.")
@click.option("--recursive", is_flag=True, help="Include nested fields.")
def explain(
    target: Target,
    what: tuple[str, ...],
    files: tuple[str, ...],
    against: str,
    format: OutputFormat,
    fix: bool,
    feature_gates: str,
    if_preempted: bool,
    recursive: bool,
) -> None:
    """Explain why pods and claims wait or fail, and what would help.

    Name them as TYPE/NAME or TYPE NAME: a pod, claim, template, deployment,
    statefulset, daemonset, replicaset, job or namespace; or give -f FILE, -n
    NAMESPACE or -A alone. Nothing is written to the cluster.

    With a type or a field alone, as in `dray explain pod.spec`, its
    documentation is printed.

    \b
    Examples:
      dray explain pod/train
      dray explain deployment web -n team
      dray explain -A
      dray explain -f train.yaml --against h100
      dray explain pod/train --fix > fix.yaml
      dray explain pod/train --if-preempted
    """
    if if_preempted:
        preemption.check_usage(target, what, files, fix=fix, recursive=recursive)
    if len(what) == 1 and "/" not in what[0] and not files:
        click.echo(_field_help(what[0], recursive), nl=False)
        return
    if recursive:
        raise WrongUsage("--recursive is for the documentation of fields")
    is_whole = _is_whole(target, has_names=bool(what or files))
    texts = list(manifests.texts(files, recursive=True))
    run = ExplainRun(target, targets.parse_names(what), texts, against, _print_note)
    if invalid := run.invalid(feature_gates):
        _show_invalid(invalid, format)
        sys.exit(1)
    if if_preempted:
        is_good = preemption.show(run.if_preempted(feature_gates), format)
    else:
        groups = run.explained(is_whole=is_whole, feature_gates=feature_gates)
        is_good = _show(groups, run.source, format, fix=fix)
    if not is_good:
        sys.exit(1)


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


def _field_help(text: str, recursive: bool) -> str:
    from dray.api.schema import field_docs

    name, *path = text.split(".")
    kind = kinds.by_name(targets.SHORT.get(name.lower(), name))
    if kind is None:
        advice = f"To explain an object, write TYPE/NAME, such as: dray explain pod/{name}"
        raise ObjectNotFound(f"there is no kind {name}", advice)
    try:
        return field_docs.explain(kind.in_version(kind.versions[0]), path, recursive=recursive)
    except field_docs.UnknownField as error:
        advice = f"See which there are: dray explain {'.'.join([name, *path[:-1]])}"
        raise ObjectNotFound(f"{text}: {error}", advice) from error


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


def _is_whole(target: Target, *, has_names: bool) -> bool:
    """Return whether a namespace or the cluster is explained. Raises WrongUsage."""
    if target.all_namespaces and has_names:
        raise WrongUsage("-A explains everything; leave out the names, or -A")
    if has_names:
        return False
    if not target.namespace and not target.all_namespaces:
        raise WrongUsage("say what to explain: TYPE/NAME, -f FILE, -n NAMESPACE or -A")
    return True


def _show_invalid(found: Sequence[Finding], format: OutputFormat) -> None:
    from dray.cli.lint import file_checks, reports

    if format.is_table:
        click.secho(file_checks.title(found), bold=True)
        reports.show(reports.Report.of(found), "text")
    else:
        formats.show_document(reports.documents(reports.Report.of(found).findings), format)
