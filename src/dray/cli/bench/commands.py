"""The commands of `dray bench`: run a benchmark and print its results."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from dray.cli.command_errors import CommandError, DrayCommand, TimedOut, WrongUsage
from dray.cli.session import progress

if TYPE_CHECKING:
    from dray.bench.apiserver.measurement import ServerMeasurement

_COUNT = click.IntRange(min=1)
_POSITIVE = click.FloatRange(min=0, min_open=True)


@click.command("apiserver")
@click.option("--pairs", type=_COUNT, help="Claims and pods, each, created over HTTPS.")
@click.option("--watchers", type=_COUNT, help="Watchers of one change.")
@click.option(
    "--inside-pairs", type=_COUNT, help="Claims and pods, each, created without a socket."
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def apiserver(
    pairs: int | None, watchers: int | None, inside_pairs: int | None, as_json: bool
) -> None:
    """Creates over HTTPS from 8 clients and without a socket, a long list, many watchers, memory,
    and the start: each with its target. Takes a few minutes."""
    from dray.bench.apiserver import measurement as benchmark

    full = benchmark.FULL
    report = benchmark.run(
        benchmark.BenchmarkSize(
            pairs or full.pairs, watchers or full.watchers, inside_pairs or full.inside_pairs
        )
    )
    if as_json:
        click.echo(json.dumps(report.figures()))
        return
    click.echo(f"On {report.cores} cores:\n")
    for measurement in report.measurements:
        _show(measurement)


def _show(measurement: ServerMeasurement) -> None:
    is_met = measurement.is_met
    verdict = click.style("met" if is_met else "missed", fg="green" if is_met else "red")
    value = f"{measurement.value:>10,.2f} {measurement.unit:<3}"
    limit = f"{'at least' if measurement.at_least else 'at most'} {measurement.target:,g}"
    click.echo(f"  {measurement.name:<52}{value} {limit}: {verdict}")
    for name, detail in measurement.details.items():
        click.echo(click.style(f"      {name.replace('_', ' '):<48}{detail:>10,.2f}", dim=True))


@click.command("cel")
@click.option(
    "--devices", type=_COUNT, default=10_000, show_default=True, help="How many distinct devices."
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def cel(devices: int, as_json: bool) -> None:
    """A two-clause selector on distinct devices: generated code, results cached per shape,
    and Google's C++ engine where it is installed."""
    from dray.bench import cel as benchmark

    report = benchmark.run(devices)
    if as_json:
        click.echo(msgspec.json.encode(report))
        return
    click.echo(f"{report.selector}\n")
    click.echo(
        f"{report.devices} devices, {report.matched} match; "
        f"code form: {report.code_form}; compiled in {report.compile_microseconds:.0f} µs\n"
    )
    generated = report.measurements[0].microseconds
    for measurement in report.measurements:
        versus = _versus(measurement.microseconds, generated)
        click.echo(
            f"  {measurement.name:<28}{measurement.microseconds:9.3f} µs a device   {versus}"
        )
    if len(report.measurements) == 2:
        click.echo("\ncel-expr-python is not installed, so it is not measured.")
        return
    engine = report.measurements[2].microseconds
    remembered = report.measurements[1].microseconds
    click.echo(
        f"\nAgainst cel-expr-python: generated code {engine / generated:.0f} times, "
        f"per shape {engine / remembered:.0f} times as fast."
    )


def _versus(microseconds: float, generated: float) -> str:
    if microseconds == generated:
        return ""
    if microseconds > generated:
        return f"{microseconds / generated:.1f} times slower than generated code"
    return f"{generated / microseconds:.1f} times faster than generated code"


def _print_figures(figures: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(figures))
        return
    width = max(map(len, figures), default=0)
    for name, value in figures.items():
        form = {float: ",.3f", int: ","}.get(type(value), "")
        click.echo(f"  {name:<{width}}  {value:{form}}")


POLICIES = ("best-fit", "fgd", "least-stranding", "pack", "spread")


