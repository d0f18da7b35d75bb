"""`dray up`: a whole cluster in the foreground, on a simulated fleet."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import shlex
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from dray.api import features
from dray.api.features import Features
from dray.api.formats import gotime
from dray.apiserver import standalone
from dray.apiserver.access.server_keys import KeyFiles, ServerKeys
from dray.apiserver.server import Settings
from dray.cli import lazy_group
from dray.cli.command_errors import CommandError, DrayCommand, WrongUsage
from dray.cli.components import apiserver, foreground, key_options, store_option
from dray.cli.components.apiserver import ServedAt
from dray.cli.components.dashboard import link as dashboard_link
from dray.cli.components.store_option import StoreChoice
from dray.cli.inputs import pod_options, policy_option, record_options
from dray.cli.output import durations
from dray.cli.session import cluster_choice, up_instance
from dray.cli.session.up_instance import UpInstance
from dray.client import kubeconfig
from dray.clock import utc_now
from dray.cluster import assembly
from dray.cluster.assembly import ClusterPlan, RunningCluster
from dray.drivers.nvidia import nvml
from dray.drivers.simulated import fleet as fleets
from dray.drivers.simulated import fleet_file, publication
from dray.node.runtimes import selection, simulated
from dray.node.runtimes.interface import RuntimeUnusable
from dray.node.runtimes.pod_networks import NetworkUnusable
from dray.node.runtimes.selection import Choice
from dray.store import compaction

QUICKSTART = "quickstart"
DASHBOARD_LISTEN = "127.0.0.1:0"
PUBLICATION_SECONDS = 5.0
"""The longest wait for the devices of a fleet; a large one goes on in the background."""
PREEMPTION_GATES = ("DrayPreemption", "DrayGangSearch", "GenericWorkload")
"""The last one serves PodGroups, without which there are no gangs."""
RUNTIME_ADVICE = "Without --runtime the first that works is taken; none simulates pods."


class UpOptions(NamedTuple):
    """The options of the command."""

    fleet: str
    nodes: int | None
    store: StoreChoice
    listen: str
    data: str
    feature_gates: str
    preemption: bool
    history_seconds: float
    record: str
    record_retention: float
    runtime: str
    allow_host_access: bool
    policy: str | None
    pod_max_pids: int
    pod_network: str
    keep_pods: bool
    merge_kubeconfig: bool
    key_files: KeyFiles
    names: tuple[str, ...]
    audit_log: Path | None
    event_ttl: float
    ui_listen: str
    verbose: bool


@click.command("up", cls=DrayCommand)
@click.option(
    "--fleet",
    default="",
    show_default=f"this computer where it has a GPU, else {QUICKSTART}",
    metavar="NAME|FILE",
    shell_complete=lazy_group.completer("fleets"),
    help=f"The nodes: one of {', '.join(fleets.shipped())}, or a file of your own.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1),
    help="How many nodes of each kind, instead of the fleet's.",
)
@store_option.options
@click.option("--listen", default=apiserver.DEFAULT_LISTEN, show_default=True, metavar="HOST:PORT")
@click.option("--data", default=up_instance.DEFAULT_DATA, show_default=True, metavar="DIR")
@click.option("--feature-gates", default="", metavar="A=true,B=false", help="As in Kubernetes.")
@click.option(
    "--preemption",
    is_flag=True,
    help="Evict less important pods where that gives a pod its devices, and search for gangs "
    f"(feature gates {', '.join(PREEMPTION_GATES)}).",
)
@click.option(
    "--history",
    "history_seconds",
    default="1h",
    show_default=True,
    callback=durations.parse,
    metavar="DURATION",
    help="How long old revisions are kept: a watch or a recorder can go on from there.",
)
@record_options.file_option
@record_options.retention_option(durations.parse)
@click.option(
    "--runtime",
    type=click.Choice(selection.NAMES),
    default=selection.AUTO,
    show_default=True,
    help="What containers run in; auto takes the first that works here.",
)
@click.option(
    "--allow-host-access",
    is_flag=True,
    help="Allow hostPath, hostNetwork, seccomp Unconfined and --runtime process.",
)
@policy_option.option
@pod_options.max_pids
@pod_options.network
@click.option("--keep-pods", is_flag=True, help="Leave containers running, for the next `dray up`.")
@click.option("--merge-kubeconfig", is_flag=True, help="Also make it the context of your kubectl.")
@key_options.options
@apiserver.names_option
@apiserver.audit_log_option
@apiserver.event_ttl_option
@click.option(
    "--ui-listen",
    default=DASHBOARD_LISTEN,
    show_default="a free port of 127.0.0.1",
    metavar="127.0.0.1:PORT",
    help="Where the link to the dashboard leads; none for no dashboard.",
)
@click.option("-v", "--verbose", is_flag=True, help="Log what happens, not only what goes wrong.")
def up(**options: Any) -> None:
    """Run a local cluster until stopped: API server, scheduler, controllers and nodes.

    A computer with an NVIDIA GPU is a node itself. Otherwise, and with --fleet, they are simulated.
    Containers really run, on this computer, for fleets of up to 16 machines. On larger ones, and
    with --runtime none, pods are simulated: they are placed, get their devices, and are reported as
    running. Containers are stopped at the end, unless it comes by SIGUSR1 or with --keep-pods.
    Of several on one etcd, each serves the API; one runs the scheduler, the controllers and the
    nodes, and the others wait. They need the same keys: give all of them the same files.
    """
    started = time.perf_counter()
    given = UpOptions(**options)
    host, port = foreground.parse_listen(given.listen, "--listen", apiserver.DEFAULT_LISTEN)
    address = ServedAt(host, port, given.names)
    # Before anything is started: it may be wrong.
    dashboard_link.parse(given.ui_listen, "--ui-listen")
    plan = _plan(given, address)
    directory = foreground.private_directory(given.data)
    keys = key_options.load(directory, given.key_files)

    def announce(url: str, cluster: RunningCluster, link: str) -> None:
        _register(given, directory, plan, keys, url, cluster)
        seconds = time.perf_counter() - started
        click.echo(f"dray is up after {seconds:.2f} s at {url}")
        _announce(directory, plan, cluster.choice, link, has_default_nodes=given.nodes is None)

    with up_instance.locked(directory):
        foreground.run(
            foreground.until_signalled(
                lambda: _run(directory, given, address, plan, keys, announce)
            ),
            logging.INFO if given.verbose else logging.WARNING,
        )
    click.echo(_farewell(given.store, directory, given.data))


def _plan(given: UpOptions, address: ServedAt) -> ClusterPlan:
    """Return what is to run: the node of this computer, or a simulated fleet."""
    has_local_node = not given.fleet and given.runtime != simulated.NAME and nvml.is_here()
    return ClusterPlan(
        Settings(
            features=_features(given),
            mounts_tokens=True,
            audit_log=given.audit_log,
            event_seconds=given.event_ttl,
        ),
        exports=True,
        policy=given.policy,
        fleet=None if has_local_node else _loaded(given.fleet or QUICKSTART, given.nodes),
        has_local_node=has_local_node,
        runtime=given.runtime,
        allows_host=given.allow_host_access,
        pod_max_pids=given.pod_max_pids,
        pod_network=given.pod_network,
        api_server=_reachable(address.host, address.port),
        keeps_pods=given.keep_pods,
        identity=foreground.identity() if given.store.is_shared else "",
    )


def _features(given: UpOptions) -> Features:
    if not given.preemption:
        return features.parse(given.feature_gates)
    preempting = features.with_gates(features.DEFAULT, dict.fromkeys(PREEMPTION_GATES, True))
    chosen = features.parse(given.feature_gates, preempting)
    for gate in PREEMPTION_GATES:
        if not features.is_enabled(chosen, gate):
            raise WrongUsage(
                f"--preemption switches {gate} on, and --feature-gates {given.feature_gates} "
                "switches it off: leave out one of them"
            )
    return chosen


def _register(
    given: UpOptions,
    directory: Path,
    plan: ClusterPlan,
    keys: ServerKeys,
    url: str,
    cluster: RunningCluster,
) -> None:
    """Write what runs and how to reach it, for other commands."""
    recorded = record_options.chosen(given.record, directory)
    components = ("apiserver", *assembly.component_names(plan))
    components += ("recorder",) if recorded is not None else ()
    sqlite = f"{store_option.SQLITE}{store_option.sqlite_path('', directory)}"
    described = UpInstance(
        pid=os.getpid(),
        since=gotime.write(utc_now()),
        url=url,
        fleet=plan.fleet.name if plan.fleet else "",
        store=given.store.text or sqlite,
        runtime=cluster.choice.name,
        history=str(recorded.absolute()) if recorded is not None else "",
        components=components,
    )
    up_instance.write(directory, described)
    admin = keys.connection(url, "admin", standalone.ADMIN_GROUP)
    kubeconfig.write(directory / "kubeconfig", admin)
    if given.merge_kubeconfig:
        merged = kubeconfig.merge(admin)
        click.echo(f"{merged}: the current context is now {kubeconfig.NAME}")


def _loaded(name: str, nodes: int | None) -> fleets.Fleet:
    try:
        return fleets.load(name, nodes=nodes)
    except (OSError, fleet_file.FleetError) as error:
        raise WrongUsage(f"--fleet {name}: {error}") from error


def _reachable(host: str, port: int) -> tuple[str, int] | None:
    """Return the address of a server that will listen here; None for a port yet to be chosen."""
    everywhere = host in ("0.0.0.0", "::")
    return (standalone.LOOPBACK if everywhere else host, port) if port else None


async def _run(
    directory: Path,
    given: UpOptions,
    listen: ServedAt,
    plan: ClusterPlan,
    keys: ServerKeys,
    announce: Callable[[str, RunningCluster, str], None],
) -> None:
    advice = "Is another `dray up` running there? Choose another address with --listen."
    async with contextlib.AsyncExitStack() as stack:
        state = await stack.enter_async_context(store_option.opened(given.store, directory))
        file = record_options.chosen(given.record, directory)
        if file is not None:
            history = stack.enter_context(record_options.opened(file, given.record_retention))
            plan = dataclasses.replace(plan, history=history)
        try:
            cluster = await stack.enter_async_context(
                assembly.running(state, directory, plan, keys)
            )
        except RuntimeUnusable as error:
            raise CommandError(f"--runtime {plan.runtime}: {error}.", RUNTIME_ADVICE) from error
        except NetworkUnusable as error:
            raise CommandError(f"--pod-network {plan.pod_network}: {error}.") from error
        _keep_pods_on_signal(cluster)
        server = cluster.opened.server
        url = await apiserver.listen(stack, server, keys.authority, listen, advice)
        cluster.network.api_server = foreground.host_and_port(url)
        if plan.fleet is not None:
            # The first command of a user finds the devices, and is warned about selectors.
            await publication.wait_until_published(
                cluster.fleet_client, plan.fleet, PUBLICATION_SECONDS
            )
        link = ""
        served = dashboard_link.parse(given.ui_listen, "--ui-listen")
        if served is not None:
            link_file = directory / dashboard_link.FILE
            place = dashboard_link.DashboardPlace(*served, link_file, (listen.host, *listen.names))
            link = await stack.enter_async_context(dashboard_link.of_cluster(cluster, place, file))
        announce(url, cluster, link)
        try:
            await compaction.compact_regularly(state, given.history_seconds)
        finally:
            click.echo("Stopping …")


def _keep_pods_on_signal(cluster: RunningCluster) -> None:
    """On SIGUSR1, end the cluster as on SIGTERM, but leave its containers running."""
    running_here = asyncio.current_task()
    assert running_here is not None

    def end() -> None:
        if cluster.nodes is not None:
            cluster.nodes.keeps_pods = True
        running_here.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, end)


def _announce(
    directory: Path, plan: ClusterPlan, chosen: Choice, link: str, *, has_default_nodes: bool
) -> None:
    """Print what runs, and commands to go on with."""
    if plan.fleet is None:
        click.echo("The node is this computer, with its own GPUs; --fleet simulates others.")
    else:
        if has_default_nodes:
            click.echo(": ".join(filter(None, (plan.fleet.name, plan.fleet.description))))
        click.echo(f"Simulated: {_counted(plan.fleet)}.")
    if chosen.runtime is None:
        click.echo(f"Pods are simulated: {chosen.why}. No containers run.\n")
    else:
        click.echo(f"Containers run in: {chosen.name} ({chosen.why}).\n")
    is_default = directory == cluster_choice.data_directory() and not os.environ.get("KUBECONFIG")
    users = "kubectl" if is_default else "dray and kubectl"
    click.echo(f"  export KUBECONFIG={_quoted(directory / 'kubeconfig')}   # for {users}")
    click.echo("  dray get devices")
    click.echo("  dray top")
    click.echo("  dray get pods,resourceclaims -A\n")
    if link:
        click.echo(f"  {link}   # dashboard; the link works once")
        click.echo(f"  cat {_quoted(directory / dashboard_link.FILE)}   # the next link\n")
    click.echo("Ctrl-C ends it, and its containers; the state stays in the store.")


def _quoted(path: Path) -> str:
    return shlex.quote(str(path.resolve()))


def _counted(fleet: fleets.Fleet) -> str:
    """Return real counts, such as `3 nodes, 5 GPUs (4 h100-80gb-hbm3, 1 a100-sxm4-80gb)`."""
    models = fleet.models()
    word = "GPU" if all(driver.startswith("gpu.") for driver, _ in models) else "device"
    parts = ", ".join(f"{number} {model}" for (_, model), number in models.items())
    nodes, devices = len(fleet.machines), sum(models.values())
    return f"{_number(nodes, 'node')}, {_number(devices, word)} ({parts})"


def _number(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _farewell(store: StoreChoice, directory: Path, data: str) -> str:
    if store.text == store_option.MEMORY:
        return "dray is down. Its state was in memory and is gone."
    option = "" if directory == cluster_choice.data_directory() else f" --data {shlex.quote(data)}"
    return f"dray is down. Its state stays; continue with: dray up{option}"
