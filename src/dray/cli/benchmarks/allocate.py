"""`dray bench allocate` and `dray bench churn`: the allocator on scenarios, timed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from dray.cli.benchmarks.timing import printed

POLICIES = ("best-fit", "pack", "spread", "least-stranding")


@click.command("allocate")
@click.argument("scenario", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--start",
    type=click.Choice(["zero", "rotate"]),
    default="zero",
    show_default=True,
    help="Look for a node from the first one, or from the one after the last that was used.",
)
@click.option("--policy", type=click.Choice(POLICIES), help="Order candidates otherwise.")
@click.option(
    "--answers",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Compare with recorded answers; fail on the first difference.",
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the answers.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def allocate(
    scenario: Path,
    start: str,
    policy: str | None,
    answers: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Place every claim of SCENARIO on the first node where it fits, and time it."""
    from dray.bench import allocate as benchmark

    given = _decoded(scenario)
    recorded = _loaded(answers) if answers else None
    with _progress() as progress:
        report = benchmark.run(
            given, start=start, policy=policy, answers=recorded, progress=progress
        )
    if out:
        out.write_text(json.dumps(report.answers, indent=1) + "\n", "utf-8")
    printed(report.figures(), as_json)
    for claim, reason in list(report.refusals.items())[:1]:
        click.echo(f"{claim} fits nowhere; the last node said: {reason}", err=True)
    if report.difference is not None:
        found = report.difference
        raise click.ClickException(
            f"{found.claim}: recorded {json.dumps(found.expected)}, got {json.dumps(found.got)}"
        )
    if recorded is not None and not as_json:
        click.echo(f"equal to {answers}")


@click.command("churn")
@click.option("--nodes", default=500, show_default=True)
@click.option("--steps", default=3000, show_default=True)
@click.option("--signatures", default=500, show_default=True, help="Different questions.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def churn(nodes: int, steps: int, signatures: int, as_json: bool) -> None:
    """A fleet that is 90 % full: each step ends one claim and places another, every tenth
    publishes a slice anew."""
    import msgspec

    from dray.bench import churn as benchmark

    with _progress() as progress:
        report = benchmark.run(nodes, steps=steps, signatures=signatures, progress=progress)
    printed(msgspec.to_builtins(report), as_json)


def _decoded(path: Path) -> Any:
    from dray.bench import scenarios

    try:
        return scenarios.read(path.read_bytes())
    except ValueError as error:
        raise click.ClickException(f"{path} is no scenario: {error}") from error


def _loaded(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise click.ClickException(f"{path} is not JSON: {error}") from error


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """A bar on a terminal, nothing elsewhere: it would cost what is measured."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress

    with Progress(transient=True) as bar:
        task = bar.add_task("placing", total=None)

        def show(done: int, total: int) -> None:
            if done % 64 == 0 or done == total:
                bar.update(task, completed=done, total=total)

        yield show
