"""`dray exporter`: figures about devices, claims and drivers of any cluster, for Prometheus."""

from __future__ import annotations

import asyncio
import contextlib

import click

from dray import telemetry
from dray.cli.command_errors import DrayCommand
from dray.cli.components import foreground
from dray.cli.session import connection, server_version
from dray.cli.session.connection import Target
from dray.clock import utc_now

DEFAULT_LISTEN = "127.0.0.1:9410"
ADVICE = "Choose another address with --listen; port 0 takes any free port."


@click.command("exporter", cls=DrayCommand)
@connection.options
@click.option("--listen", default=DEFAULT_LISTEN, show_default=True, metavar="HOST:PORT")
def exporter(target: Target, listen: str) -> None:
    """Serve figures about devices and claims for Prometheus until stopped.

    It only reads: nodes, namespaces, pods and the objects of Dynamic Resource Allocation. /metrics
    has the figures; /livez, /healthz and /readyz are for probes.
    """
    host, port = foreground.parse_listen(listen, "--listen", DEFAULT_LISTEN)
    foreground.run(foreground.until_signalled(lambda: _run(target, listen, host, port)))


async def _run(target: Target, listen: str, host: str, port: int) -> None:
    # The HTTP server takes long to import.
    from dray import metrics_http
    from dray.exporter import exporter as exporting

    registry = telemetry.Registry()
    metrics_http.register_process(registry)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(foreground.client_of(target, exporting.USER_AGENT))
        version = await server_version.read(client)
        running = exporting.Exporter(client, registry, features=version.features, now=utc_now)
        running.start()
        serving = metrics_http.serving(registry, host, port, lambda: running.is_synced)
        port = await foreground.listen(stack, serving, listen, ADVICE)
        written_host = f"[{host}]" if ":" in host else host
        click.echo(f"Metrics are at http://{written_host}:{port}/metrics")
        await running.run()
        await asyncio.Event().wait()
