"""`dray up`: a whole cluster in the foreground, on a simulated fleet."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

import click

from dray import cluster
from dray.api import features
from dray.apiserver import standalone
from dray.apiserver.access.certificates import Authority
from dray.apiserver.server import Settings
from dray.cli.components import apiserver, running, stores
from dray.cli.failures import Command, Failure, WrongUsage
from dray.client import kubeconfig
from dray.cluster import Plan
from dray.drivers.simulated import blueprint
from dray.drivers.simulated import fleet as fleets
from dray.store import compaction


@click.command("up", cls=Command)
@click.option(
    "--fleet",
    default="quickstart",
    show_default=True,
    metavar="NAME|FILE",
    help=f"The machines: one of {', '.join(fleets.shipped())}, or a file of your own.",
)
@click.option("--nodes", type=int, help="How many machines of each kind, instead of the fleet's.")
@click.option("--store", default="", metavar="STORE", help=f"{stores.FORMS}; sqlite in --data.")
@click.option("--listen", default=apiserver.DEFAULT_LISTEN, show_default=True, metavar="HOST:PORT")
@click.option("--data", default=apiserver.DEFAULT_DATA, show_default=True, metavar="DIR")
@click.option("--feature-gates", default="", metavar="A=true,B=false", help="As in Kubernetes.")
def up(
    fleet: str, nodes: int | None, store: str, listen: str, data: str, feature_gates: str
) -> None:
    """Run a cluster until told to end: API server, scheduler, controllers and simulated nodes.

    Pods run in name only: they are placed, get their devices, and are reported as running.
    """
    started = time.perf_counter()
    plan = Plan(Settings(features=features.parse(feature_gates)), fleet=_loaded(fleet, nodes))
    host, port = apiserver.parse_listen(listen)
    directory = Path(data).expanduser()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    running.run(
        running.until_told_to_end(lambda: _run(directory, store, host, port, plan, started))
    )


def _loaded(name: str, nodes: int | None) -> fleets.Fleet:
    try:
        return fleets.load(name, nodes=nodes)
    except (OSError, blueprint.FleetError) as error:
        raise WrongUsage(f"--fleet {name}: {error}") from error


async def _run(
    directory: Path, store: str, host: str, port: int, plan: Plan, started: float
) -> None:
    authority = Authority.load_or_create(directory)
    names = dict.fromkeys((host, standalone.LOOPBACK, "localhost", socket.gethostname()))
    async with contextlib.AsyncExitStack() as stack:
        state = await stack.enter_async_context(stores.opened(store, directory))
        made = await stack.enter_async_context(cluster.running(state, directory, plan))
        try:
            url = await stack.enter_async_context(
                made.opened.server.listening(
                    host, port, authority.server_pair(names), authority.certificate
                )
            )
        except OSError as error:
            raise Failure(
                f"cannot listen on {host}:{port}: {error.strerror}",
                "Is another `dray up` running there? Choose another address with --listen.",
            ) from error
        _announce(directory, apiserver.reachable(url), plan, time.perf_counter() - started)
        await compaction.compact_regularly(state)


def _announce(directory: Path, url: str, plan: Plan, seconds: float) -> None:
    path = directory / "kubeconfig"
    admin = standalone.connection(directory, url, "admin", standalone.ADMIN_GROUP)
    kubeconfig.write(path, admin)
    assert plan.fleet is not None
    click.echo(f"dray is up after {seconds:.2f} s at {url}")
    click.echo(f"{plan.fleet.name}: {plan.fleet.description}\n")
    click.echo(f"  export KUBECONFIG={path.resolve()}")
    click.echo("  dray get devices            # or: kubectl get resourceslices")
    click.echo("  dray apply -f claim.yaml    # or: kubectl apply -f claim.yaml")
    click.echo("  dray get resourceclaims,pods\n")
    click.echo("Ctrl-C ends it; the state stays in the store.")
