"""`dray controllers`: the controllers as a process of their own, against any cluster."""

from __future__ import annotations

import functools

import click

from dray.api import features
from dray.cli import connection, serverversion
from dray.cli.components import running
from dray.cli.connection import Target
from dray.cli.failures import Command, WrongUsage
from dray.controllers import manager


@click.command("controllers", cls=Command)
@connection.options
@click.option("--only", default="", metavar="A,B", help=f"Some of {', '.join(manager.LOOPS)}.")
@click.option("--feature-gates", default="", metavar="A=true,B=false", help="As in Kubernetes.")
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True)
def controllers(target: Target, only: str, feature_gates: str, leader_elect: bool) -> None:
    """Keep claims, workloads, nodes and quotas in order until told to end."""
    names = tuple(filter(None, only.split(",")))

    async def work() -> None:
        async with running.client_of(target, "dray-controllers") as client:
            version = await serverversion.ask(client)
            gates = features.parse(feature_gates, version.features)
            try:
                manager.chosen(names, gates)
            except manager.UnknownLoop as error:
                raise WrongUsage(str(error)) from error
            run = functools.partial(manager.run, client)
            if leader_elect:
                run = functools.partial(manager.run_elected, client, running.identity())
            await run(only=names, features=gates)

    running.run(running.until_told_to_end(work))
