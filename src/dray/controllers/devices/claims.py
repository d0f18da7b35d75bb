"""Claims follow their consumers: created from templates, reserved while in use, then released.

Behaviour of pkg/controller/resourceclaim, with one intended difference: a pod that has ended gets
no claim and no reservation again. Upstream deletes and creates the claims of such pods for ever.

A claim or pod that cannot be decoded is never treated as deleted: nothing is released because of
it.
"""

from __future__ import annotations

import enum
import logging
from typing import NamedTuple

import msgspec

from dray.api import errors, kinds
from dray.api.ids import ObjectKey
from dray.api.semantics import owner_references, pod_claims, pod_status
from dray.api.semantics.pod_claims import ClaimSource
from dray.api.templates.claim_bodies import CannotGenerate, Owner
from dray.api.templates.workload_types import ClaimTemplate
from dray.api.types.dra import ResourceClaim
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod, PodResourceClaim
from dray.api.types.workloads import PodGroup
from dray.client import events, object_writes
from dray.client.cache import ObjectChange
from dray.controllers import caches
from dray.controllers.devices import claim_release
from dray.controllers.devices.claim_generation import Generator
from dray.controllers.devices.claim_release import GoneUsers, Releaser
from dray.controllers.loops import Context, Loop
from dray.controllers.own_writes import UNSEEN_RETRY_SECONDS, OwnWrites

log = logging.getLogger(__name__)

COMPONENT = "resource_claim"
CREATION_FAILED = "FailedResourceClaimCreation"


class ClaimSubject(enum.Enum):
    POD = "pod"
    POD_GROUP = "podgroup"
    CLAIM = "claim"


class ClaimWork(NamedTuple):
    subject: ClaimSubject
    key: ObjectKey

    def __str__(self) -> str:
        return f"{self.subject.value} {self.key}"


