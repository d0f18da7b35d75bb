"""`dray conformance`: checks a DRA driver."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Final

import click

from dray import telemetry
from dray.cli.command_errors import DrayCommand, WrongUsage
from dray.cli.output import formats
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection
from dray.cli.session.connection import Target
from dray.client.api_client import Client
from dray.client.rest import RestTransport
from dray.conformance import report, suite
from dray.conformance.check import CheckOutcome, CheckResult, ConformanceCheck
from dray.conformance.checks import catalogue
from dray.conformance.driver_process import PLACEHOLDERS, CommandInvalid
from dray.conformance.site import Site

CDI: Final = Path("/var/run/cdi")
COLOURS: Final = {
    CheckOutcome.PASSED: "green",
    CheckOutcome.FAILED: "red",
    CheckOutcome.SKIPPED: None,
}
FAILED_CODE: Final = 1
TERMINATED_CODE: Final = 128 + signal.SIGTERM


@click.command("conformance", cls=DrayCommand)
@click.option(
    "--command",
    default="",
    metavar="TEXT",
    help="Starts the driver; " + ", ".join(f"{{{name}}}" for name in PLACEHOLDERS) + " are set.",
)
@click.option(
    "--socket",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Instead: the registration socket of a driver that runs on this node of a cluster.",
)
@connection.options_of_cluster
@click.option("--node", default="", help="With --socket: the node's name.")
@click.option(
    "--cdi",
    type=click.Path(path_type=Path, file_okay=False),
    default=CDI,
    show_default=True,
    metavar="DIR",
    help="With --socket: where the driver writes CDI files.",
)
@click.option("--check", "chosen", multiple=True, metavar="ID", help="Only a check, or a group.")
@click.option("--list", "is_list", is_flag=True, help="Show every check, and make none.")
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    metavar="FILE",
    help="Write the results as JUnit's XML as well.",
)
@formats.option
def conformance(
    target: Target,
    command: str,
    socket: Path | None,
    node: str,
    cdi: Path,
    chosen: tuple[str, ...],
    is_list: bool,
    junit: Path | None,
    format: OutputFormat,
) -> None:
    """Check that a DRA driver does what Kubernetes requires of it.

    The driver runs as a process of its own on a node without containers, with an API server of its
    own. A check that does not apply to the driver is skipped with the reason.
    """
    checks = _checks(chosen)
    if format.name == "name":
        raise WrongUsage("-o name: checks are no objects", "Use -o json, yaml or jsonpath=…")
    if is_list:
        _show_checks(checks, format)
        return
    if bool(command) == (socket is not None):
        raise WrongUsage("give --command or --socket", "All checks are shown by --list.")
    if socket is not None:
        if not socket.is_socket():
            raise WrongUsage(f"{socket} is not a socket")
        if not node:
            raise WrongUsage("--socket needs --node", "The names are shown by: dray get nodes")
        opened = _beside(target, socket, node, cdi)
    else:
        _refuse_options_of_socket(target, node, cdi)
        opened = suite.site_of_command(command)
    telemetry.configure_logging(logging.ERROR)
    begun = time.monotonic()
    try:
        results, driver = asyncio.run(_run(opened, checks, _shown if format.is_table else _silent))
    except asyncio.CancelledError:
        raise SystemExit(TERMINATED_CODE) from None
    _conclude(results, driver, time.monotonic() - begun, format, junit)


def _refuse_options_of_socket(target: Target, node: str, cdi: Path) -> None:
    """Raise WrongUsage for options that say where a driver runs already."""
    given = {
        "--kubeconfig": target.kubeconfig,
        "--context": target.context,
        "--node": node,
        "--cdi": cdi != CDI,
    }
    for option, value in given.items():
        if value:
            raise WrongUsage(
                f"{option} is for --socket", "--command starts the driver in a cluster of its own."
            )


def _checks(chosen: tuple[str, ...]) -> Sequence[ConformanceCheck]:
    try:
        return catalogue.named(chosen) if chosen else catalogue.CHECKS
    except LookupError as error:
        raise WrongUsage(str(error.args[0]), "All checks are shown by --list.") from error


def _show_checks(checks: Sequence[ConformanceCheck], format: OutputFormat) -> None:
    if not format.is_table:
        fields = ("id", "requirement", "source", "advice")
        listed = [{name: getattr(check, name) for name in fields} for check in checks]
        formats.show_document({"checks": listed}, format)
        return
    width = max(len(check.id) for check in checks)
    for check in checks:
        click.echo(f"{check.id:<{width}}  {check.requirement}")


@contextlib.asynccontextmanager
async def _beside(target: Target, socket: Path, node: str, cdi: Path) -> AsyncIterator[Site]:
    async with RestTransport(target.connect()) as transport:
        client = Client(transport, field_manager="dray-conformance")
        async with suite.site_of_socket(client, socket, node, cdi) as site:
            yield site


async def _run(
    opened: contextlib.AbstractAsyncContextManager[Site],
    checks: Sequence[ConformanceCheck],
    show: Callable[[CheckResult], None],
) -> tuple[list[CheckResult], str]:
    results: list[CheckResult] = []
    task = asyncio.current_task()
    assert task is not None
    # As Ctrl-C does: a pipeline that is cancelled must not leave the driver running.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        async with opened as site:
            async for result in suite.results(site, checks):
                show(result)
                results.append(result)
            driver = site.claims.driver
    except* CommandInvalid as group:
        raise WrongUsage(f"--command: {_first(group)}") from group
    return report.ordered(results, [check.id for check in checks]), driver


def _first(group: BaseExceptionGroup[CommandInvalid]) -> BaseException:
    """Return the error in a group, which the API server's tasks may have put into others."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _shown(result: CheckResult) -> None:
    width = max(len(check.id) for check in catalogue.CHECKS)
    outcome = click.style(f"{result.outcome.value:<8}", fg=COLOURS[result.outcome])
    text = result.seen if result.outcome is CheckOutcome.SKIPPED else result.check.requirement
    click.echo(f"{outcome}{result.check.id:<{width}}  {text}")
    if result.outcome is CheckOutcome.FAILED:
        for line in report.explanation(result)[1:]:
            click.echo(f"          {line}")


def _silent(_result: CheckResult) -> None:
    pass


def _conclude(
    results: Sequence[CheckResult],
    driver: str,
    seconds: float,
    format: OutputFormat,
    junit: Path | None,
) -> None:
    if junit is not None:
        try:
            junit.write_bytes(report.junit(results, driver, seconds))
        except OSError as error:
            raise WrongUsage(f"{junit} cannot be written: {error.strerror}") from error
    if format.is_table:
        click.echo(f"{report.summary(results)}, in {seconds:.0f} s.")
    else:
        formats.show_document(report.document(results, driver, seconds), format)
    if any(result.outcome is CheckOutcome.FAILED for result in results):
        raise SystemExit(FAILED_CODE)
