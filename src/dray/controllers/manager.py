"""Starts the loops: shared caches, one supervised task per loop, leader election if requested.

A loop that raises is logged and started again; the others go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from dray import clock, supervision, telemetry
from dray.api import features as gates
from dray.api.features import Features
from dray.client import lease
from dray.client.api_client import Client
from dray.client.lease import LeaderElection, Timing
from dray.controllers import served_kinds
from dray.controllers.caches import Caches
from dray.controllers.devices.claims import Claims
from dray.controllers.devices.pool_status import PoolStatuses
from dray.controllers.devices.taint_eviction import TaintEviction
from dray.controllers.disruption_budgets import Budgets
from dray.controllers.garbage_collector import Garbage
from dray.controllers.jobs.cronjobs import CronJobs
from dray.controllers.jobs.jobs import Jobs
from dray.controllers.loops import Clock, Context, Loop
from dray.controllers.metrics import Metrics
from dray.controllers.namespaces.namespaces import Namespaces
from dray.controllers.namespaces.quotas import QuotaLoop
from dray.controllers.namespaces.root_authority import RootAuthorityLoop
from dray.controllers.namespaces.serviceaccounts import ServiceAccountLoop
from dray.controllers.nodes.node_eviction import NodeEviction
from dray.controllers.nodes.node_lifecycle import NodeLifecycle
from dray.controllers.nodes.pod_garbage import PodGarbage
from dray.controllers.policy_statuses import PolicyStatuses
from dray.controllers.workloads.daemonsets import DaemonSets
from dray.controllers.workloads.deployments import Deployments
from dray.controllers.workloads.podgroups import PodGroups
from dray.controllers.workloads.replicasets import ReplicaSets, ReplicationControllers
from dray.controllers.workloads.statefulsets import StatefulSets

LEASE_NAME = "dray-controllers"
FIELD_MANAGER = "dray-controller-manager"
ROOT_AUTHORITY = "root-ca"

LOOPS: Mapping[str, Callable[[Context], Loop[Any]]] = {
    "claims": Claims,
    "taints": TaintEviction,
    "pool-status": PoolStatuses,
    "podgroups": PodGroups,
    "deployments": Deployments,
    "replicasets": ReplicaSets,
    "replicationcontrollers": ReplicationControllers,
    "statefulsets": StatefulSets,
    "daemonsets": DaemonSets,
    "cronjobs": CronJobs,
    "jobs": Jobs,
    "budgets": Budgets,
    "policies": PolicyStatuses,
    "nodes": NodeLifecycle,
    "node-eviction": NodeEviction,
    "pod-garbage": PodGarbage,
    "serviceaccounts": ServiceAccountLoop,
    ROOT_AUTHORITY: RootAuthorityLoop,
    "namespaces": Namespaces,
    "quotas": QuotaLoop,
    "garbage": Garbage,
}
"""Every loop by its name in `only`.

Loops over all kinds come last: they share the caches that the others have created.
"""

_NEEDS: Mapping[str, str] = {
    "taints": "device_taints",
    "pool-status": "resource_pool_status",
    "podgroups": "generic_workload",
}
"""Feature gates of loops that depend on one."""


class UnknownLoop(ValueError):
    """No loop has this name."""


def chosen(only: Collection[str], features: Features) -> list[str]:
    """Return the loops to run: those of `only`, or all, without those whose gate is off."""
    unknown = sorted(set(only) - LOOPS.keys())
    if unknown:
        raise UnknownLoop(
            f"unknown controllers: {', '.join(unknown)}; there are: {', '.join(LOOPS)}"
        )
    return [
        name
        for name in LOOPS
        if (not only or name in only) and (name not in _NEEDS or getattr(features, _NEEDS[name]))
    ]


async def run(
    client: Client,
    *,
    only: Collection[str] = (),
    features: Features = gates.DEFAULT,
    root_authority: str = "",
    now: Clock = clock.utc_now,
    registry: telemetry.Registry | None = None,
    started: asyncio.Event | None = None,
) -> None:
    """Run loops until cancelled. `started` is set when the caches of all of them are in sync.

    `root_authority` is published to every namespace, if it is known.
    """
    names = [name for name in chosen(only, features) if name != ROOT_AUTHORITY or root_authority]
    served = await served_kinds.served_kinds(client)
    metrics = Metrics(registry or telemetry.Registry())
    context = Context(client, Caches(client), features, now, {}, served, metrics, root_authority)
    running = [LOOPS[name](context) for name in names]
    metrics.count_waiting(lambda: {loop.name: len(loop.queue) for loop in running})
    async with asyncio.TaskGroup() as group:
        group.create_task(context.caches.run(), name="caches")
        for recorder in context.recorders.values():
            group.create_task(supervision.run_forever("events", recorder.run), name="events")
        for loop in running:
            group.create_task(supervision.run_forever(loop.name, loop.run), name=loop.name)
        if started is not None:
            await _all_synced(running)
            started.set()


async def _all_synced(running: Iterable[Loop[Any]]) -> None:
    for loop in running:
        await loop.synced()


def candidate(
    client: Client, identity: str, *, now: Clock = clock.utc_now, timing: Timing | None = None
) -> LeaderElection:
    """Return a candidate for the lease whose holder runs the loops."""
    return LeaderElection(client, LEASE_NAME, identity, now=now, timing=timing)


async def run_elected(election: LeaderElection, work: Callable[[], Awaitable[None]]) -> None:
    """Do the work whenever this process leads. After a lost lease, wait to lead again."""
    await lease.run_whenever_leading(election, "controllers", work)
