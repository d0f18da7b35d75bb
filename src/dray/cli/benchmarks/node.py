"""`dray bench node`: how soon bound pods run, and what many nodes occupy."""

from __future__ import annotations

import sys

import click

from dray.cli.benchmarks.timing import printed
from dray.cli.failures import Command, Failure


@click.command("node", cls=Command)
@click.option("--single", default=21, show_default=True, help="Pods that come one at a time.")
@click.option("--together", default=100, show_default=True, help="Pods that come at once.")
@click.option("--nodes", default=5000, show_default=True, help="Nodes in name only.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def node(single: int, together: int, nodes: int, as_json: bool) -> None:
    """Start pods in sandboxes on one node, and thousands of nodes in name only."""
    import msgspec
    import uvloop

    from dray.bench import node as benchmark
    from dray.node.runtimes.interface import Unusable

    scale = benchmark.Scale(single, together, nodes)
    try:
        report = uvloop.run(benchmark.run(scale, _say))
    except Unusable as error:
        raise Failure(f"no pod can be started here: {error}.") from error
    printed(msgspec.to_builtins(report), as_json)


def _say(what: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"{what} …", err=True)
