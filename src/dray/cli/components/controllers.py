"""`dray controllers`: the controllers as a process of their own, against any cluster."""

from __future__ import annotations

import contextlib
import functools

import click

from dray.api import features
from dray.cli import connection, serverversion
from dray.cli.components import monitored, running
from dray.cli.components.monitored import Candidate
from dray.cli.connection import Target
from dray.cli.failures import Command, WrongUsage
from dray.controllers import manager


@click.command("controllers", cls=Command)
@connection.options
@click.option("--only", default="", metavar="A,B", help=f"Some of {', '.join(manager.LOOPS)}.")
@click.option("--feature-gates", default="", metavar="A=true,B=false", help="As in Kubernetes.")
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True)
@monitored.option
def controllers(
    target: Target, only: str, feature_gates: str, leader_elect: bool, metrics_listen: str
) -> None:
    """Keep claims, workloads, nodes and quotas in order until told to end."""
    names = tuple(filter(None, only.split(",")))

    async def work() -> None:
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                running.client_of(target, manager.FIELD_MANAGER)
            )
            election = manager.candidate(client, running.identity()) if leader_elect else None
            here = Candidate(election)
            await stack.enter_async_context(
                monitored.shown(metrics_listen, here.registry, here.is_ready)
            )
            version = await serverversion.ask(client)
            gates = features.parse(feature_gates, version.features)
            try:
                manager.chosen(names, gates)
            except manager.UnknownLoop as error:
                raise WrongUsage(str(error)) from error
            run = functools.partial(
                manager.run,
                client,
                only=names,
                features=gates,
                registry=here.registry,
                started=here.started,
            )
            await (manager.run_elected(election, run) if election else run())

    running.run(running.until_told_to_end(work))
