"""`dray bench`: the benchmarks, one subcommand each."""

from __future__ import annotations

from dray.cli.lazy_group import LazyGroup

bench = LazyGroup(
    {
        "cel": ("bench.commands:cel", "A selector on many devices: generated code, shapes."),
        "allocate": ("bench.commands:allocate", "Place the claims of a scenario."),
        "churn": ("bench.commands:churn", "A fleet nearly full and never at rest."),
        "apiserver": ("bench.commands:apiserver", "What one API server can take."),
        "cluster": ("bench.commands:cluster", "From manifests to devices, in one process."),
        "node": ("bench.commands:node", "From bind to running in a sandbox."),
        "explain": ("bench.commands:explain", "Why not, asked of a large fleet."),
    },
    name="bench",
    help="Run a benchmark and print its figures.",
)
