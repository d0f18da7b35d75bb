"""`dray plan defrag`: the fewest pods to move so that a node is empty, or other pods fit."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from dray.cli.command_errors import DrayCommand, WrongUsage
from dray.cli.inputs import cluster_objects, policy_option
from dray.cli.lazy_group import completer
from dray.cli.output import formats
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection, progress
from dray.cli.session.connection import Target

if TYPE_CHECKING:
    from dray.cli.plan.defrag.answers import DefragAnswer


@click.command("defrag", cls=DrayCommand)
@connection.options
@click.option(
    "--free",
    "node",
    default="",
    metavar="NODE",
    help="Empty this node, but for static pods and those of DaemonSets.",
    shell_complete=completer("nodes"),
)
@click.option(
    "--for",
    "files",
    multiple=True,
    metavar="FILE",
    help="Make room for the pods, claims or templates of a file or directory; may be repeated.",
)
@click.option(
    "--include-bare",
    is_flag=True,
    help="Delete pods without a controller too, which nothing makes again.",
)
@policy_option.option
@cluster_objects.option
@formats.option
def defrag(
    target: Target,
    node: str,
    files: tuple[str, ...],
    include_bare: bool,
    policy: str | None,
    against: str,
    format: OutputFormat,
) -> None:
    """Find the fewest pods to move, so that a node is empty or other pods fit.

    A move deletes a pod, and its controller makes another one, which the scheduler places. The
    plan has the order of the moves and the commands for them. No move exceeds a
    PodDisruptionBudget, every pod has a place at its moment, and for the pods of --for no pod of a
    higher priority is moved. The exit code is 1 without a plan. Nothing is written to the cluster.
    """
    from dray.cli.plan.defrag import answers

    if bool(node) == bool(files):
        raise WrongUsage("say what to make room for: either --free NODE or --for FILE")
    if format.name == "name":
        raise WrongUsage("-o name is for objects; use -o json, yaml or wide.")
    answer = _answer(target, node, files, include_bare, policy, against)
    if format.is_table:
        answers.show(answer, is_wide=format.is_wide)
    else:
        formats.show_document(answers.document(answer), format)
    if answer.plan.moves is None:
        sys.exit(1)


def _answer(
    target: Target,
    node: str,
    files: tuple[str, ...],
    include_bare: bool,
    policy: str | None,
    against: str,
) -> DefragAnswer:
    from dray.cli.plan import plan_inputs
    from dray.cli.plan.defrag import inputs
    from dray.cli.plan.defrag.answers import DefragAnswer
    from dray.planner.defragmentation import plan as planning
    from dray.planner.what_if import changes

    cluster = plan_inputs.load(against, target)
    chosen = cluster_objects.command_options(against, target)
    if files:
        namespace = plan_inputs.namespace_of(against, target)
        submission = inputs.submitted(files, cluster, namespace)
        with progress.shown("Looking for moves"):
            plan = planning.room_for(
                submission.cluster, submission.pods, include_bare=include_bare, policy=policy
            )
        return DefragAnswer(
            plan, submission.cluster, chosen, files=files, namespace=target.namespace
        )
    try:
        changes.node_of(cluster, node)
    except changes.ImpossibleChange as error:
        raise WrongUsage(f"--free {node}: {error}") from error
    with progress.shown("Looking for moves"):
        plan = planning.empty_node(cluster, node, include_bare=include_bare, policy=policy)
    return DefragAnswer(plan, cluster, chosen, node=node)
