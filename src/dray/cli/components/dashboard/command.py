"""`dray ui`: the dashboard of any cluster, on this machine and with the rights of a kubeconfig."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import click

from dray import supervision
from dray.api.features import Features
from dray.cli.command_errors import CommandError, DrayCommand, WrongUsage
from dray.cli.components import foreground
from dray.cli.components.dashboard import link
from dray.cli.inputs import record_options
from dray.cli.output import durations
from dray.cli.session import connection
from dray.cli.session.connection import Target
from dray.cli.session.read_only import ReadOnlyTransport
from dray.client import discovery
from dray.client.api_client import Client
from dray.client.rest import RestTransport
from dray.clock import utc_now

DEFAULT_LISTEN = "127.0.0.1:0"
CONNECTIONS = 512
"""Each watch of a namespace has one."""
ADVICE = "Choose another address with --listen; port 0 takes any free port."


@click.command("ui", cls=DrayCommand)
@connection.options
@click.option("--listen", default=DEFAULT_LISTEN, show_default=True, metavar="127.0.0.1:PORT")
@click.option(
    "--allow-actions",
    is_flag=True,
    help="Let the page delete pods, cordon nodes and taint devices, if the user may.",
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Record the history of the devices in this file while it runs.",
)
@record_options.retention_option(durations.parse)
def ui(
    target: Target,
    listen: str,
    allow_actions: bool,
    record: Path | None,
    record_retention: float,
) -> None:
    """Show a cluster in a browser until stopped: devices, who holds them, and what waits and why.

    It only reads, with the rights of the kubeconfig, unless --allow-actions is given. The link that
    it prints works once.
    """
    address = link.parse(listen, "--listen")
    if address is None:
        raise WrongUsage("--listen none: a dashboard has to listen somewhere")
    options = UiOptions(*address, allow_actions, record, record_retention)
    foreground.run(foreground.until_signalled(lambda: _run(target, options)), logging.WARNING)


class UiOptions(NamedTuple):
    """The address of the dashboard, and what it does besides reading."""

    host: str
    port: int
    allows_actions: bool
    record: Path | None
    record_retention: float


async def _run(target: Target, options: UiOptions) -> None:
    # The HTTP server takes long to import.
    from dray.ui import opening
    from dray.ui.people import KubeconfigPeople
    from dray.ui.web import plain_server
    from dray.ui.web.dashboard import DashboardSettings

    chosen, record = target.choose(), options.record
    async with contextlib.AsyncExitStack() as stack:
        transport = await stack.enter_async_context(
            RestTransport(chosen.connection, connections=CONNECTIONS)
        )
        sender = transport if options.allows_actions else ReadOnlyTransport(transport)
        client = Client(sender)
        version = await discovery.version_of(client)
        name = chosen.connection.context or chosen.connection.server
        people = KubeconfigPeople(sender, name, target.namespace or chosen.connection.namespace)
        features = version.features
        git_version = str(version.document.get("gitVersion", ""))
        settings = DashboardSettings(name, git_version, options.allows_actions, record)
        dashboard = opening.opened(client, people, features, settings)
        if record is not None:
            recording = _recording(client, record, options.record_retention, features)
            await stack.enter_async_context(recording)
        serving = plain_server.serving(dashboard, options.host, options.port)
        listen = f"{options.host}:{options.port}"
        url = await foreground.listen(stack, serving, listen, ADVICE)
        click.echo(f"The dashboard of {name} is at {link.of(url, dashboard.new_key())}")
        await supervision.run_forever("dashboard", dashboard.run)


@contextlib.asynccontextmanager
async def _recording(
    client: Client, path: Path, retention_seconds: float, features: Features
) -> AsyncIterator[None]:
    """Record the history of a cluster while the block runs. Raises CommandError."""
    from dray.history.recorder import HistoryRecorder, MayNotRead, OtherCluster

    with record_options.opened(path, retention_seconds) as file:
        recorder = HistoryRecorder(client, file, features=features, now=utc_now)
        try:
            await recorder.check()
        except OtherCluster as error:
            raise CommandError(f"--record {path}: {error}", "Choose another file.") from error
        except MayNotRead as error:
            raise CommandError(f"--record {path}: {error}", error.advice) from error
        running = asyncio.create_task(supervision.run_forever("recorder", recorder.run))
        try:
            yield
        finally:
            running.cancel()
            await asyncio.wait([running])
