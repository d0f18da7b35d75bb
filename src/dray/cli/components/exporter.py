"""`dray exporter`: figures about devices, claims and drivers of any cluster, for Prometheus."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dray import supervision, telemetry
from dray.cli.command_errors import DrayCommand, WrongUsage
from dray.cli.components import foreground
from dray.cli.session import connection
from dray.cli.session.connection import Target
from dray.client import discovery
from dray.clock import utc_now

if TYPE_CHECKING:
    from dray.exporter.web_access import WebAccess

DEFAULT_LISTEN = "127.0.0.1:9410"
ADVICE = "Choose another address with --listen; port 0 takes any free port."


@click.command("exporter", cls=DrayCommand)
@connection.options_of_cluster
@click.option("--listen", default=DEFAULT_LISTEN, show_default=True, metavar="HOST:PORT")
@click.option(
    "--web-config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="TLS, users and tokens, in the format of Prometheus' exporters.",
)
def exporter(target: Target, listen: str, web_config: Path | None) -> None:
    """Serve figures about devices and claims for Prometheus until stopped.

    It only reads: nodes, namespaces, pods and the objects of Dynamic Resource Allocation. /metrics
    has the figures; /livez, /healthz and /readyz are for probes.
    """
    host, port = foreground.parse_listen(listen, "--listen", DEFAULT_LISTEN)
    foreground.run(
        foreground.until_signalled(lambda: _run(target, (listen, host, port), web_config))
    )


async def _run(target: Target, address: tuple[str, str, int], web_config: Path | None) -> None:
    # The HTTP server takes long to import.
    from dray import metrics_http
    from dray.exporter import exporter as exporting

    listen, host, port = address
    access = _access(web_config) if web_config is not None else None
    registry = telemetry.Registry()
    metrics_http.register_process(registry)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(foreground.client_of(target, exporting.NAME))
        version = await discovery.version_of(client)
        running = exporting.Exporter(client, registry, features=version.features, now=utc_now)
        running.start()
        serving = metrics_http.serving(
            registry,
            host,
            port,
            lambda: running.is_synced,
            tls=access.tls if access is not None else None,
            allows=access.allows if access is not None else metrics_http.everybody,
        )
        port = await foreground.listen(stack, serving, listen, ADVICE)
        scheme = "https" if access is not None and access.tls is not None else "http"
        written_host = f"[{host}]" if ":" in host else host
        click.echo(f"Metrics are at {scheme}://{written_host}:{port}/metrics")
        await supervision.run_forever("exporter", running.run)


def _access(path: Path) -> WebAccess:
    from dray.exporter.web_access import WebAccess
    from dray.exporter.web_config import WebConfigError

    try:
        return WebAccess(path)
    except WebConfigError as error:
        raise WrongUsage(f"--web-config: {error}") from error
