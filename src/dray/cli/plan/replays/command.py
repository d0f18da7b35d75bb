"""`dray plan replay`: places the pods of a trace under several policies and compares them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from dray.api.formats import serialization
from dray.cli.command_errors import CommandError, DrayCommand, WrongUsage
from dray.cli.output import tables
from dray.cli.session import progress
from dray.planner.policies.by_name import POLICIES

if TYPE_CHECKING:
    from dray.allocator.scenarios import Scenario
    from dray.planner.replay.runs import Progress, Run
    from dray.planner.traces.openb import Trace

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_OneRun = Callable[..., "Run"]


def _names(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    """Return the names of policies that an option lists."""
    if value is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
    for name in names:
        if name not in POLICIES:
            import difflib

            close = difflib.get_close_matches(name.lower(), POLICIES, n=1, cutoff=0.5)
            advice = f" Did you mean {close[0]}?" if close else ""
            raise click.BadParameter(
                f"there is no policy {name!r}.{advice} Choose from: {', '.join(POLICIES)}.",
                context,
                parameter,
            )
    return names


@click.command("replay", cls=DrayCommand)
@click.argument("trace", type=_FILE)
@click.option("--nodes", type=_FILE, help="The list of nodes; else the one beside TRACE.")
@click.option(
    "--policy",
    "policies",
    callback=_names,
    metavar="NAME,…",
    help=f"Policies: {', '.join(POLICIES)}.  [default: all that can be used]",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1, max=10_000),
    default=1,
    show_default=True,
    help="Runs of each policy.",
)
@click.option(
    "--seed",
    "first",
    type=click.IntRange(min=0),
    default=42,
    show_default=True,
    help="The first of the seeds.",
)
@click.option(
    "--demand",
    type=click.FloatRange(min=1, max=1000),
    help="GPUs to request in all, in percent of those that exist.  [default: 130]",
)
@click.option(
    "--departures", is_flag=True, help="Pods come and leave at the times of the trace instead."
)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
@click.option("--placements", is_flag=True, help="With -o json: where every pod went.")
@click.option(
    "--chart",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a chart of the allocation against the demand to this SVG file.",
)
def replay(
    trace: Path,
    nodes: Path | None,
    policies: tuple[str, ...] | None,
    seeds: int,
    first: int,
    demand: float | None,
    departures: bool,
    output: str,
    placements: bool,
    chart: Path | None,
) -> None:
    """Place the pods of TRACE one by one under several policies, and compare them.

    TRACE is a CSV list of pods of the openb format, or a scenario in JSON; gzip is unpacked.
    A pod that fits nowhere when it arrives is dropped.
    """
    from dray.allocator.scenarios import Scenario
    from dray.cli.plan.replays import trace_inputs

    if placements and output != "json":
        raise WrongUsage("--placements needs -o json.")
    if departures and demand is not None:
        raise WrongUsage("--demand is for arrivals alone; --departures has the times of the trace.")
    content = trace_inputs.read(trace, nodes)
    if isinstance(content, Scenario):
        if departures or demand is not None:
            raise WrongUsage("a scenario has no times and its own claims; leave out the options.")
        one_run, names = _of_scenario(content, policies)
    else:
        one_run, names = _of_trace(content, policies, (demand or 130) / 100, departures)
    runs = _runs(one_run, names, range(first, first + seeds))
    is_scenario = isinstance(content, Scenario)
    reached = "MEAN" if departures else f"AT {100 if is_scenario else demand or 130:g}%"
    if chart is not None:
        _write(chart, _chart(runs, departures, "claims" if is_scenario else "GPUs"))
    if output == "json":
        click.echo(serialization.write_json(_document(runs, departures, placements)))
    else:
        _print(runs, departures, reached, "CLAIMS" if is_scenario else "PODS")


def _of_trace(
    trace: Trace, policies: tuple[str, ...] | None, demand: float, has_departures: bool
) -> tuple[_OneRun, Sequence[str]]:
    from dray.planner.replay import runs
    from dray.planner.traces import arrivals

    if has_departures:
        try:
            arrivals.by_time(trace.pods)
        except ValueError as error:
            raise CommandError(f"{error}.") from error
    one_run = functools.partial(runs.replay, trace, demand=demand, has_departures=has_departures)
    return one_run, policies or tuple(POLICIES)


def _of_scenario(
    scenario: Scenario, policies: tuple[str, ...] | None
) -> tuple[_OneRun, Sequence[str]]:
    from dray.planner.replay import scenario_runs

    names = policies or tuple(scenario_runs.POLICIES)
    for name in names:
        if name not in scenario_runs.POLICIES:
            raise WrongUsage(
                f"the policy {name} compares requests of CPU and parts of GPUs, which a scenario "
                f"does not have. Choose from: {', '.join(scenario_runs.POLICIES)}."
            )
    return functools.partial(scenario_runs.replay, scenario), names


def _runs(one_run: _OneRun, policies: Sequence[str], seeds: range) -> list[Run]:
    total = len(policies) * len(seeds)
    runs: list[Run] = []
    with progress.bar("placing") as show:
        for policy in policies:
            for seed in seeds:
                runs.append(one_run(policy, seed, progress=_share(show, len(runs), total)))
    return runs


def _share(show: Progress | None, done: int, total: int) -> Progress | None:
    """Return a progress of one run that is shown as its share of all runs."""
    if show is None:
        return None
    return lambda pods, all_pods: show(done * all_pods + pods, total * all_pods)


def _document(runs: Sequence[Run], departures: bool, placements: bool) -> dict[str, Any]:
    from dray.planner.replay import summaries

    built = msgspec.to_builtins(runs)
    # A run of a scenario has answers, in the form of recorded ones; that of a trace, placements.
    hidden = {"placements"} if "answers" in built[0] else set()
    if not placements:
        hidden |= {"placements", "answers"}
    return {
        "policies": msgspec.to_builtins(summaries.summaries(runs, has_departures=departures)),
        "runs": [{key: value for key, value in run.items() if key not in hidden} for run in built],
    }


def _chart(runs: Sequence[Run], departures: bool, unit: str) -> str:
    from dray.planner.replay import chart, summaries

    if departures:
        return chart.over_time(runs)
    return chart.against_demand(summaries.mean_curves(runs), unit)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from error


def _print(runs: Sequence[Run], departures: bool, reached: str, what: str) -> None:
    from dray.planner.replay import summaries

    found = summaries.summaries(runs, has_departures=departures)
    header = ["POLICY", "SEEDS", reached, "LOWEST", "HIGHEST", what, "DROPPED"]
    has_100 = all(line.mean_at_100 is not None for line in found) and reached != "AT 100%"
    if has_100:
        header.insert(2, "AT 100%")
    if departures:
        header.insert(5, "PEAK")
    rows = [header]
    for line in found:
        row = [line.policy, str(len(line.seeds)), *map(_share_of, (line.mean, line.lowest))]
        row += [_share_of(line.highest), f"{line.pods:.0f}", f"{line.dropped:.0f}"]
        if has_100 and line.mean_at_100 is not None:
            row.insert(2, _share_of(line.mean_at_100))
        if line.peak is not None:
            row.insert(5, _share_of(line.peak))
        rows.append(row)
    for text in tables.aligned(rows):
        click.echo(text)


def _share_of(percent: float) -> str:
    return f"{percent:.2f}%"
