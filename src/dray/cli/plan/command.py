"""`dray plan`: questions to the planner, one subcommand each."""

from __future__ import annotations

from dray.cli.lazy_group import LazyGroup

plan = LazyGroup(
    {
        "nodes": ("plan.nodes:nodes", "Find the fewest machines with which pods fit."),
        "replay": ("plan.replay:replay", "Place a trace under several policies and compare them."),
    },
    name="plan",
    help="Plan: size a cluster, compare policies. Nothing is written to a cluster.",
)
