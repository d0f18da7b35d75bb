"""Options for the pods of a node, of `dray node` and `dray up` alike."""

from __future__ import annotations

import click

from dray.node.limits import groups

max_pids = click.option(
    "--pod-max-pids",
    type=click.IntRange(min=0),
    default=groups.DEFAULT_POD_MAX_PIDS,
    show_default=True,
    help="Processes and threads that each pod may have; 0 sets no limit.",
)
