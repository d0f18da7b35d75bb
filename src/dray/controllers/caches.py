"""The watched copies that the loops share: one per kind, made when the first loop asks for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar

from dray.api.claims import ResourceClaim
from dray.api.classes import DeviceClass
from dray.api.core import Lease, Namespace, ResourceQuota
from dray.api.kinds import Kind
from dray.api.nodes import Node
from dray.api.pods import Pod
from dray.api.poolstatus import ResourcePoolStatusRequest
from dray.api.slices import ResourceSlice
from dray.api.taints import DeviceTaintRule
from dray.api.workloads import PodGroup
from dray.client.cache import Cache, HasMetadata, IndexFunction, ObjectKey
from dray.client.verbs import Client
from dray.controllers import ownership, podclaims, resources
from dray.controllers.templated import (
    ClaimTemplate,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    StatefulSet,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

RESTART_SECONDS = 1.0

CLAIM, TEMPLATE, GROUP, NODE, OWNER, NAMESPACE = (
    "claim",
    "template",
    "group",
    "node",
    "owner",
    "namespace",
)
"""Names of indexes. Claims, templates and groups are filed under their `ObjectKey`."""


class Caches:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._by_kind: dict[Kind, Cache[Any]] = {}

    @property
    def pods(self) -> Cache[Pod]:
        return self._get(
            resources.POD,
            Pod,
            {
                CLAIM: podclaims.used_claims,
                TEMPLATE: podclaims.used_templates,
                GROUP: _group,
                NODE: _node,
                OWNER: ownership.controller_uids,
                NAMESPACE: _namespace,
            },
        )

    @property
    def claims(self) -> Cache[ResourceClaim]:
        indexes: Mapping[str, IndexFunction[ResourceClaim]] = {
            OWNER: ownership.controller_uids,
            NAMESPACE: _namespace,
        }
        return self._get(resources.CLAIM, ResourceClaim, indexes)

    @property
    def claim_templates(self) -> Cache[ClaimTemplate]:
        return self._get(resources.CLAIM_TEMPLATE, ClaimTemplate)

    @property
    def pod_groups(self) -> Cache[PodGroup]:
        indexes: Mapping[str, IndexFunction[PodGroup]] = {
            CLAIM: podclaims.group_claims,
            TEMPLATE: podclaims.group_templates,
        }
        return self._get(resources.POD_GROUP, PodGroup, indexes)

    @property
    def slices(self) -> Cache[ResourceSlice]:
        return self._get(resources.SLICE, ResourceSlice)

    @property
    def device_classes(self) -> Cache[DeviceClass]:
        return self._get(resources.DEVICE_CLASS, DeviceClass)

    @property
    def taint_rules(self) -> Cache[DeviceTaintRule]:
        return self._get(resources.TAINT_RULE, DeviceTaintRule)

    @property
    def pool_status_requests(self) -> Cache[ResourcePoolStatusRequest]:
        return self._get(resources.POOL_STATUS_REQUEST, ResourcePoolStatusRequest)

    @property
    def nodes(self) -> Cache[Node]:
        return self._get(resources.NODE, Node)

    @property
    def leases(self) -> Cache[Lease]:
        return self._get(resources.LEASE, Lease)

    @property
    def namespaces(self) -> Cache[Namespace]:
        return self._get(resources.NAMESPACE, Namespace)

    @property
    def quotas(self) -> Cache[ResourceQuota]:
        indexes: Mapping[str, IndexFunction[ResourceQuota]] = {NAMESPACE: _namespace}
        return self._get(resources.QUOTA, ResourceQuota, indexes)

    @property
    def deployments(self) -> Cache[Deployment]:
        return self._get(resources.DEPLOYMENT, Deployment)

    @property
    def replica_sets(self) -> Cache[ReplicaSet]:
        indexes: Mapping[str, IndexFunction[ReplicaSet]] = {
            OWNER: ownership.controller_uids,
            NAMESPACE: _namespace,
        }
        return self._get(resources.REPLICA_SET, ReplicaSet, indexes)

    @property
    def stateful_sets(self) -> Cache[StatefulSet]:
        return self._get(resources.STATEFUL_SET, StatefulSet)

    @property
    def daemon_sets(self) -> Cache[DaemonSet]:
        return self._get(resources.DAEMON_SET, DaemonSet)

    @property
    def jobs(self) -> Cache[Job]:
        return self._get(resources.JOB, Job)

    def of(self, kind: Kind) -> Cache[Any]:
        """The copy of any kind, of its metadata at least; ask after the loops that need more."""
        return self._get(kind, HasMetadata)

    def _get(
        self,
        kind: Kind,
        type_: type[T],
        indexes: Mapping[str, IndexFunction[T]] | None = None,
    ) -> Cache[T]:
        cache = self._by_kind.get(kind)
        if cache is None:
            cache = self._by_kind[kind] = Cache(self._client, kind, type_, indexes=indexes)
        return cache

    async def run(self) -> None:
        """Keep all copies current until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind, cache in self._by_kind.items():
                group.create_task(_keep(kind, cache), name=f"cache-{kind.plural}")

    async def synced(self) -> None:
        """Wait until every copy is complete."""
        for cache in self._by_kind.values():
            await cache.synced.wait()


async def _keep(kind: Kind, cache: Cache[Any]) -> None:
    while True:
        try:
            await cache.run()
        except Exception:
            log.exception("the copy of %s broke; it goes on", kind.plural)
            await asyncio.sleep(RESTART_SECONDS)


def is_gone(cache: Cache[Any], key: ObjectKey) -> bool:
    """Whether a key that has no object was deleted; one that cannot be read is still there."""
    return cache.get(key.name, key.namespace) is None and key not in cache.undecodable


def _group(pod: Pod) -> Iterable[Hashable]:
    group = pod.spec.scheduling_group
    if group is None or group.pod_group_name is None:
        return ()
    return (ObjectKey(pod.metadata.namespace, group.pod_group_name),)


def _node(pod: Pod) -> Iterable[Hashable]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def _namespace(value: Any) -> Iterable[Hashable]:
    return (value.metadata.namespace,)
