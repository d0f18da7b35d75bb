"""`dray bench apiserver`: what one API server can take on two cores."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dray.bench.apiserver import Measurement


@click.command("apiserver")
@click.option("--pairs", type=int, help="Claims and pods, each, created over HTTPS.")
@click.option("--watchers", type=int, help="Watchers that hear of one change.")
@click.option("--inside-pairs", type=int, help="Claims and pods, each, created without a socket.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def apiserver(
    pairs: int | None, watchers: int | None, inside_pairs: int | None, as_json: bool
) -> None:
    """Creates over HTTPS from 8 clients and without a socket, a long list, many watchers, memory,
    and the start: each with its target. Takes a few minutes."""
    from dray.bench import apiserver as benchmark

    full = benchmark.FULL
    size = benchmark.Size(
        pairs=pairs or full.pairs,
        watchers=watchers or full.watchers,
        inside_pairs=inside_pairs or full.inside_pairs,
    )
    report = benchmark.run(size)
    if as_json:
        click.echo(json.dumps(report.figures()))
        return
    click.echo(f"On {report.cores} cores:\n")
    for each in report.measurements:
        _show(each)


def _show(measurement: Measurement) -> None:
    is_met = measurement.is_met
    verdict = click.style("met" if is_met else "missed", fg="green" if is_met else "red")
    value = f"{measurement.value:>10,.2f} {measurement.unit:<3}"
    limit = f"{'at least' if measurement.at_least else 'at most'} {measurement.target:,g}"
    click.echo(f"  {measurement.name:<52}{value} {limit}: {verdict}")
    for name, detail in measurement.details.items():
        click.echo(click.style(f"      {name.replace('_', ' '):<48}{detail:>10,.2f}", dim=True))
