"""Builds and runs the components of a cluster in one process.

The components meet on the API only, through in-process clients that carry each one's own identity.
Each runs under a supervisor: one that dies is logged and started again, the others go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dray import gc_tuning, supervision, telemetry
from dray.api.http_messages import User
from dray.apiserver import server
from dray.apiserver.access import bootstrap_policy
from dray.apiserver.access.authentication import AUTHENTICATED
from dray.apiserver.access.certificates import Authority
from dray.apiserver.access.renewal import RenewedPair
from dray.apiserver.access.server_keys import ServerKeys
from dray.apiserver.server import RunningServer, Settings
from dray.client import lease
from dray.client.api_client import Client, InProcessTransport
from dray.client.lease import LeaderElection
from dray.clock import utc_now
from dray.cluster.served_explanations import ServedExplanations
from dray.controllers import manager
from dray.drivers.simulated import scaling
from dray.drivers.simulated.fleet import Fleet
from dray.drivers.simulated.publisher import SimulatedDriver
from dray.explain import report
from dray.exporter.exporter import Exporter
from dray.history.history_file import HistoryFile
from dray.history.recorder import HistoryRecorder
from dray.node import registration
from dray.node.limits import groups
from dray.node.registration import Registration
from dray.node.runtimes import pod_networks, selection, simulated
from dray.node.runtimes.interface import RuntimeUnusable
from dray.node.runtimes.pod_networks import PodNetwork
from dray.node.runtimes.selection import Choice
from dray.node.simulated_agent import SimulatedAgent
from dray.scheduler import explanations, scheduler
from dray.store.store import Store

if TYPE_CHECKING:
    from dray.cluster.local_node import LocalNode
    from dray.cluster.simulated_nodes import SimulatedNodes
    from dray.node.devices.preparation import ClaimRecord

FLEET_MANAGER = "dray-fleet"
CONTROLLERS = User(bootstrap_policy.CONTROLLERS, frozenset({AUTHENTICATED}))
SCHEDULER = User(bootstrap_policy.SCHEDULER, frozenset({AUTHENTICATED}))
EXPORTER = User(bootstrap_policy.EXPORTER, frozenset({AUTHENTICATED}))
RECORDER = User(bootstrap_policy.RECORDER, frozenset({AUTHENTICATED}))
FLEET = User(bootstrap_policy.FLEET, frozenset({AUTHENTICATED}))
ADMIN = User("kubernetes-admin", frozenset({"system:masters", AUTHENTICATED}))

Component = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The components of a cluster and their settings."""

    settings: Settings = field(default_factory=Settings)
    schedules: bool = True
    controls: bool = True
    exports: bool = False
    """Whether the metrics have the figures of the exporter."""
    history: HistoryFile | None = None
    """Where the history of the devices is recorded."""
    policy: str | None = None
    """The policy of the scheduler, one of `policies.NAMES`; None decides as Kubernetes."""
    fleet: Fleet | None = None
    """Simulated nodes."""
    has_local_node: bool = False
    """Whether the local host is a node, with its NVIDIA GPUs."""
    runtime: str = simulated.NAME
    """The runtime of their containers: one of `dray.node.runtimes.selection.NAMES`."""
    allows_host: bool = False
    """Whether containers may see the files of the local host, with hostPath and otherwise."""
    pod_max_pids: int = groups.DEFAULT_POD_MAX_PIDS
    """The processes that each pod may have; zero for no limit."""
    pod_network: str = pod_networks.NONE
    """The program that connects pods: one of `dray.node.runtimes.pod_networks.NAMES`."""
    api_server: tuple[str, int] | None = None
    """The address at which the pods of its nodes reach the API server, where it is known."""
    keeps_pods: bool = False
    """Whether containers run on when the cluster ends, for the next one to find."""
    identity: str = ""
    """The name of this process in elections, on a store that several share; "" for no elections."""


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """A running cluster: its API server, its nodes, and clients with any identity."""

    opened: RunningServer
    registry: telemetry.Registry
    network: PodNetwork
    """What the pods of its nodes can reach; set the address of the API server there."""
    choice: Choice
    """The runtime of the fleet's containers, or None for simulated pods, and the reason."""
    nodes: SimulatedNodes | None = None
    """The nodes with real containers."""
    local_node: LocalNode | None = None
    root_authority: str = ""
    """The certificate authority of its API server, in PEM."""

    def client(self, user: User = ADMIN) -> Client:
        return Client(InProcessTransport(self.opened.app.handle, user))

    def prepared_claims(self) -> list[ClaimRecord]:
        """Return the claims that are prepared on nodes; simulated pods prepare none."""
        return self.nodes.prepared_claims() if self.nodes is not None else []

    @property
    def fleet_client(self) -> Client:
        return self.client(FLEET).managed_by(FLEET_MANAGER)


