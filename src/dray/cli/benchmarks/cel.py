"""`dray bench cel`: one selector on many devices."""

from __future__ import annotations

import click
import msgspec


@click.command("cel")
@click.option("--devices", default=10_000, show_default=True, help="How many distinct devices.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def cel(devices: int, as_json: bool) -> None:
    """A two-clause selector on distinct devices: generated code, the answer remembered per shape,
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
    for each in report.measurements:
        versus = _versus(each.microseconds, generated)
        click.echo(f"  {each.name:<28}{each.microseconds:9.3f} µs a device   {versus}")
    if len(report.measurements) == 2:
        click.echo("\ncel-expr-python is not installed, so there is nothing to compare with.")
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
