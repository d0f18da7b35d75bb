"""`dray plan`: questions to the planner, one subcommand each."""

from __future__ import annotations

from dray.cli.lazy_group import LazyGroup

plan = LazyGroup(
    {
        "capacity": ("plan.capacity:capacity", "Count how many more pods fit."),
        "replay": ("plan.replay:replay", "Place a trace under several policies and compare them."),
    },
    name="plan",
    help="Plan: compare policies. Nothing is written to a cluster.",
)
