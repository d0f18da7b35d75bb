"""`dray plan`: would these objects run? And further questions, one subcommand each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dray.cli.command_errors import WrongUsage, reported
from dray.cli.inputs import cluster_objects, manifests
from dray.cli.lazy_group import LazyGroup
from dray.cli.output import formats
from dray.cli.output.formats import OutputFormat
from dray.cli.plan import what_if_options
from dray.cli.plan.what_if_options import WhatIfOptions
from dray.cli.session import connection
from dray.cli.session.connection import Target


@click.command(
    "plan",
    cls=LazyGroup,
    commands={
        "capacity": ("plan.capacity:capacity", "Count how many more pods fit."),
        "nodes": ("plan.machines.command:nodes", "Find the fewest machines with which pods fit."),
        "defrag": ("plan.defrag.command:defrag", "Find the fewest pods to move to make room."),
        "replay": (
            "plan.replays.command:replay",
            "Place a trace under several policies and compare them.",
        ),
    },
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@connection.options
@manifests.files_option()
@cluster_objects.option
@formats.option
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the answers to this file as test results, for CI.",
)
@what_if_options.options
@click.pass_context
def plan(context: click.Context, /, **options: Any) -> None:
    """Say whether the objects of files would run, and where; or ask another question.

    With -f: the node and devices of every pod, also of workloads with all their
    replicas, as the scheduler would decide now; or what blocks it and what would
    help. The exit code is 0 if all fit, and 1 if not. Nothing is written to a
    cluster.

    With --add, --drain and the other changes, in any combination: what would run,
    wait and move in a cluster that is different, before and after. The exit code is
    0 if the pods of files run, and those that ran before.

    \b
    Examples:
      dray plan -f train.yaml
      dray plan -f app/ --against h100 -o wide
      dray plan -f train.yaml --against fleet.json --junit plan.xml
      dray plan --drain n1 --add-like n2:2
      dray plan -f train.yaml --add h100:4 --without pod/notebook
    """
    changes: WhatIfOptions = options["what_if"]
    given = any(options[name] for name in ("files", "against", "junit")) or changes.are_given
    if context.invoked_subcommand is not None:
        if given or options["format"].name or options["target"] != Target():
            raise WrongUsage(f"options of {context.invoked_subcommand} stand after its name")
        return
    with reported():
        if not options["files"] and not changes.are_given:
            if given:
                raise WrongUsage("say what to plan: -f FILE, or a change such as --drain NODE")
            click.echo(context.get_help())
            return
        _run(**options)


def _run(
    target: Target,
    files: tuple[str, ...],
    against: str,
    format: OutputFormat,
    junit: Path | None,
    what_if: WhatIfOptions,
) -> None:
    # Late: `dray plan --help` and the subcommands do not need them.
    from dray.cli.plan import fit
    from dray.cli.plan import what_if as changed_plan

    if not what_if.are_given:
        fit.run(target, files, against, format, junit)
    elif junit is not None:
        raise WrongUsage("--junit is for a plan without changes")
    else:
        changed_plan.run(target, files, against, format, what_if)