@contextlib.asynccontextmanager
async def running(
    store: Store,
    directory: Path,
    plan: ClusterPlan | None = None,
    keys: ServerKeys | None = None,
) -> AsyncIterator[RunningCluster]:
    """Run a cluster over a store. Ready when yielded.

    `directory` keeps its containers, and its keys where none are given.
    Raises RuntimeUnusable and NetworkUnusable for what does not work here.
    """
    chosen = plan or ClusterPlan()
    registry = telemetry.Registry()
    keys = keys or ServerKeys.load(directory)
    found = _chosen_runtime(chosen)
    network = PodNetwork(chosen.pod_network, api_server=chosen.api_server)
    async with server.open_server(
        store,
        signer=keys.signer,
        settings=chosen.settings,
        registry=registry,
        identity=keys.server_identity,
    ) as opened:
        cluster = _with_nodes(
            RunningCluster(
                opened, registry, network, found, root_authority=keys.authority.certificate.decode()
            ),
            directory,
            chosen,
            keys.authority,
        )
        await _remove_former_nodes(cluster, chosen)
        with gc_tuning.rare_collections():
            async with _supervised(_components(cluster, chosen)):
                try:
                    yield cluster
                finally:
                    if cluster.nodes is not None:
                        cluster.nodes.end()


async def _remove_former_nodes(cluster: RunningCluster, plan: ClusterPlan) -> None:
    """Delete what the store still has of another fleet, before a pod can be placed there.

    On a store that several processes share, another one may run it.
    """
    if (plan.fleet or plan.has_local_node) and not plan.identity:
        fleet = plan.fleet.name if plan.fleet else ""
        await scaling.remove_other_fleets(cluster.fleet_client, fleet)


def _chosen_runtime(plan: ClusterPlan) -> Choice:
    machines = len(plan.fleet.machines) if plan.fleet else 0
    found = selection.choose(plan.runtime, machines=machines, allows_host=plan.allows_host)
    if found.runtime is None and plan.has_local_node:
        raise RuntimeUnusable(found.why)
    pod_networks.check(plan.pod_network, found.runtime)
    return found


def _with_nodes(
    cluster: RunningCluster, directory: Path, plan: ClusterPlan, authority: Authority
) -> RunningCluster:
    runtime = cluster.choice.runtime
    if runtime is None or not (plan.fleet or plan.has_local_node):
        return cluster
    # What drivers speak takes long to import, and simulated clusters do without.
    from dray.cluster import simulated_nodes
    from dray.node.endpoint import Identity

    served = RenewedPair(lambda: authority.server_pair((simulated_nodes.ADDRESS, "localhost")))
    environment = simulated_nodes.NodeEnvironment(
        client_of=cluster.client,
        fleet_client=cluster.fleet_client,
        directory=directory,
        runtime=runtime,
        identity=Identity(served, authority.certificate),
        features=plan.settings.features,
        now=utc_now,
        allows_host=plan.allows_host,
        pod_max_pids=plan.pod_max_pids,
        network=cluster.network,
    )
    nodes = simulated_nodes.SimulatedNodes(environment)
    nodes.keeps_pods = plan.keeps_pods
    local_node = None
    if plan.has_local_node:
        from dray.cluster.local_node import LocalNode

        local_node = LocalNode(environment, nodes)
    return dataclasses.replace(cluster, nodes=nodes, local_node=local_node)


def _components(cluster: RunningCluster, plan: ClusterPlan) -> dict[str, Component]:
    found: dict[str, Component] = {}
    if plan.controls:
        found["controllers"] = _controllers(cluster, plan)
    if plan.schedules:
        found["scheduler"] = _scheduler(cluster, plan)
    if plan.exports:
        found["exporter"] = _exporter(cluster, plan)
    if plan.history is not None:
        found["recorder"] = _recorder(cluster, plan, plan.history)
    if plan.fleet is not None:
        name = f"fleet-{plan.fleet.name}"
        found["fleet"] = _elected(cluster, plan, name, lambda: _run_fleet(cluster, plan.fleet))
    if cluster.local_node is not None:
        name = f"node-{cluster.local_node.name}"
        found["computer"] = _elected(cluster, plan, name, cluster.local_node.run)
    return found


