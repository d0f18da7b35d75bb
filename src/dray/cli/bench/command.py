"""`dray bench`: the benchmarks, one subcommand each."""

from __future__ import annotations

from dray.cli.lazy_group import LazyGroup

bench = LazyGroup(
    {
        "cel": ("bench.commands:cel", "A selector on many devices: generated code, shapes."),
        "allocate": ("bench.commands:allocate", "Place the claims of a scenario."),
        "churn": ("bench.commands:churn", "Claims come and go on a fleet that is nearly full."),
        "apiserver": ("bench.commands:apiserver", "Throughput of one API server."),
        "cluster": ("bench.commands:cluster", "From manifests to devices, in one process."),
        "node": ("bench.commands:node", "From bind to running in a sandbox."),
        "explain": ("bench.commands:explain", "Explain why claims do not fit a large fleet."),
        "exporter": ("bench.commands:exporter", "Memory and CPU time of the exporter."),
        "history": ("bench.commands:history", "Size of a long record, and time of questions."),
        "startup": ("bench.commands:startup", "Short commands from start to exit."),
    },
    name="bench",
    help="Run a benchmark and print the results.",
)
