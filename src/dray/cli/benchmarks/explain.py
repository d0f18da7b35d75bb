"""`dray bench explain`: how long `dray explain` takes on a large fleet."""

from __future__ import annotations

import sys

import click

from dray.cli.benchmarks.timing import printed
from dray.cli.failures import Command


@click.command("explain", cls=Command)
@click.option("--nodes", default=5000, show_default=True, help="With eight GPUs each.")
@click.option("--runs", default=5, show_default=True, help="How often each question is asked.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def explain(nodes: int, runs: int, as_json: bool) -> None:
    """Ask a cluster of simulated nodes why claims fit nowhere, as people ask it."""
    import msgspec

    from dray.bench import explain as benchmark

    report = benchmark.run(benchmark.Scale(nodes, runs), _say)
    printed(msgspec.to_builtins(report), as_json)


def _say(what: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"{what} …", err=True)