def _controllers(cluster: RunningCluster, plan: ClusterPlan) -> Component:
    client = cluster.client(CONTROLLERS).managed_by(manager.FIELD_MANAGER)
    run = functools.partial(
        manager.run,
        features=plan.settings.features,
        root_authority=cluster.root_authority,
        registry=cluster.registry,
    )
    if not plan.identity:
        return lambda: run(client)
    election = manager.candidate(client, plan.identity)
    return lambda: manager.run_elected(election, lambda: run(election.as_leader(client)))


def _scheduler(cluster: RunningCluster, plan: ClusterPlan) -> Component:
    client = cluster.client(SCHEDULER).managed_by(scheduler.FIELD_MANAGER)
    run = functools.partial(
        scheduler.run,
        features=plan.settings.features,
        policy=plan.policy,
        registry=cluster.registry,
        explainer=explanations.sampled,
        show=_served_explanations(cluster).follow,
    )
    if not plan.identity:
        return lambda: run(client)
    election = scheduler.candidate(client, plan.identity)
    return lambda: lease.run_whenever_leading(
        election, "scheduler", lambda: run(election.as_leader(client))
    )


def _served_explanations(cluster: RunningCluster) -> ServedExplanations:
    """Return what answers `dray explain` from the state of a scheduler in this process."""
    app = cluster.opened.app
    served = ServedExplanations(app.handle, app.authorize)
    app.pages[report.PATH] = served.answer
    return served


def _exporter(cluster: RunningCluster, plan: ClusterPlan) -> Component:
    """Return the exporter, which begins when metrics are first read."""
    client = cluster.client(EXPORTER)
    features = plan.settings.features
    return Exporter(client, cluster.registry, features=features, now=utc_now).run


def _recorder(cluster: RunningCluster, plan: ClusterPlan, file: HistoryFile) -> Component:
    """Return the recorder. A store in memory is empty at each start; its history goes on."""
    recorder = HistoryRecorder(
        cluster.client(RECORDER),
        file,
        features=plan.settings.features,
        now=utc_now,
        follows_new_clusters=True,
    )
    return recorder.run


def _elected(cluster: RunningCluster, plan: ClusterPlan, name: str, run: Component) -> Component:
    """Return nodes that only one of several processes runs: they have the same names in all."""
    if not plan.identity:
        return run
    # With the rights of the controllers: what runs nodes may not write leases of others.
    client = cluster.client(CONTROLLERS)
    election = LeaderElection(client, f"dray-{name}", plan.identity, now=utc_now)
    return lambda: lease.run_whenever_leading(election, name, run)


def component_names(plan: ClusterPlan) -> tuple[str, ...]:
    """Return the names of the components besides the API server."""
    named = {
        "controllers": plan.controls,
        "scheduler": plan.schedules,
        "exporter": plan.exports,
        "recorder": plan.history,
        "fleet": plan.fleet,
        "computer": plan.has_local_node,
    }
    return tuple(name for name, wanted in named.items() if wanted)


async def _run_fleet(cluster: RunningCluster, fleet: Fleet | None) -> None:
    """Run the nodes of a fleet at the requested size."""
    assert fleet is not None
    client, real = cluster.fleet_client, cluster.nodes
    if real is not None:
        await scaling.follow(client, fleet, real.run)
    else:
        await scaling.follow(client, fleet, lambda sized: _run_simulated(client, sized))


async def _run_simulated(client: Client, fleet: Fleet) -> None:
    """Run simulated nodes, which share a lease, a driver and an agent, and start no container."""
    as_nodes = client.managed_by(registration.FIELD_MANAGER)
    registered = Registration(
        as_nodes, fleet.nodes(), lease=f"fleet-{fleet.name}", runtime=simulated.NAME, now=utc_now
    )
    driver = SimulatedDriver(client, fleet, now=utc_now)
    agent = SimulatedAgent(as_nodes, registered.addresses, now=utc_now)
    async with asyncio.TaskGroup() as group:
        for part in (registered.run, driver.run, agent.run):
            group.create_task(part())


@contextlib.asynccontextmanager
async def _supervised(components: dict[str, Component]) -> AsyncIterator[None]:
    """Run the components while the block runs; cancel them at its end, the last first."""
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(supervision.run_forever(name, run), name=name)
            for name, run in components.items()
        ]
        try:
            yield
        finally:
            for task in reversed(tasks):
                task.cancel()
