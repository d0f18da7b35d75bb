"""Removes reservations with their consumers, and allocations with the last reservation.

A claim that was created for a pod is deleted when that pod is done. A reservation is removed only
if the consumer is certainly over: it is not enough that the cache does not have it, the API server
must confirm that.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import msgspec

from dray.api import errors, kinds
from dray.api.kinds import Kind
from dray.api.semantics import owner_references, pod_claims, pod_status
from dray.api.semantics.pod_claims import ConsumerReference
from dray.api.types.dra import ResourceClaim
from dray.api.types.meta import ObjectMeta
from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup
from dray.api.well_known import CLAIM_FINALIZER
from dray.client import object_writes
from dray.client.api_client import Client
from dray.client.cache import Cache

MAX_GONE_USERS = 10_000


class GoneUsers:
    """The uids of the most recent consumers that were deleted."""

    def __init__(self, limit: int = MAX_GONE_USERS) -> None:
        self._limit = limit
        self._uids: OrderedDict[str, None] = OrderedDict()

    def add(self, uid: str) -> None:
        self._uids[uid] = None
        while len(self._uids) > self._limit:
            self._uids.popitem(last=False)

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids


class Releaser:
    """Releases unused claims. `groups` is None where PodGroups cannot hold claims."""

    def __init__(
        self, client: Client, pods: Cache[Pod], groups: Cache[PodGroup] | None, gone: GoneUsers
    ) -> None:
        self._client = client
        self._pods, self._groups = pods, groups
        self._gone = gone

    async def release(self, claim: ResourceClaim) -> None:
        reserved = claim.status.reserved_for
        remaining = [user for user in reserved if await self._still_uses(claim, user)]
        if len(remaining) < len(reserved):
            await self._drop_reservations(claim, remaining)
        elif not remaining and claim.metadata.deletion_timestamp and _is_protected(claim):
            await self._remove_protection(claim)
        if not remaining:
            await self._delete_if_useless(claim)

    async def _still_uses(self, claim: ResourceClaim, consumer: ConsumerReference) -> bool:
        """Return whether a reservation must stay. Consumers of unknown kinds keep theirs."""
        if pod_claims.is_pod(consumer):
            cache: Cache[Pod] | Cache[PodGroup] = self._pods
            kind = kinds.POD
        elif pod_claims.is_group(consumer) and self._groups is not None:
            cache, kind = self._groups, kinds.POD_GROUP
        else:
            return True
        if consumer.uid in self._gone:
            return False
        namespace = claim.metadata.namespace
        user = cache.get(consumer.name, namespace)
        if user is None:
            # Not seen yet, or gone. A pod that is just being scheduled must not lose its devices.
            return await self._server_has(kind, consumer, namespace)
        if user.metadata.uid != consumer.uid:
            return False
        return not (isinstance(user, Pod) and pod_status.is_done(user))

    async def _server_has(self, kind: Kind, consumer: ConsumerReference, namespace: str) -> bool:
        try:
            live = await self._client.get(kind, consumer.name, namespace)
        except errors.NotFound:
            return False
        return bool(live["metadata"]["uid"] == consumer.uid)

    async def _drop_reservations(
        self, claim: ResourceClaim, remaining: list[ConsumerReference]
    ) -> None:
        """Remove reservations, and the allocation with the last one.

        Without an allocation the next consumer is not tied to the same node.
        """
        change: dict[str, Any] = {"reservedFor": consumers(remaining) or None}
        deallocates = not remaining and _is_protected(claim)
        if deallocates:
            change["allocation"] = None
        metadata = await write_status(self._client, claim, change)
        if deallocates:
            await self._remove_finalizer(metadata)

    async def _remove_protection(self, claim: ResourceClaim) -> None:
        """A deleted claim that nobody uses: nothing keeps it any longer."""
        metadata = claim.metadata
        if claim.status.allocation is not None:
            metadata = await write_status(self._client, claim, {"allocation": None})
        await self._remove_finalizer(metadata)

    async def _remove_finalizer(self, metadata: ObjectMeta) -> None:
        await object_writes.remove_finalizer(
            self._client, kinds.RESOURCE_CLAIM, metadata, CLAIM_FINALIZER
        )

    async def _delete_if_useless(self, claim: ResourceClaim) -> None:
        """Delete a claim that was created for a pod that is done, even if the pod object stays."""
        owner = owner_references.controlled_by(claim.metadata, kinds.POD)
        if owner is None or claim.metadata.deletion_timestamp:
            return
        pod = self._pods.get(owner.name, claim.metadata.namespace)
        if pod is None:
            # Perhaps not seen yet; if we did not see it go, the garbage collector finds out.
            is_useless = owner.uid in self._gone
        else:
            is_useless = pod.metadata.uid != owner.uid or pod_status.is_done(pod)
        if is_useless:
            with contextlib.suppress(errors.NotFound):
                await object_writes.delete(self._client, kinds.RESOURCE_CLAIM, claim.metadata)


async def write_status(client: Client, claim: ResourceClaim, change: dict[str, Any]) -> ObjectMeta:
    """Patch the status of the claim as it was read. Raises Conflict if it changed since.

    Returns the metadata of the claim with its new version.
    """
    written = await object_writes.patch_status(
        client, kinds.RESOURCE_CLAIM, claim.metadata, change, at_version=True
    )
    version = written["metadata"]["resourceVersion"]
    return msgspec.structs.replace(claim.metadata, resource_version=version)


def consumers(references: Iterable[ConsumerReference]) -> list[Any]:
    """Return reservedFor as JSON."""
    return [msgspec.to_builtins(reference) for reference in references]


def _is_protected(claim: ResourceClaim) -> bool:
    return CLAIM_FINALIZER in claim.metadata.finalizers
