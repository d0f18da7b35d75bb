"""`dray cel`: evaluates a selector on the devices of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click
import msgspec

from dray.api import features as gates
from dray.cli.command_errors import DrayCommand
from dray.cli.inputs import cluster_objects, published_devices
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.output import formats, tables
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection
from dray.cli.session.connection import Target
from dray.explain.selectors import selector_report
from dray.explain.selectors.selector_report import DeviceShape, Read, Report

SHAPES_SHOWN = 20
_COLOURS = {selector_report.YES: "green", selector_report.NO: None, selector_report.ERROR: "yellow"}


@click.command("cel", cls=DrayCommand)
@click.argument("expression")
@connection.options
@cluster_objects.option
@click.option("--cluster", is_flag=True, help="Try it on the devices of the current context.")
@formats.option
def cel(target: Target, expression: str, against: str, cluster: bool, format: OutputFormat) -> None:
    """Check a CEL selector: types, cost, what it reads and which devices it matches."""
    objects = cluster_objects.load(against, target) if against or cluster else None
    report = report_on(expression, objects)
    if format.is_table:
        _show(report, objects.source if objects else "")
    else:
        formats.show_document(report, format)
    if report.error:
        raise SystemExit(1)


def report_on(expression: str, objects: ClusterObjects | None) -> Report:
    """Check a selector, and try it on the devices of a cluster if there is one.

    Raises CommandError if the user may not read the devices.
    """
    if objects is None:
        return selector_report.make(expression, gates.DEFAULT)
    published_devices.require_slices(objects)
    devices = list(objects.devices())
    report = selector_report.make(expression, objects.features, devices)
    if report.matched or not devices:
        return report
    rewrites = [
        text
        for text in report.rewrites
        if selector_report.make(text, objects.features, devices).matched
    ]
    if not rewrites:
        # Late: most expressions match something.
        from dray.cli.lint import selector_hints

        found = selector_hints.corrected(expression, objects.features, devices)
        rewrites = [found.text] if found else list(report.rewrites)
    return msgspec.structs.replace(report, rewrites=tuple(rewrites))


def _show(report: Report, where: str) -> None:
    if report.error:
        click.secho(report.error, fg="red")
    else:
        click.echo(f"Valid; costs at most {report.cost:,} of {report.cost_limit:,}.")
    for line in _reads(report, where):
        click.echo(line)
    if report.shapes:
        click.echo()
        _show_shapes(report.reads, report.shapes)
        click.echo(f"\nMatches {report.matched} of {report.devices} devices in {where}.")
    elif where and not report.error:
        click.echo(f"\nThere are no devices in {where}.")
    for error in dict.fromkeys(shape.error for shape in report.shapes if shape.error):
        click.secho(f"Fails at run time: {error}", fg="yellow")
        click.echo("A claim that meets such a device cannot be allocated.")
    for rewrite in report.rewrites:
        click.echo(f"Did you mean:\n  {rewrite}")


def _reads(report: Report, where: str) -> Iterator[str]:
    for read in report.reads:
        field = "attribute" if read.field == "attributes" else "capacity"
        line = f"Reads {field} {read.domain}/{read.name}"
        if where:
            line += f", which exists on {read.devices} of {report.devices} devices"
        yield f"{line}."
        for close in read.similar:
            kind = "attribute" if close.field == "attributes" else "capacity"
            yield f"  The {kind} {close.domain}/{close.name} exists on {close.devices}."


def _show_shapes(reads: Sequence[Read], shapes: Sequence[DeviceShape]) -> None:
    shown = shapes[:SHAPES_SHOWN]
    header = [*(read.name.upper() for read in reads), "DEVICES", "MATCHES"]
    rows = [[*shape.values, str(shape.devices), shape.answer] for shape in shown]
    header_line, *lines = tables.aligned([header, *rows])
    click.secho(header_line, bold=True)
    for line, shape in zip(lines, shown, strict=True):
        click.secho(line, fg=_COLOURS[shape.answer])
    if len(shapes) > SHAPES_SHOWN:
        rest = shapes[SHAPES_SHOWN:]
        click.echo(f"… and {len(rest)} more, with {sum(item.devices for item in rest)} devices")
