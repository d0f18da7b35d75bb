"""The watch caches that the loops share, each created when the first loop needs it.

There is one per kind, except where a loop needs far fewer fields than the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar

from dray import supervision
from dray.api import kinds
from dray.api.ids import ObjectKey, PoolId
from dray.api.kinds import Kind
from dray.api.semantics import owner_references, pod_claims
from dray.api.types.core import Lease, Namespace, PodDisruptionBudget, ResourceQuota
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
from dray.controllers.slim_types import (
    ClaimTemplate,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    StatefulSet,
    TaintedSlice,
)

log = logging.getLogger(__name__)

T = TypeVar("T")


CLAIM, TEMPLATE, GROUP = "claim", "template", "group"
"""Indexes of the consumers of a claim, template or group, by its `ObjectKey`."""
NODE, NAMESPACE = "node", "namespace"
POOL = "pool"
"""Index of the slices of a pool, and of the claims with devices of it, by `PoolId`."""
OWNER, ORPHAN = "owner", "orphan"
"""Indexes of controlled objects by the uid of the controller, of others by namespace."""


class Caches:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._caches: dict[tuple[str, str, type], Cache[Any]] = {}
        self._optional: set[Cache[Any]] = set()

    @property
    def pods(self) -> Cache[Pod]:
        return self._get(
            kinds.POD,
            Pod,
            {
                CLAIM: pod_claims.used_claims,
                TEMPLATE: _templates,
                GROUP: pod_indexes.group_of_pod,
                NODE: pod_indexes.node_of_pod,
                OWNER: owner_references.controller_uids,
                ORPHAN: _orphan,
                NAMESPACE: _namespace,
            },
        )

    @property
    def claims(self) -> Cache[ResourceClaim]:
        indexes: Mapping[str, IndexFunction[ResourceClaim]] = {
            OWNER: owner_references.controller_uids,
            NAMESPACE: _namespace,
            POOL: pools_of,
        }
        return self._get(kinds.RESOURCE_CLAIM, ResourceClaim, indexes)

    @property
    def claim_templates(self) -> Cache[ClaimTemplate]:
        return self._get(kinds.RESOURCE_CLAIM_TEMPLATE, ClaimTemplate)

    @property
    def pod_groups(self) -> Cache[PodGroup]:
        indexes: Mapping[str, IndexFunction[PodGroup]] = {
            CLAIM: pod_claims.group_claims,
            TEMPLATE: _templates,
        }
        return self._get(kinds.POD_GROUP, PodGroup, indexes)

    @property
    def slices(self) -> Cache[ResourceSlice]:
        return self._get(kinds.RESOURCE_SLICE, ResourceSlice, {POOL: _pool_of_slice})

    @property
    def tainted_slices(self) -> Cache[TaintedSlice]:
        return self._get(kinds.RESOURCE_SLICE, TaintedSlice, {POOL: _pool_of_slice})

    @property
    def device_classes(self) -> Cache[DeviceClass]:
        return self._get(kinds.DEVICE_CLASS, DeviceClass)

    @property
    def taint_rules(self) -> Cache[DeviceTaintRule]:
        return self._get(kinds.DEVICE_TAINT_RULE, DeviceTaintRule)

    @property
    def pool_status_requests(self) -> Cache[ResourcePoolStatusRequest]:
        return self._get(kinds.RESOURCE_POOL_STATUS_REQUEST, ResourcePoolStatusRequest)

    @property
    def nodes(self) -> Cache[Node]:
        return self._get(kinds.NODE, Node)

    @property
    def leases(self) -> Cache[Lease]:
        return self._get(kinds.LEASE, Lease)

    @property
    def namespaces(self) -> Cache[Namespace]:
        return self._get(kinds.NAMESPACE, Namespace)

    @property
    def quotas(self) -> Cache[ResourceQuota]:
        indexes: Mapping[str, IndexFunction[ResourceQuota]] = {NAMESPACE: _namespace}
        return self._get(kinds.RESOURCE_QUOTA, ResourceQuota, indexes)

    @property
    def budgets(self) -> Cache[PodDisruptionBudget]:
        return self._get(kinds.POD_DISRUPTION_BUDGET, PodDisruptionBudget, {NAMESPACE: _namespace})

    @property
    def deployments(self) -> Cache[Deployment]:
        return self._get(kinds.DEPLOYMENT, Deployment, {NAMESPACE: _namespace})

    @property
    def replica_sets(self) -> Cache[ReplicaSet]:
        indexes: Mapping[str, IndexFunction[ReplicaSet]] = {
            OWNER: owner_references.controller_uids,
            ORPHAN: _orphan,
            NAMESPACE: _namespace,
        }
        return self._get(kinds.REPLICA_SET, ReplicaSet, indexes)

    @property
    def stateful_sets(self) -> Cache[StatefulSet]:
        return self._get(kinds.STATEFUL_SET, StatefulSet, {NAMESPACE: _namespace})

    @property
    def daemon_sets(self) -> Cache[DaemonSet]:
        return self._get(kinds.DAEMON_SET, DaemonSet, {NAMESPACE: _namespace})

    @property
    def controller_revisions(self) -> Cache[ControllerRevision]:
        indexes: Mapping[str, IndexFunction[ControllerRevision]] = {
            OWNER: owner_references.controller_uids,
            ORPHAN: _orphan,
        }
        return self._get(kinds.CONTROLLER_REVISION, ControllerRevision, indexes)

    @property
    def jobs(self) -> Cache[Job]:
        return self._get(kinds.JOB, Job, {NAMESPACE: _namespace})

    def of(self, kind: Kind) -> Cache[Any]:
        """Return the cache of any kind, with the metadata at least.

        Call it after the loops that need more fields have been created. Other loops do not
        wait for this cache: a kind that cannot be listed stops none of them.
        """
        for (group, plural, _), cached in self._caches.items():
            if (group, plural) == (kind.group, kind.plural):
                return cached
        cache = self._get(kind, HasMetadata)
        self._optional.add(cache)
        return cache

    def _get(
        self,
        kind: Kind,
        type_: type[T],
        indexes: Mapping[str, IndexFunction[T]] | None = None,
    ) -> Cache[T]:
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


def pools_of(claim: ResourceClaim) -> set[PoolId]:
    """Return the pools of the devices that are allocated to a claim."""
    if claim.status.allocation is None:
        return set()
    results = claim.status.allocation.devices.results
    return {result.pool_id for result in results}


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
