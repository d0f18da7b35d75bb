"""`dray scheduler`: the scheduler as a process of its own, against any cluster."""

from __future__ import annotations

import contextlib
import functools

import click

from dray.api import features
from dray.api.features import Features
from dray.cli.command_errors import DrayCommand, WrongUsage
from dray.cli.components import foreground, metrics_endpoint
from dray.cli.components.metrics_endpoint import LeaderReadiness
from dray.cli.inputs import policy_option
from dray.cli.session import connection
from dray.cli.session.connection import Target
from dray.client import discovery
from dray.client.api_client import Client
from dray.scheduler import explanations
from dray.scheduler import scheduler as scheduling


@click.command("scheduler", cls=DrayCommand)
@connection.options_of_cluster
@click.option("--scheduler-name", default=scheduling.DEFAULT_NAME, show_default=True)
@click.option("--node-selector", default="", help="Only nodes with these labels.")
@policy_option.option
@click.option("--feature-gates", default="", metavar="A=true,B=false", help="As in Kubernetes.")
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True)
@click.option(
    "--leader-elect-resource-name",
    "lease_name",
    help=f"The Lease of this scheduler's replicas. [default: {scheduling.LEASE_NAME}]",
)
@click.option(
    "--leader-elect-resource-namespace",
    "lease_namespace",
    help=f"Namespace of the Lease. [default: {scheduling.LEASE_NAMESPACE}]",
)
@metrics_endpoint.option
def scheduler(
    target: Target,
    scheduler_name: str,
    node_selector: str,
    policy: str | None,
    feature_gates: str,
    leader_elect: bool,
    lease_name: str | None,
    lease_namespace: str | None,
    metrics_listen: str,
) -> None:
    """Assign nodes and devices to pods until stopped."""
    if not leader_elect and (lease_name or lease_namespace):
        raise WrongUsage("--leader-elect-resource-… means nothing with --no-leader-elect")

    async def work() -> None:
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                foreground.client_of(target, scheduling.FIELD_MANAGER)
            )
            election = None
            if leader_elect:
                election = scheduling.candidate(
                    client,
                    foreground.identity(),
                    lease_name or scheduling.LEASE_NAME,
                    lease_namespace or scheduling.LEASE_NAMESPACE,
                )
            here = LeaderReadiness(election)
            await stack.enter_async_context(
                metrics_endpoint.shown(metrics_listen, here.registry, here.is_ready)
            )
            schedule = functools.partial(
                scheduling.run,
                election.as_leader(client) if election else client,
                name=scheduler_name,
                features=await allowed_features(client, node_selector, feature_gates),
                node_selector=node_selector,
                policy=policy,
                registry=here.registry,
                explainer=explanations.sampled,
                started=here.started,
            )
            await (election.run(schedule) if election else schedule())

    foreground.run(foreground.until_signalled(work))


async def allowed_features(client: Client, node_selector: str, gates: str) -> Features:
    """Return the feature gates of the cluster.

    Raises WrongUsage if the cluster has another scheduler and no nodes are set apart.
    """
    version = await discovery.version_of(client)
    if not version.is_dray and not node_selector:
        raise WrongUsage(
            "this cluster has a scheduler of its own, and two that give out the same devices "
            "would fight over them.",
            "Name the nodes that are dray's alone: --node-selector KEY=VALUE",
        )
    return features.parse(gates, version.features)
