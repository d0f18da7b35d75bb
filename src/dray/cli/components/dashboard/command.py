"""`dray ui`: the dashboard of any cluster, on this machine and with the rights of a kubeconfig."""

from __future__ import annotations

import contextlib
import logging

import click

from dray import supervision
from dray.cli.command_errors import DrayCommand, WrongUsage
from dray.cli.components import foreground
from dray.cli.components.dashboard import link
from dray.cli.session import connection
from dray.cli.session.connection import Target
from dray.client import server_version
from dray.client.api_client import Client
from dray.client.rest import RestTransport

DEFAULT_LISTEN = "127.0.0.1:0"
CONNECTIONS = 512
"""Each watch of a namespace has one."""
ADVICE = "Choose another address with --listen; port 0 takes any free port."


@click.command("ui", cls=DrayCommand)
@connection.options
@click.option("--listen", default=DEFAULT_LISTEN, show_default=True, metavar="127.0.0.1:PORT")
def ui(target: Target, listen: str) -> None:
    """Show a cluster in a browser until stopped: devices, who holds them, and what waits and why.

    It only reads, with the rights of the kubeconfig. The link that it prints works once.
    """
    address = link.parse(listen, "--listen")
    if address is None:
        raise WrongUsage("--listen none: a dashboard has to listen somewhere")
    host, port = address
    foreground.run(
        foreground.until_signalled(lambda: _run(target, listen, host, port)), logging.WARNING
    )


async def _run(target: Target, listen: str, host: str, port: int) -> None:
    # The HTTP server takes long to import.
    from dray.ui import opening
    from dray.ui.people import KubeconfigPeople
    from dray.ui.web import plain_server

    chosen = target.choose()
    async with contextlib.AsyncExitStack() as stack:
        transport = await stack.enter_async_context(
            RestTransport(chosen.connection, connections=CONNECTIONS)
        )
        client = Client(transport)
        version = await server_version.read(client)
        name = chosen.connection.context or chosen.connection.server
        people = KubeconfigPeople(transport, name, target.namespace or chosen.connection.namespace)
        dashboard = await opening.opened(
            client,
            people,
            version.features,
            name=name,
            version=str(version.document.get("gitVersion", "")),
        )
        serving = plain_server.serving(dashboard, host, port)
        url = await foreground.listen(stack, serving, listen, ADVICE)
        click.echo(f"The dashboard of {name} is at {link.of(url, dashboard.new_key())}")
        await supervision.run_forever("dashboard", dashboard.run)
