"""Builds and runs the components of a cluster in one process.

The components meet on the API only, through in-process clients that carry each one's own identity.
Each runs under a supervisor: one that dies is logged and started again, the others go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dray import telemetry
from dray.allocator import fleet as allocator
from dray.api.claims import ResourceClaim
from dray.api.exchange import User
from dray.apiserver import server
from dray.apiserver.access.authentication import AUTHENTICATED
from dray.apiserver.server import Opened, Settings
from dray.client.inprocess import InProcessTransport
from dray.client.verbs import Client
from dray.controllers import manager
from dray.drivers.simulated.driver import SimulatedDriver
from dray.drivers.simulated.fleet import Fleet
from dray.explain import explain, sentences
from dray.node.nameonly import NameOnlyAgent
from dray.node.registration import Registration
from dray.scheduler import scheduler
from dray.store.store import Store

COLLECTION_THRESHOLDS = (20_000, 50, 100)
EXPLAINED_NODES = 64
"""Nobody is scheduled while a reason is looked for, so it is not looked for everywhere."""
MASTERS = "system:masters"
CONTROLLERS = User("system:kube-controller-manager", frozenset({AUTHENTICATED}))
SCHEDULER = User("system:kube-scheduler", frozenset({AUTHENTICATED}))
FLEET = User("dray:fleet", frozenset({MASTERS, AUTHENTICATED}))
ADMIN = User("kubernetes-admin", frozenset({MASTERS, AUTHENTICATED}))

Component = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Plan:
    """Which components run, and how."""

    settings: Settings = field(default_factory=Settings)
    schedules: bool = True
    controls: bool = True
    policy: str | None = None
    """How the scheduler orders devices; None is Kubernetes' first fit."""
    fleet: Fleet | None = None
    """Simulated nodes; their pods run in name only."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster: its API server, and clients in anybody's name."""

    opened: Opened
    registry: telemetry.Registry

    def client(self, user: User = ADMIN) -> Client:
        return Client(InProcessTransport(self.opened.app.handle, user))


@contextlib.asynccontextmanager
async def running(
    store: Store, directory: Path, plan: Plan | None = None
) -> AsyncIterator[Cluster]:
    """A cluster over a store; `directory` keeps its keys. Ready when yielded."""
    chosen = plan or Plan()
    registry = telemetry.Registry()
    signer = server.signer_in(directory)
    async with server.opened(
        store, signer=signer, settings=chosen.settings, registry=registry
    ) as opened:
        cluster = Cluster(opened, registry)
        with _rare_collections():
            async with _supervised(_components(cluster, chosen)):
                yield cluster


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Copies of objects live long and are no cycles: looking through them for garbage as often as
    Python does by itself costs an eighth of all processor time."""
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _components(cluster: Cluster, plan: Plan) -> dict[str, Component]:
    features = plan.settings.features
    found: dict[str, Component] = {}
    if plan.controls:
        found["controllers"] = lambda: manager.run(cluster.client(CONTROLLERS), features=features)
    if plan.schedules:
        found["scheduler"] = lambda: scheduler.run(
            cluster.client(SCHEDULER),
            features=features,
            policy=plan.policy,
            registry=cluster.registry,
            explainer=_explainer,
        )
    if plan.fleet is not None:
        found["fleet"] = lambda: _run_fleet(cluster.client(FLEET), plan.fleet)
    return found


def _explainer(fleet: allocator.Fleet) -> Callable[[Sequence[ResourceClaim]], str]:
    """Why claims find no device, in one line, from the scheduler's own view of the fleet."""

    def why(claims: Sequence[ResourceClaim]) -> str:
        names = list(fleet.nodes)
        sample = names[:: -(-len(names) // EXPLAINED_NODES) or 1]
        found = explain.explain(fleet, claims, new_share_id=server.new_uid, nodes=sample)
        text = sentences.summary(found)
        if not text or len(sample) == len(names):
            return text
        return f"Of {len(names)} nodes, {len(sample)} were looked at: {text}"

    return why


async def _run_fleet(client: Client, fleet: Fleet | None) -> None:
    """The simulated nodes of one process: they share a lease, a driver and an agent."""
    assert fleet is not None
    registration = Registration(
        client, fleet.nodes(), lease=f"fleet-{fleet.name}", runtime="none", now=_now
    )
    driver = SimulatedDriver(client, fleet, now=_now)
    agent = NameOnlyAgent(client, registration.addresses, now=_now)
    async with asyncio.TaskGroup() as group:
        for part in (registration.run, driver.run, agent.run):
            group.create_task(part())


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@contextlib.asynccontextmanager
async def _supervised(components: dict[str, Component]) -> AsyncIterator[None]:
    """The components run while the block does; leaving it ends them, the last first."""
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(manager.supervise(name, run), name=name)
            for name, run in components.items()
        ]
        try:
            yield
        finally:
            for task in reversed(tasks):
                task.cancel()
