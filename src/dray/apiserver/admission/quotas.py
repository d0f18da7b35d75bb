"""ResourceQuota: an object is stored together with its charge, or not at all.

As apiserver, admission/plugin/resourcequota. The charged quota is written in the transaction that
stores the object, under the guard of the revision it was read at; so no number of creates at once
can exceed it. A delete releases its charge in the same way; all other changes of usage (a pod that
ends) are left to the quota controller, which counts again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

from dray.api import kinds, well_known
from dray.api.admission import quota_charges
from dray.api.admission.quota_charges import Charge
from dray.api.semantics import deletion, pod_resources
from dray.api.semantics import quota as counting
from dray.api.semantics.pod_resources import Amounts
from dray.api.types.core import PersistentVolumeClaim, ResourceQuota, Service
from dray.api.types.dra import DeviceClass, ResourceClaim
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import AdmissionRequest, AdmissionRule
from dray.apiserver.request.call import Clock
from dray.apiserver.storage import codec, store_keys
from dray.apiserver.storage.lookup import Found, Lookup, Reader
from dray.store.store import Put, Store

_PODS, _CLAIMS, _QUOTAS = kinds.POD, kinds.RESOURCE_CLAIM, kinds.RESOURCE_QUOTA
_SERVICES, _VOLUME_CLAIMS = kinds.SERVICE, kinds.PERSISTENT_VOLUME_CLAIM

_QUOTA_GVK = store_keys.storage_gvk(kinds.RESOURCE_QUOTA)
_EXTENDED = well_known.EXTENDED_RESOURCE_CLAIM_ANNOTATION


class Quotas(AdmissionRule):
    def __init__(self, store: Store, now: Clock) -> None:
        self._store = store
        self._now = now
        self._quotas = Lookup(store, kinds.RESOURCE_QUOTA, ResourceQuota)
        self._classes = Lookup(store, kinds.DEVICE_CLASS, DeviceClass)
        self._pods = Lookup(store, _PODS, Pod)
        self._pod_reader = Reader(Pod)
        self._claim_reader = Reader(ResourceClaim)
        self._service_reader = Reader(Service)
        self._volume_claim_reader = Reader(PersistentVolumeClaim)
        self._queues: dict[str, asyncio.Lock] = {}
        """By namespace, for namespaces that had quotas when last read."""

    def commit_lock(
        self, admission: AdmissionRequest
    ) -> contextlib.AbstractAsyncContextManager[None]:
        """Serialize the creates in a namespace with quotas on this server.

        Charges are guarded anyway: the first create after a quota appears may lose a race, and
        takes the lock for its next attempt.
        """
        queue = self._queues.get(admission.namespace)
        return admission_chain.NO_LOCK if queue is None or not _is_counted(admission) else queue

    async def validate(
        self, admission: AdmissionRequest
    ) -> admission_chain.CommitRequirements | None:
        if not _is_counted(admission):
            return None
        quotas = [
            quota
            for quota in await self._quotas.all(admission.namespace)
            # A quota that counts quotas is not updated in the transaction that deletes it.
            if not (admission.kind is _QUOTAS and quota.value.metadata.name == admission.name)
        ]
        if not quotas:
            self._queues.pop(admission.namespace, None)
            return None
        self._queues.setdefault(admission.namespace, asyncio.Lock())
        change = self._release if _is_removed(admission) else self._charge
        operations = await change(admission, quotas)
        return None if admission.dry_run else admission_chain.CommitRequirements(operations)

    async def _charge(
        self, admission: AdmissionRequest, quotas: Sequence[Found[ResourceQuota]]
    ) -> tuple[Put, ...]:
        charge = await self._charged(admission, admission.document)
        before = await self._charged(admission, admission.old) if admission.old else None
        puts = []
        with admission.forbids():
            for quota in quotas:
                if used := quota_charges.usage_with(quota.value, charge, before):
                    puts.append(_put(quota, used))
        return tuple(puts)

    async def _release(
        self, admission: AdmissionRequest, quotas: Sequence[Found[ResourceQuota]]
    ) -> tuple[Put, ...]:
        charged = await self._charged(admission, admission.old or {})
        puts = []
        for quota in quotas:
            used = pod_resources.parse_amounts(quota.value.status.used)
            freed = {
                name: quota_charges.difference({name: used[name]}, {name: amount})[name]
                for name, amount in charged.amounts.items()
                if name in used and used[name].sign() > 0 and amount.sign() > 0
            }
            if freed and charged.concerns(quota.value):
                puts.append(_put(quota, freed))
        return tuple(puts)

    async def _charged(self, admission: AdmissionRequest, document: JsonObject) -> Charge:
        if admission.kind is _PODS:
            return quota_charges.of_pod(self._pod_reader.convert(document), self._now())
        if admission.kind is _CLAIMS:
            return await self._charged_claim(document)
        if admission.kind is _SERVICES:
            amounts = counting.service_charges(self._service_reader.convert(document))
            return quota_charges.unscoped(amounts, counting.concerns_services)
        if admission.kind is _VOLUME_CLAIMS:
            amounts = counting.volume_claim_charges(self._volume_claim_reader.convert(document))
            return quota_charges.unscoped(amounts, counting.concerns_volume_claims)
        amounts = counting.object_charges(store_keys.group_resource(admission.kind))
        return quota_charges.unscoped(amounts, amounts.__contains__)

    async def _charged_claim(self, document: JsonObject) -> Charge:
        claim = self._claim_reader.convert(document)
        extended = {
            stored.value.metadata.name: stored.value.spec.extended_resource_name
            for stored in await self._classes.all()
            if stored.value.spec.extended_resource_name
        }
        return quota_charges.of_claim(claim, extended, await self._pod_charges(claim))

    async def _pod_charges(self, claim: ResourceClaim) -> Amounts | None:
        """Return the charge of the pod whose extended resources the claim is for."""
        if claim.metadata.annotations.get(_EXTENDED) != "true":
            return None
        owners = [owner.name for owner in claim.metadata.owner_references if owner.controller]
        pod = await self._pods.get(owners[0], claim.metadata.namespace) if owners else None
        if pod is None:
            return None
        if not counting.is_extended_claim_of(claim, pod, await self._claims_for(pod)):
            return None
        return counting.pod_charges(pod, self._now())

    async def _claims_for(self, pod: Pod) -> list[ResourceClaim]:
        with store_keys.translated():
            page = await self._store.list(store_keys.prefix(_CLAIMS, pod.metadata.namespace))
        marked = [entry for entry in page.entries if _EXTENDED.encode() in entry.value]
        claims = map(self._claim_reader.read, marked)
        return [claim for claim in claims if _is_owned_by(pod.metadata.uid, claim)]


def _is_owned_by(uid: str, claim: ResourceClaim) -> bool:
    return any(owner.uid == uid for owner in claim.metadata.owner_references)


def _is_counted(admission: AdmissionRequest) -> bool:
    """Return whether a change affects usage: a create, a delete, some updates.

    These are a pod that enters a scope, a Service of another type or with other ports, and a claim
    that asks for more storage.
    """
    if admission.subresource or not admission.namespace or admission.kind.kind == "Event":
        return False
    if admission.is_create or _is_removed(admission):
        return True
    if admission.kind in (_SERVICES, _VOLUME_CLAIMS):
        return (admission.new or {}).get("spec") != (admission.old or {}).get("spec")
    return admission.kind is _PODS and _deadline(admission.new) != _deadline(admission.old)


def _is_removed(admission: AdmissionRequest) -> bool:
    if admission.is_create:
        return False
    return admission.new is None or deletion.is_fully_deleted(admission.new)


def _deadline(pod: JsonObject | None) -> Any:
    return ((pod or {}).get("spec") or {}).get("activeDeadlineSeconds")


def _put(quota: Found[ResourceQuota], used: Amounts) -> Put:
    document = codec.from_stored(quota.entry, _QUOTA_GVK)
    written = document.setdefault("status", {}).setdefault("used", {})
    written.update((name, str(amount)) for name, amount in used.items())
    return Put(quota.entry.key, codec.to_stored(document), quota.entry.revision)
