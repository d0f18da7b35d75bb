"""Options for the pods of a node, of `dray node` and `dray up` alike."""

from __future__ import annotations

import click

from dray.node.limits import groups
from dray.node.runtimes import pod_networks

max_pids = click.option(
    "--pod-max-pids",
    type=click.IntRange(min=0),
    default=groups.DEFAULT_POD_MAX_PIDS,
    show_default=True,
    help="Processes and threads that each pod may have; 0 sets no limit.",
)
network = click.option(
    "--pod-network",
    type=click.Choice(pod_networks.NAMES),
    default=pod_networks.AUTO,
    show_default=True,
    help="The program that connects pods with the network; auto takes the first that works here.",
)
