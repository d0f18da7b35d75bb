"""The watch caches that the loops share, each created when the first loop needs it.

There is one per kind, except where a loop needs far fewer fields than the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from dray import supervision
from dray.api import kinds
from dray.api.ids import ObjectKey, PoolId
from dray.api.kinds import Kind
from dray.api.semantics import owner_references, pod_claims
from dray.api.templates.workload_types import (
    ClaimTemplate,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from dray.api.types.admission import ValidatingAdmissionPolicy
from dray.api.types.core import (
    Lease,
    Namespace,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    ResourceQuota,
    Service,
)
from dray.api.types.dra import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourcePoolStatusRequest,
    ResourceSlice,
)
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.api.types.workloads import ControllerRevision, PodGroup
from dray.client import pod_indexes
from dray.client.api_client import Client
from dray.client.cache import Cache, HasMetadata, IndexFunction
from dray.controllers.slim_types import TaintedSlice

T = TypeVar("T")


CLAIM, TEMPLATE, GROUP = "claim", "template", "group"
"""Indexes of the consumers of a claim, template or group, by its `ObjectKey`."""
NODE, NAMESPACE = "node", "namespace"
POOL = "pool"
"""Index of the slices of a pool, and of the claims with devices of it, by `PoolId`."""
OWNER, ORPHAN = "owner", "orphan"
"""Indexes of controlled objects by the uid of the controller, of others by namespace."""


def pools_of(claim: ResourceClaim) -> set[PoolId]:
    """Return the pools of the devices that are allocated to a claim."""
    allocation = claim.status.allocation
    return {result.pool_id for result in allocation.devices.results} if allocation else set()


def _templates(user: Pod | PodGroup) -> Iterable[Hashable]:
    for source in user.spec.resource_claims:
        if source.resource_claim_template_name:
            yield ObjectKey(user.metadata.namespace, source.resource_claim_template_name)


def _namespace(value: Any) -> Iterable[Hashable]:
    return (value.metadata.namespace,)


def _orphan(value: Any) -> Iterable[Hashable]:
    return () if owner_references.controller_of(value.metadata) else (value.metadata.namespace,)


def _pool_of_slice(published: ResourceSlice | TaintedSlice) -> Iterable[Hashable]:
    return (published.pool_id,)


_BY_OWNER: Mapping[str, IndexFunction[Any]] = {
    OWNER: owner_references.controller_uids,
    ORPHAN: _orphan,
}


class _Shared(Generic[T]):
    """A cache as an attribute of `Caches`, created when it is first read."""

    def __init__(
        self, kind: Kind, type_: type[T], indexes: Mapping[str, IndexFunction[T]] | None = None
    ) -> None:
        self._kind, self._type, self._indexes = kind, type_, indexes

    def __get__(self, caches: Caches, _: type[Caches]) -> Cache[T]:
        return caches.get(self._kind, self._type, self._indexes)


class Caches:
    pods = _Shared(
        kinds.POD,
        Pod,
        {
            CLAIM: pod_claims.used_claims,
            TEMPLATE: _templates,
            GROUP: pod_indexes.group_of_pod,
            NODE: pod_indexes.node_of_pod,
            **_BY_OWNER,
            NAMESPACE: _namespace,
        },
    )
    claims = _Shared(
        kinds.RESOURCE_CLAIM,
        ResourceClaim,
        {OWNER: owner_references.controller_uids, NAMESPACE: _namespace, POOL: pools_of},
    )
    claim_templates = _Shared(kinds.RESOURCE_CLAIM_TEMPLATE, ClaimTemplate)
    pod_groups = _Shared(
        kinds.POD_GROUP, PodGroup, {CLAIM: pod_claims.group_claims, TEMPLATE: _templates}
    )
    slices = _Shared(kinds.RESOURCE_SLICE, ResourceSlice, {POOL: _pool_of_slice})
    tainted_slices = _Shared(kinds.RESOURCE_SLICE, TaintedSlice, {POOL: _pool_of_slice})
    device_classes = _Shared(kinds.DEVICE_CLASS, DeviceClass)
    taint_rules = _Shared(kinds.DEVICE_TAINT_RULE, DeviceTaintRule)
    pool_status_requests = _Shared(kinds.RESOURCE_POOL_STATUS_REQUEST, ResourcePoolStatusRequest)
    nodes = _Shared(kinds.NODE, Node)
    leases = _Shared(kinds.LEASE, Lease)
    namespaces = _Shared(kinds.NAMESPACE, Namespace)
    quotas = _Shared(kinds.RESOURCE_QUOTA, ResourceQuota, {NAMESPACE: _namespace})
    budgets = _Shared(kinds.POD_DISRUPTION_BUDGET, PodDisruptionBudget, {NAMESPACE: _namespace})
    deployments = _Shared(kinds.DEPLOYMENT, Deployment, {NAMESPACE: _namespace})
    replica_sets = _Shared(kinds.REPLICA_SET, ReplicaSet, {**_BY_OWNER, NAMESPACE: _namespace})
    replication_controllers = _Shared(
        kinds.REPLICATION_CONTROLLER, ReplicationController, {**_BY_OWNER, NAMESPACE: _namespace}
    )
    services = _Shared(kinds.SERVICE, Service, {NAMESPACE: _namespace})
    volume_claims = _Shared(
        kinds.PERSISTENT_VOLUME_CLAIM, PersistentVolumeClaim, {NAMESPACE: _namespace}
    )
    stateful_sets = _Shared(kinds.STATEFUL_SET, StatefulSet, {NAMESPACE: _namespace})
    daemon_sets = _Shared(kinds.DAEMON_SET, DaemonSet, {NAMESPACE: _namespace})
    controller_revisions = _Shared(kinds.CONTROLLER_REVISION, ControllerRevision, _BY_OWNER)
    cron_jobs = _Shared(kinds.CRON_JOB, CronJob, {NAMESPACE: _namespace})
    jobs = _Shared(kinds.JOB, Job, {**_BY_OWNER, NAMESPACE: _namespace})
    policies = _Shared(kinds.VALIDATING_ADMISSION_POLICY, ValidatingAdmissionPolicy)

    def __init__(self, client: Client) -> None:
        self._client = client
        self._caches: dict[tuple[str, str, type], Cache[Any]] = {}
        self._optional: set[Cache[Any]] = set()

    def of(self, kind: Kind) -> Cache[Any]:
        """Return the cache of any kind, with the metadata at least.

        Call it after the loops that need more fields have been created. Other loops do not
        wait for this cache: a kind that cannot be listed stops none of them.
        """
        for (group, plural, _), cached in self._caches.items():
            if (group, plural) == (kind.group, kind.plural):
                return cached
        cache = self.get(kind, HasMetadata)
        self._optional.add(cache)
        return cache

    def get(
        self, kind: Kind, type_: type[T], indexes: Mapping[str, IndexFunction[T]] | None = None
    ) -> Cache[T]:
        """Return the cache of a kind with the fields of a type, created if there is none."""
        key = (kind.group, kind.plural, type_)
        cache = self._caches.get(key)
        if cache is None:
            cache = self._caches[key] = Cache(self._client, kind, type_, indexes=indexes)
        return cache

    async def run(self) -> None:
        """Keep all caches current until cancelled."""
        async with asyncio.TaskGroup() as group:
            for (_, plural, _), cache in self._caches.items():
                name = f"cache-{plural}"
                group.create_task(supervision.run_forever(name, cache.run), name=name)

    async def synced(self) -> None:
        """Wait until every cache that a loop depends on is complete."""
        for cache in self._caches.values():
            if cache not in self._optional:
                await cache.synced.wait()


def is_gone(cache: Cache[Any], key: ObjectKey) -> bool:
    """Return whether the object was deleted. An object that cannot be decoded still exists."""
    return cache.get(key.name, key.namespace) is None and key not in cache.undecodable
