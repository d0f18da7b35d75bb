"""`dray bench`: the benchmarks, one subcommand each."""

from __future__ import annotations

from dray.cli.main import LateGroup

bench = LateGroup(
    {
        "cel": ("dray.cli.bench_cel:cel", "A selector on many devices: generated code, shapes."),
        "allocate": ("dray.cli.bench_allocate:allocate", "Place the claims of a scenario."),
        "churn": ("dray.cli.bench_allocate:churn", "A fleet nearly full and never at rest."),
        "apiserver": ("dray.cli.bench_apiserver:apiserver", "What one API server can take."),
        "cluster": ("dray.cli.bench_cluster:cluster", "From manifests to devices, in one process."),
        "node": ("dray.cli.bench_node:node", "From bind to running in a sandbox."),
        "explain": ("dray.cli.bench_explain:explain", "Why not, asked of a large fleet."),
    },
    name="bench",
    help="Run a benchmark and print its figures.",
)
