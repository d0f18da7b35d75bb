"""`dray bench`: the benchmarks, one subcommand each."""

from __future__ import annotations

from dray.cli.lazy_group import LazyGroup

bench = LazyGroup(
    {
        "cel": (
            "dray.cli.bench.commands:cel",
            "A selector on many devices: generated code, shapes.",
        ),
        "allocate": ("dray.cli.bench.commands:allocate", "Place the claims of a scenario."),
        "churn": ("dray.cli.bench.commands:churn", "A fleet nearly full and never at rest."),
        "apiserver": ("dray.cli.bench.commands:apiserver", "What one API server can take."),
        "cluster": (
            "dray.cli.bench.commands:cluster",
            "From manifests to devices, in one process.",
        ),
        "node": ("dray.cli.bench.commands:node", "From bind to running in a sandbox."),
        "explain": ("dray.cli.bench.commands:explain", "Why not, asked of a large fleet."),
    },
    name="bench",
    help="Run a benchmark and print its figures.",
)