@click.command("allocate")
@click.argument(
    "scenario", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--family", metavar="NAME", help="Make a random scenario of this family instead.")
@click.option(
    "--seed", type=click.IntRange(min=0), help="The scenario of the family.  [default: 1]"
)
@click.option("--nodes", type=_COUNT, help="Nodes of the family's scenario; else the seed decides.")
@click.option("--claims", type=_COUNT, help="Claims to place; else the seed decides.")
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the scenario of the family to a file, too.",
)
@click.option(
    "--start",
    type=click.Choice(["zero", "rotate"]),
    default="zero",
    show_default=True,
    help="Look for a node from the first one, or from the one after the last that was used.",
)
@click.option("--policy", type=click.Choice(POLICIES), help="Order of the candidates.")
@click.option(
    "--answers",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Compare with recorded answers; fail on the first difference.",
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the answers.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def allocate(
    scenario: Path | None,
    family: str | None,
    seed: int | None,
    nodes: int | None,
    claims: int | None,
    write: Path | None,
    start: str,
    policy: str | None,
    answers: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Place every claim of SCENARIO on the first node where it fits, and time it.

    With --family, the scenario is a random one that uses one feature of DRA, or with the families
    mixed and mixed-alpha several of them. A family and a seed always make the same scenario.
    """
    from dray.allocator import scenarios
    from dray.bench import allocate as benchmark

    if (scenario is None) == (family is None):
        raise click.UsageError("Name a scenario file, or a family with --family.")
    if scenario is not None:
        if any(given is not None for given in (seed, nodes, claims, write)):
            raise click.UsageError("--seed, --nodes, --claims and --write need --family.")
        decoded = _parsed(scenario, "is not a scenario", scenarios.read)
    else:
        content = _made(str(family), 1 if seed is None else seed, nodes or 0, claims or 0)
        if write is not None:
            write.write_bytes(content)
        decoded = scenarios.read(content)
    recorded = _parsed(answers, "is not JSON", json.loads) if answers else None
    with progress.bar("placing") as show:
        report = benchmark.run(decoded, start=start, policy=policy, answers=recorded, progress=show)
    if out:
        out.write_text(json.dumps(report.answers, indent=1) + "\n", "utf-8")
    _print_figures(report.figures(), as_json)
    for claim, reason in list(report.refusals.items())[:1]:
        click.echo(f"{claim} fits on no node; the reason of the last node: {reason}", err=True)
    if (difference := report.difference) is not None:
        raise click.ClickException(
            f"{difference.claim}: recorded {json.dumps(difference.expected)}, "
            f"got {json.dumps(difference.got)}"
        )
    if recorded is not None and not as_json:
        click.echo(f"equal to {answers}")


def _made(family: str, seed: int, nodes: int, claims: int) -> bytes:
    """Return the scenario of a family as its file has it."""
    from dray.bench.families import catalog

    try:
        made = catalog.make(family, seed, catalog.Scale(nodes, claims))
    except catalog.UnknownFamily as unknown:
        raise click.BadParameter(str(unknown), param_hint="--family") from unknown
    return msgspec.json.encode(made)


@click.command("churn")
@click.option("--nodes", type=_COUNT, default=500, show_default=True)
@click.option("--steps", type=_COUNT, default=3000, show_default=True)
@click.option("--signatures", type=_COUNT, default=500, show_default=True, help="Different claims.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def churn(nodes: int, steps: int, signatures: int, as_json: bool) -> None:
    """A fleet that is 90 % full: each step ends one claim and places another, every tenth
    publishes a slice again."""
    from dray.bench import churn as benchmark

    with progress.bar("placing") as show:
        report = benchmark.run(nodes, steps=steps, signatures=signatures, progress=show)
    _print_figures(msgspec.to_builtins(report), as_json)


def _parsed(path: Path, problem: str, parse: Callable[[bytes], Any]) -> Any:
    try:
        return parse(path.read_bytes())
    except ValueError as error:
        raise click.ClickException(f"{path} {problem}: {error}") from error


@click.command("cluster", cls=DrayCommand)
@click.option(
    "--nodes", type=_COUNT, default=200, show_default=True, help="Simulated nodes, 8 GPUs each."
)
@click.option("--pods", type=_COUNT, default=1000, show_default=True, help="Pods with a template.")
@click.option(
    "--hopeless", type=_COUNT, default=1000, show_default=True, help="Pods that fit on no node."
)
@click.option(
    "--quiet", type=_POSITIVE, default=10.0, show_default=True, help="Idle seconds to measure."
)
@click.option("--policy", type=click.Choice(POLICIES), help="The policy of the scheduler.")
@click.option("--record", "records", is_flag=True, help="With the recorder of the history.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def cluster(as_json: bool, **sizes: Any) -> None:
    """Bind pods on simulated nodes with a durable store; then idle, reject and idle again."""
    import uvloop

    from dray.bench import cluster as benchmark

    quiet_seconds = sizes.pop("quiet")
    scale = benchmark.ClusterScale(**sizes, quiet_seconds=quiet_seconds)
    if scale.pods > scale.devices:
        raise WrongUsage(
            f"{scale.pods} pods do not fit: each needs a GPU, and {scale.nodes} nodes have "
            f"{scale.devices}. Use --pods {scale.devices} or fewer, or more --nodes."
        )
    try:
        report = uvloop.run(benchmark.run(scale, _say))
    except benchmark.Stalled as stalled:
        raise TimedOut(f"{stalled}.") from stalled
    _print_figures(msgspec.to_builtins(report), as_json)


def _say(what: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"{what} …", err=True)


@click.command("explain", cls=DrayCommand)
@click.option("--nodes", type=_COUNT, default=5000, show_default=True, help="With eight GPUs each.")
@click.option("--runs", type=_COUNT, default=5, show_default=True, help="Runs of each case.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def explain(nodes: int, runs: int, as_json: bool) -> None:
    """Time `dray explain` for claims that fit on no node, on simulated nodes."""
    from dray.bench import explain as benchmark

    report = benchmark.run(benchmark.ExplainScale(nodes, runs), _say)
    _print_figures(msgspec.to_builtins(report), as_json)


@click.command("preemption", cls=DrayCommand)
@click.option("--nodes", type=_COUNT, default=1000, show_default=True, help="With eight GPUs each.")
@click.option("--gang", type=_COUNT, default=64, show_default=True, help="Pods of a gang.")
@click.option("--runs", type=_COUNT, default=9, show_default=True, help="Runs of each case.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def preemption(nodes: int, gang: int, runs: int, as_json: bool) -> None:
    """Time the search for victims: for a pod and for a gang, where all GPUs are in use."""
    from dray.bench import preemption as benchmark

    if gang > nodes * benchmark.GPUS:
        advice = f"{nodes} nodes have {nodes * benchmark.GPUS}; give a larger --nodes."
        raise CommandError(f"a gang of {gang} needs as many GPUs", advice)
    report = benchmark.run(benchmark.PreemptionScale(nodes, gang, runs), _say)
    _print_figures(msgspec.to_builtins(report), as_json)


@click.command("history", cls=DrayCommand)
@click.option(
    "--changes", type=_COUNT, default=1_000_000, show_default=True, help="Changes that it records."
)
@click.option(
    "--devices", type=_COUNT, default=1000, show_default=True, help="Devices, nearly all in use."
)
@click.option(
    "--questions", type=_COUNT, default=200, show_default=True, help="Random times to ask about."
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def history(as_json: bool, **sizes: int) -> None:
    """Record the lives of claims in a file, and ask about the past."""
    from dray.bench import history as benchmark

    report = benchmark.run(benchmark.HistoryScale(**sizes), _say)
    _print_figures(msgspec.to_builtins(report), as_json)


@click.command("exporter", cls=DrayCommand)
@click.option("--nodes", type=_COUNT, default=5000, show_default=True, help="With eight GPUs each.")
@click.option("--pods", type=_COUNT, default=10_000, show_default=True, help="With one GPU each.")
@click.option(
    "--changes",
    type=_POSITIVE,
    default=10.0,
    show_default=True,
    help="Pods that end or start a second.",
)
@click.option(
    "--seconds", type=_POSITIVE, default=60.0, show_default=True, help="The time to measure."
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def exporter(nodes: int, pods: int, changes: float, seconds: float, as_json: bool) -> None:
    """Memory and CPU time of `dray exporter` while pods end and start on simulated nodes."""
    from dray.bench import exporter as benchmark

    report = benchmark.run(benchmark.ExporterScale(nodes, pods, changes, seconds), _say)
    _print_figures(msgspec.to_builtins(report), as_json)


@click.command("startup", cls=DrayCommand)
@click.option("--runs", type=_COUNT, default=10, show_default=True, help="Of each command.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def startup(runs: int, as_json: bool) -> None:
    """Time short commands on a small cluster, with kubectl beside them: the best of several runs.

    Each figure is in seconds from start to exit; `cpu` is the CPU time of the command alone.
    """
    from dray.bench import startup as benchmark

    _print_figures(benchmark.run(runs, _say).figures(), as_json)


@click.command("node", cls=DrayCommand)
@click.option(
    "--single",
    type=_COUNT,
    default=21,
    show_default=True,
    help="Pods that are created one at a time.",
)
@click.option(
    "--together", type=_COUNT, default=100, show_default=True, help="Pods that are created at once."
)
@click.option("--nodes", type=_COUNT, default=5000, show_default=True, help="Simulated nodes.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def node(single: int, together: int, nodes: int, as_json: bool) -> None:
    """Start pods in sandboxes on one node, and thousands of simulated nodes."""
    import uvloop

    from dray.bench import node as benchmark
    from dray.node.runtimes.interface import RuntimeUnusable

    scale = benchmark.NodeScale(single, together, nodes)
    try:
        report = uvloop.run(benchmark.run(scale, _say))
    except RuntimeUnusable as error:
        raise CommandError(f"no pod can be started here: {error}.") from error
    _print_figures(msgspec.to_builtins(report), as_json)
