"""`dray plan nodes`: the fewest machines with which pods fit."""

from __future__ import annotations

import functools
import sys

import click

from dray.cli.command_errors import DrayCommand, WrongUsage
from dray.cli.inputs import cluster_objects, manifests, policy_option
from dray.cli.output import formats
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection, progress
from dray.cli.session.connection import Target


@click.command("nodes", cls=DrayCommand)
@connection.options
@manifests.files_option()
@click.option(
    "--add-type",
    "types",
    multiple=True,
    required=True,
    metavar="TYPE,…",
    help="Machines that can be added: a FLEET or one KIND of it (FLEET/KIND), a FILE with a Node "
    "and its ResourceSlices, or like:NODE. Of equally few machines, the first types win.",
)
@policy_option.option
@cluster_objects.option
@formats.option
def nodes(
    target: Target,
    files: tuple[str, ...],
    types: tuple[str, ...],
    policy: str | None,
    against: str,
    format: OutputFormat,
) -> None:
    """Find the fewest machines to add, so that all pods of the files fit.

    Without -f it is about the pods of the cluster that wait. The cluster may be empty. Up to 8
    machines, the answer is the minimum; of more, none can be left out. Nothing is written to the
    cluster. The exit code is 1 if no number of these machines is enough.
    """
    from dray.cli.plan import plan_inputs
    from dray.cli.plan.machines import output, type_inputs
    from dray.planner.sizing.fewest_machines import fewest_machines
    from dray.planner.submission import expansion, submitted_pods

    if format.name == "name":
        raise WrongUsage("-o name is for objects; use -o json, yaml or wide.")
    cluster = plan_inputs.load(against, target)
    if files:
        namespace = plan_inputs.namespace_of(against, target)
        submit = plan_inputs.submitter(files, cluster.features, namespace)
    elif submitted_pods.waiting(cluster):
        submit = functools.partial(expansion.expand, ())
    else:
        raise WrongUsage("no pod of the cluster waits", "Name pods with -f FILE.")
    machines = type_inputs.read(types, cluster)
    with progress.shown("Trying machines"):
        found = fewest_machines(cluster, submit, machines, policy=policy)
    output.show(found, format)
    if found.counts is None:
        sys.exit(1)