class Claims(Loop[ClaimWork]):
    def __init__(self, context: Context) -> None:
        # More workers would make claims in fewer syncs of the disk, at the cost of the clients that
        # create pods at the same time: 32 cost them 40 % of their rate, and bind no pod sooner.
        super().__init__("claims", context, workers=16)
        features, shared = context.features, context.caches
        self._groups_matter = features.generic_workload
        self._group_claims = features.workload_resource_claims
        self._pods, self._claims = shared.pods, shared.claims
        self._templates = shared.claim_templates
        self._groups = shared.pod_groups if self._groups_matter else None
        self._generator = Generator(context.client, shared, features)
        self._recorder = context.recorder(COMPONENT)
        self._claim_writes: OwnWrites[ClaimWork] = OwnWrites(self._claims)
        self._pod_writes: OwnWrites[ClaimWork] = OwnWrites(self._pods)
        self._gone = GoneUsers()
        holders = self._groups if self._group_claims else None
        self._releaser = Releaser(context.client, self._pods, holders, self._gone)
        self.follow(self._pods, self._pod_changed)
        self.follow(self._claims, self._claim_changed)
        self.follow(self._templates, self._template_changed)
        if self._groups is not None:
            self.follow(self._groups, self._group_changed)

    def resync(self) -> None:
        for claim in self._claims:
            self._add(ClaimSubject.CLAIM, claim.metadata.key)
        for pod in self._pods:
            if pod.spec.resource_claims:
                self._add(ClaimSubject.POD, pod.metadata.key)
        for group in self._groups or ():
            self._add(ClaimSubject.POD_GROUP, group.metadata.key)

    def _add(self, subject: ClaimSubject, key: ObjectKey) -> None:
        self.queue.add(ClaimWork(subject, key))

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        pod = change.new or change.old
        if pod is None or not (
            pod.spec.resource_claims or pod.status.extended_resource_claim_status
        ):
            return
        if change.new is None:
            if not caches.is_gone(self._pods, change.key):
                return
            self._gone.add(pod.metadata.uid)
        elif change.old is not None and change.old.metadata.uid != pod.metadata.uid:
            self._gone.add(change.old.metadata.uid)
            self._release(change.old)
        if change.new is None or pod_status.is_done(pod):
            self._release(pod)
        elif not pod_status.is_deleted(pod) and _uses_otherwise(change.old, pod):
            self._add(ClaimSubject.POD, change.key)

    def _release(self, pod: Pod) -> None:
        """Queue every claim that the pod used or that was created for it."""
        owned = (claim.metadata.key for claim in self._claims.find(caches.OWNER, pod.metadata.uid))
        for key in {*pod_claims.used_claims(pod), *owned}:
            self._add(ClaimSubject.CLAIM, ObjectKey(*key))

    def _claim_changed(self, change: ObjectChange[ResourceClaim]) -> None:
        if _is_as_used(change.old, change.new):
            return
        if change.new is not None:
            self._add(ClaimSubject.CLAIM, change.key)
        self._add_users(caches.CLAIM, change.key)

    def _template_changed(self, change: ObjectChange[ClaimTemplate]) -> None:
        if change.new is not None:
            self._add_users(caches.TEMPLATE, change.key)

    def _add_users(self, index: str, key: ObjectKey) -> None:
        """Queue the pods and PodGroups that use a claim or template."""
        self._add_pods(index, key)
        for group in self._groups.find(index, key) if self._groups is not None else ():
            self._add(ClaimSubject.POD_GROUP, group.metadata.key)

    def _add_pods(self, index: str, key: ObjectKey) -> None:
        for pod in self._pods.find(index, key):
            if pod_status.is_active(pod):
                self._add(ClaimSubject.POD, pod.metadata.key)

    def _group_changed(self, change: ObjectChange[PodGroup]) -> None:
        group = change.new or change.old
        assert group is not None
        assert self._groups is not None
        if change.new is not None:
            self._add(ClaimSubject.POD_GROUP, change.key)
        elif caches.is_gone(self._groups, change.key):
            self._gone.add(group.metadata.uid)
            for key in pod_claims.group_claims(group):
                self._add(ClaimSubject.CLAIM, ObjectKey(*key))
        self._add_pods(caches.GROUP, change.key)

    async def reconcile(self, key: ClaimWork) -> float | None:
        match key.subject:
            case ClaimSubject.POD:
                return await self._reconcile_pod(key)
            case ClaimSubject.POD_GROUP:
                return await self._reconcile_group(key)
            case ClaimSubject.CLAIM:
                await self._reconcile_claim(key.key)
        return None

    async def _reconcile_pod(self, work: ClaimWork) -> float | None:
        pod = self._pods.get(work.key.name, work.key.namespace)
        if pod is None or not pod_status.is_active(pod):
            self._claim_writes.forget(work)
            self._pod_writes.forget(work)
            return None
        if not (self._claim_writes.are_seen(work) and self._pod_writes.are_seen(work)):
            return UNSEEN_RETRY_SECONDS
        name = pod_claims.group_name(pod)
        if name and not self._groups_matter:
            self._report_gate(pod, name)
            return None
        group = self._group(pod)
        if name and group is None:
            return None
        try:
            created = await self._ensure_claims(work, pod, group)
        except CannotGenerate:
            return None
        if created:
            await self._record_in_pod(work, pod, created)
        elif pod.spec.node_name:
            await self._reserve_all(pod, group)
        return None

    def _group(self, pod: Pod) -> PodGroup | None:
        name = pod_claims.group_name(pod)
        if not name or self._groups is None:
            return None
        return self._groups.get(name, pod.metadata.namespace)

    async def _ensure_claims(
        self, work: ClaimWork, pod: Pod, group: PodGroup | None
    ) -> dict[str, str]:
        """Create missing claims. Returns those that the status does not name yet."""
        created: dict[str, str] = {}
        owner = Owner(kinds.POD, pod)
        for source in pod.spec.resource_claims:
            if await self._is_provided(owner, source):
                continue
            name = await self._claim_for_pod(work, pod, group, source)
            if name:
                created[source.name] = name
        return created

    async def _claim_for_pod(
        self, work: ClaimWork, pod: Pod, group: PodGroup | None, source: PodResourceClaim
    ) -> str:
        if not pod_claims.is_group(pod_claims.consumer(pod, group, source)):
            return await self._obtain(work, Owner(kinds.POD, pod), source)
        assert group is not None
        if not self._group_claims:
            return ""
        claim = await self._generator.find(Owner(kinds.POD_GROUP, group), source)
        return claim.metadata.name if claim else ""

    async def _is_provided(self, owner: Owner, source: ClaimSource) -> bool:
        """Return whether no claim has to be created for an entry.

        That is so for a claim of the user, where none is needed, and where it exists
        already.
        """
        if source.resource_claim_name is not None:
            return True
        recorded = pod_claims.claim_of(owner.user, source)
        if not recorded.is_made:
            return False
        return recorded.name is None or await self._exists(owner, recorded.name)

    async def _exists(self, owner: Owner, name: str) -> bool:
        """Return whether the claim that the status names exists and belongs to its owner."""
        namespace = owner.metadata.namespace
        claim = self._claims.get(name, namespace)
        if claim is None:
            try:
                raw = await self.client.get(kinds.RESOURCE_CLAIM, name, namespace)
            except errors.NotFound:
                return False
            claim = msgspec.convert({"metadata": raw["metadata"]}, ResourceClaim)
        if isinstance(owner.user, Pod):
            return pod_claims.is_for_pod(claim, owner.user, self._group_claims)
        controller = owner_references.controller_of(claim.metadata)
        return controller is not None and controller.uid == owner.metadata.uid

    async def _obtain(self, work: ClaimWork, owner: Owner, source: ClaimSource) -> str:
        """Return the name of the claim of a template, created now or earlier."""
        claim = await self._generator.find(owner, source)
        if claim is not None:
            return claim.metadata.name
        try:
            created = await self._generator.create(owner, source)
        except CannotGenerate as error:
            self._report(owner, source, str(error))
            raise
        except errors.StatusError as error:
            self._report(owner, source, f"create ResourceClaim : {error}")
            raise
        self._claim_writes.record(work, created)
        name: str = created["metadata"]["name"]
        return name

    def _report_gate(self, pod: Pod, group: str) -> None:
        """Report a pod of a PodGroup, whose claims are not created without the feature gate."""
        note = (
            f"pod is in PodGroup {group}, but the feature gate GenericWorkload is off; turn it on "
            "in the API server, the controllers and the scheduler "
            "(--feature-gates GenericWorkload=true)"
        )
        log.warning("pod %s: %s", pod.metadata.key, note)
        about = events.reference(kinds.POD, pod.metadata)
        self._recorder.record(about, events.WARNING, CREATION_FAILED, note, replace=True)

    def _report(self, owner: Owner, source: ClaimSource, reason: str) -> None:
        field = "PodResourceClaim" if owner.kind is kinds.POD else "PodGroupResourceClaim"
        self._recorder.record(
            events.reference(owner.kind, owner.metadata),
            events.WARNING,
            CREATION_FAILED,
            f"{field} {source.name}: {reason}",
            # The rejection names the claim, which gets a new random name at every attempt.
            replace=True,
        )

    async def _record_in_pod(self, work: ClaimWork, pod: Pod, created: dict[str, str]) -> None:
        self._pod_writes.record(work, await self._write_statuses(Owner(kinds.POD, pod), created))

    async def _write_statuses(self, owner: Owner, created: dict[str, str]) -> JsonObject:
        status = {"resourceClaimStatuses": _claim_statuses(owner.user, created)}
        return await object_writes.patch_status(
            self.client, owner.kind, owner.metadata, status, at_version=True
        )

    async def _reserve_all(self, pod: Pod, group: PodGroup | None) -> None:
        """Reserve the claims of a pod that got its node without the scheduler."""
        for source in pod.spec.resource_claims:
            name = pod_claims.claim_of(pod, source).name
            claim = self._claims.get(name, pod.metadata.namespace) if name else None
            if claim is None or claim.status.allocation is None:
                continue
            if pod_claims.is_reserved_for(claim, pod, self._group_claims):
                continue
            is_generated = source.resource_claim_name is None
            if is_generated and not pod_claims.is_for_pod(claim, pod, self._group_claims):
                continue
            consumer = pod_claims.consumer(pod, group, source)
            if self._group_claims or not pod_claims.is_group(consumer):
                reserved = claim_release.consumers((*claim.status.reserved_for, consumer))
                await claim_release.write_status(self.client, claim, {"reservedFor": reserved})

    async def _reconcile_group(self, work: ClaimWork) -> float | None:
        group = self._groups.get(work.key.name, work.key.namespace) if self._groups else None
        if group is None or group.metadata.deletion_timestamp or not self._group_claims:
            self._claim_writes.forget(work)
            return None
        if not self._claim_writes.are_seen(work):
            return UNSEEN_RETRY_SECONDS
        owner, created = Owner(kinds.POD_GROUP, group), {}
        try:
            for source in group.spec.resource_claims:
                if not await self._is_provided(owner, source):
                    created[source.name] = await self._obtain(work, owner, source)
        except CannotGenerate:
            return None
        if created:
            await self._write_statuses(owner, created)
        return None

    async def _reconcile_claim(self, key: ObjectKey) -> None:
        claim = self._claims.get(key.name, key.namespace)
        if claim is not None:
            await self._releaser.release(claim)


def _uses_otherwise(old: Pod | None, new: Pod) -> bool:
    """Return whether a change of a pod could change what its claims need."""
    return (
        old is None
        or old.metadata.uid != new.metadata.uid
        or old.spec.node_name != new.spec.node_name
        or old.status.resource_claim_statuses != new.status.resource_claim_statuses
        or pod_status.is_active(old) != pod_status.is_active(new)
    )


def _is_as_used(old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
    """Return whether nothing changed that concerns the consumers of a claim."""
    if old is None or new is None:
        return False
    before, after = old.metadata, new.metadata
    return (
        before.uid == after.uid
        and before.deletion_timestamp == after.deletion_timestamp
        and (after.deletion_timestamp is None or before.finalizers == after.finalizers)
        and before.owner_references == after.owner_references
        and old.status == new.status
    )


def _claim_statuses(user: Pod | PodGroup, created: dict[str, str]) -> list[dict[str, str]]:
    """Return the statuses of the claims, those of generated claims added."""
    recorded = user.status.resource_claim_statuses
    names = {status.name: status.resource_claim_name for status in recorded} | created
    return [
        {"name": name, "resourceClaimName": claim} if claim else {"name": name}
        for name, claim in sorted(names.items())
    ]
