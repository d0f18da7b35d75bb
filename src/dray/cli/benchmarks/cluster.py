"""`dray bench cluster`: a whole cluster in one process, timed from manifest to device."""

from __future__ import annotations

import sys

import click

from dray.cli.benchmarks.timing import printed


@click.command("cluster")
@click.option("--nodes", default=200, show_default=True, help="Simulated nodes, 8 GPUs each.")
@click.option("--pods", default=1000, show_default=True, help="Pods with a template.")
@click.option("--hopeless", default=1000, show_default=True, help="Pods that no node can take.")
@click.option("--quiet", default=10.0, show_default=True, help="Seconds of rest to measure.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def cluster(nodes: int, pods: int, hopeless: int, quiet: float, as_json: bool) -> None:
    """Bind pods on simulated nodes with a durable store; then rest, refuse and rest again."""
    import msgspec
    import uvloop

    from dray.bench import cluster as benchmark

    scale = benchmark.Scale(nodes, pods, hopeless, quiet)
    report = uvloop.run(benchmark.run(scale, _say))
    printed(msgspec.to_builtins(report), as_json)


def _say(what: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"{what} …", err=True)
