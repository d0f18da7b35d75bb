"""`dray bench`: the benchmarks, one subcommand each."""

from __future__ import annotations

from dray.cli.main import LateGroup

bench = LateGroup(
    {
        "cel": (
            "dray.cli.benchmarks.cel:cel",
            "A selector on many devices: generated code, shapes.",
        ),
        "allocate": ("dray.cli.benchmarks.allocate:allocate", "Place the claims of a scenario."),
        "churn": ("dray.cli.benchmarks.allocate:churn", "A fleet nearly full and never at rest."),
        "apiserver": ("dray.cli.benchmarks.apiserver:apiserver", "What one API server can take."),
        "cluster": (
            "dray.cli.benchmarks.cluster:cluster",
            "From manifests to devices, in one process.",
        ),
        "node": ("dray.cli.benchmarks.node:node", "From bind to running in a sandbox."),
        "explain": ("dray.cli.benchmarks.explain:explain", "Why not, asked of a large fleet."),
    },
    name="bench",
    help="Run a benchmark and print its figures.",
)
