"""`dray explain`: why a pod or a claim waits or fails, and what would help."""

from __future__ import annotations

import sys

import click

from dray.api import kinds
from dray.cli.command_errors import DrayCommand, ObjectNotFound, WrongUsage
from dray.cli.explain import names, served_report
from dray.cli.inputs import against_option, manifests
from dray.cli.output import formats
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection
from dray.cli.session.connection import Target


@click.command("explain", cls=DrayCommand)
@click.argument("what", nargs=-1)
@connection.options
@connection.all_namespaces_option
@manifests.files_option()
@against_option.option
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
        # Late, as below.
        from dray.cli.explain import preemption

        preemption.check_usage(target, what, files, fix=fix, recursive=recursive)
    if len(what) == 1 and "/" not in what[0] and not files:
        click.echo(_field_help(what[0], recursive), nl=False)
        return
    if recursive:
        raise WrongUsage("--recursive is for the documentation of fields")
    is_whole = _is_whole(target, has_names=bool(what or files))
    named = names.parse_names(what)
    if not (files or against or fix or feature_gates or if_preempted or is_whole):
        found = served_report.of(target, named, format)
        if found is not None:
            served_report.show(found, target, format)
            sys.exit(0 if found.is_good else 1)
    # Late: explaining takes much to import.
    from dray.cli.explain import own_answer

    texts = list(manifests.texts(files, recursive=True))
    question = own_answer.Question(target, named, texts, against, feature_gates, is_whole=is_whole)
    if not own_answer.show(question, format, fix=fix, if_preempted=if_preempted):
        sys.exit(1)


def _field_help(text: str, recursive: bool) -> str:
    from dray.api.schema import field_docs

    name, *path = text.split(".")
    kind = kinds.by_name(names.SHORT.get(name.lower(), name))
    if kind is None:
        advice = f"To explain an object, write TYPE/NAME, such as: dray explain pod/{name}"
        raise ObjectNotFound(f"there is no kind {name}", advice)
    try:
        return field_docs.explain(kind.in_version(kind.versions[0]), path, recursive=recursive)
    except field_docs.UnknownField as error:
        advice = f"See which there are: dray explain {'.'.join([name, *path[:-1]])}"
        raise ObjectNotFound(f"{text}: {error}", advice) from error


def _is_whole(target: Target, *, has_names: bool) -> bool:
    """Return whether a namespace or the cluster is explained. Raises WrongUsage."""
    if target.all_namespaces and has_names:
        raise WrongUsage("-A explains everything; leave out the names, or -A")
    if has_names:
        return False
    if not target.namespace and not target.all_namespaces:
        raise WrongUsage("say what to explain: TYPE/NAME, -f FILE, -n NAMESPACE or -A")
    return True
