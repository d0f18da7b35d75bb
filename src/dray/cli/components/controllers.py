"""`dray controllers`: the controllers as a process of their own, against any cluster."""

from __future__ import annotations

import contextlib
import functools

import click

from dray.api import features
from dray.cli.command_errors import DrayCommand, WrongUsage
from dray.cli.components import foreground, metrics_endpoint
from dray.cli.components.metrics_endpoint import LeaderReadiness
from dray.cli.session import connection
from dray.cli.session.connection import Target
from dray.client import discovery
from dray.controllers import manager


@click.command("controllers", cls=DrayCommand)
@connection.options_of_cluster
@click.option("--only", default="", metavar="A,B", help=f"Some of {', '.join(manager.LOOPS)}.")
@click.option("--feature-gates", default="", metavar="A=true,B=false", help="As in Kubernetes.")
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True)
@metrics_endpoint.option
def controllers(
    target: Target, only: str, feature_gates: str, leader_elect: bool, metrics_listen: str
) -> None:
    """Run the controllers of claims, workloads, nodes and quotas until stopped."""
    names = tuple(filter(None, only.split(",")))

    async def work() -> None:
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                foreground.client_of(target, manager.FIELD_MANAGER)
            )
            election = manager.candidate(client, foreground.identity()) if leader_elect else None
            here = LeaderReadiness(election)
            await stack.enter_async_context(
                metrics_endpoint.shown(metrics_listen, here.registry, here.is_ready)
            )
            version = await discovery.version_of(client)
            gates = features.parse(feature_gates, version.features)
            try:
                manager.chosen(names, gates)
            except manager.UnknownLoop as error:
                raise WrongUsage(str(error)) from error
            run = functools.partial(
                manager.run,
                election.as_leader(client) if election else client,
                only=names,
                features=gates,
                root_authority=target.connect().certificate_authority.decode(),
                registry=here.registry,
                started=here.started,
            )
            await (manager.run_elected(election, run) if election else run())

    foreground.run(foreground.until_signalled(work))
