"""Counts the usage of a namespace, and writes it into its ResourceQuotas.

Behaviour of pkg/controller/resourcequota. The API server itself adds the usage of new objects. So a
count above the recorded one is written at once, and a lower one only if it is the same a moment
later: until then the caches may be behind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec

from dray.api import errors, kinds, well_known
from dray.api.formats import quantity
from dray.api.ids import GroupResource, ObjectKey
from dray.api.semantics import owner_references, pod_resources
from dray.api.semantics import quota as counting
from dray.api.semantics.pod_resources import Amounts
from dray.api.types.core import ResourceQuota, ResourceQuotaStatus
from dray.api.types.dra import ResourceClaim
from dray.client.cache import ObjectChange
from dray.controllers import caches, status_patches
from dray.controllers.loops import Context, ObjectLoop

SETTLE_SECONDS = 0.5
_COUNTED_IN_DETAIL = (
    kinds.POD,
    kinds.RESOURCE_CLAIM,
    kinds.SERVICE,
    kinds.PERSISTENT_VOLUME_CLAIM,
)


class QuotaLoop(ObjectLoop):
    def __init__(self, context: Context) -> None:
        super().__init__("quotas", context, context.caches.quotas, workers=1)
        shared = context.caches
        self._quotas, self._pods, self._claims = shared.quotas, shared.pods, shared.claims
        self._classes = shared.device_classes
        self._services, self._volume_claims = shared.services, shared.volume_claims
        self._others = {
            GroupResource(kind.group, kind.plural): shared.of(kind)
            for kind in context.served
            if kind.namespaced and kind.kind != "Event" and kind not in _COUNTED_IN_DETAIL
        }
        self._lower: dict[ObjectKey, ResourceQuotaStatus] = {}
        self.follow(self._pods, self._content_changed)
        self.follow(self._claims, self._content_changed)
        self.follow(self._services, self._content_changed)
        self.follow(self._volume_claims, self._content_changed)
        for cache in self._others.values():
            self.follow(cache, self._content_changed)
        self.follow(self._classes, lambda _: self.resync())

    async def synced(self) -> None:
        await super().synced()
        for cache in self._others.values():
            await cache.synced.wait()

    def _content_changed(self, change: ObjectChange[Any]) -> None:
        for quota in self._quotas.find(caches.NAMESPACE, change.key.namespace):
            self.queue.add(quota.metadata.key)

    async def reconcile(self, key: ObjectKey) -> float | None:
        quota = self._quotas.get(key.name, key.namespace)
        if quota is None or quota.metadata.deletion_timestamp:
            self._lower.pop(key, None)
            return None
        status = self._count(quota)
        if _is_lower(quota.status, status) and self._lower.get(key) != status:
            self._lower[key] = status
            return SETTLE_SECONDS
        self._lower.pop(key, None)
        with contextlib.suppress(errors.NotFound):
            await status_patches.patch_status(
                self.client, kinds.RESOURCE_QUOTA, quota.metadata, quota.status, status
            )
        return None

    def _count(self, quota: ResourceQuota) -> ResourceQuotaStatus:
        hard = quota.spec.hard
        counted = msgspec.structs.replace(quota, status=ResourceQuotaStatus(hard=hard))
        used: Amounts = dict.fromkeys(hard, quantity.ZERO)
        for charges in self._charges(counted):
            pod_resources.add(used, {name: charges[name] for name in charges if name in hard})
        return ResourceQuotaStatus(
            hard=hard, used={name: str(amount) for name, amount in used.items()}
        )

    def _charges(self, quota: ResourceQuota) -> Iterator[Amounts]:
        """Yield the usage of each object that the quota counts; scopes concern pods only."""
        namespace = quota.metadata.namespace
        for pod in self._pods.find(caches.NAMESPACE, namespace):
            if counting.concerns_pod(quota, pod):
                yield counting.pod_charges(pod, self.now())
        if quota.spec.scopes or quota.spec.scope_selector:
            return
        for claim in self._claims.find(caches.NAMESPACE, namespace):
            yield self._claim_charges(claim)
        for service in self._services.find(caches.NAMESPACE, namespace):
            yield counting.service_charges(service)
        for volume_claim in self._volume_claims.find(caches.NAMESPACE, namespace):
            yield counting.volume_claim_charges(volume_claim)
        for resource, cache in self._others.items():
            charges = counting.object_charges(resource)
            if not charges.keys().isdisjoint(quota.spec.hard):
                count = sum(item.metadata.namespace == namespace for item in cache)
                yield {name: quantity.of(count) for name in charges}

    def _claim_charges(self, claim: ResourceClaim) -> Amounts:
        extended = {
            device_class.metadata.name: device_class.spec.extended_resource_name
            for device_class in self._classes
            if device_class.spec.extended_resource_name
        }
        return counting.claim_charges(claim, extended, self._charged_by_pod(claim))

    def _charged_by_pod(self, claim: ResourceClaim) -> Amounts | None:
        """Return the usage that the pod of an extended resource claim accounts for, or None."""
        owner = owner_references.controlled_by(claim.metadata, kinds.POD)
        pod = self._pods.get(owner.name, claim.metadata.namespace) if owner else None
        if pod is None:
            return None
        siblings = [
            item
            for item in self._claims.find(caches.OWNER, pod.metadata.uid)
            if item.metadata.annotations.get(well_known.EXTENDED_RESOURCE_CLAIM_ANNOTATION)
            == "true"
        ]
        if not counting.is_extended_claim_of(claim, pod, siblings):
            return None
        return counting.pod_charges(pod, self.now())


def _is_lower(before: ResourceQuotaStatus, after: ResourceQuotaStatus) -> bool:
    return any(
        name in before.used and quantity.parse(amount) < quantity.parse(before.used[name])
        for name, amount in after.used.items()
    )
