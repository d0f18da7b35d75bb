"""Writes claims so that each write ends in a definite answer: it happened, or it did not.

Every write names the version it was made for. Only a rejection by the server (4xx) counts as "did
not". After a timeout or a server error the claim is read again, for as long as that takes, and its
content decides.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from dray.api import errors, kinds, well_known
from dray.api.conversion import canonical
from dray.api.features import Features
from dray.api.formats import gotime
from dray.api.ids import ClaimKey
from dray.api.semantics import owner_references, pod_claims
from dray.api.types.dra import ResourceClaim
from dray.api.types.meta import JsonObject
from dray.client import object_writes
from dray.client.api_client import Client, ObjectSelection
from dray.scheduling.claims import claim_readiness
from dray.scheduling.claims.assignments import ClaimAssignment

log = logging.getLogger(__name__)

EXPLANATION = "dray.dev/explanation"
"""The annotation of a claim that explains why it is not allocated."""
CONFLICTS = 5
WRITE_SECONDS = 30.0
FIRST_RETRY_SECONDS = 0.1
MAX_RETRY_SECONDS = 10.0

Answer = TypeVar("Answer")


class WriteRejected(Exception):
    """The server rejected a write, or the claim has changed since the decision."""


class WriteOutcomeUnknown(Exception):
    """No response: the write may have happened."""


async def answered(request: Awaitable[Answer]) -> Answer:
    """Return the response. Raises WriteOutcomeUnknown after a timeout or server error."""
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            return await request
    except (errors.ServerError, errors.TooManyRequests, TimeoutError) as error:
        raise WriteOutcomeUnknown(str(error) or "no answer in time") from error


async def retry_until_answered(request: Callable[[], Awaitable[Answer]]) -> Answer:
    """Repeat a request until there is a response. For reads, and writes that are idempotent."""
    delay = FIRST_RETRY_SECONDS
    while True:
        try:
            return await answered(request())
        except WriteOutcomeUnknown as error:
            log.warning("no answer from the API server: %s", error)
            await asyncio.sleep(delay)
            delay = min(delay * 2, MAX_RETRY_SECONDS)


class ClaimWrites:
    """Writes claims. `newest` finds claims with our own writes; `wrote` is called after each."""

    def __init__(
        self,
        client: Client,
        features: Features,
        newest: claim_readiness.FindClaim,
        wrote: Callable[[ResourceClaim], None],
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._client = client
        self._newest, self._wrote, self._now = newest, wrote, now
        self._sets_timestamp = (
            features.device_binding_conditions and features.resource_claim_device_status
        )
        self._locks: dict[ClaimKey, asyncio.Lock] = {}

    async def assign(self, assigned: ClaimAssignment) -> ResourceClaim:
        """Write finalizer, allocation and reservation of a claim. Raises WriteRejected."""
        key = assigned.claim.key
        async with self._locked(key):
            claim, conflicts = self._newest(key) or assigned.claim, 0
            while conflicts < CONFLICTS:
                _check(claim, assigned)
                if pod_claims.has_consumer(claim, assigned.consumer):
                    return claim
                try:
                    if assigned.allocation is not None and _needs_metadata(claim):
                        claim = await self._write_metadata(claim)
                    return await self._write_status(claim, self._assigned_status(claim, assigned))
                except WriteOutcomeUnknown as error:
                    log.warning("claim %s: %s; reading it to see what happened", key, error)
                    claim = await self._fresh(claim)
                except errors.Conflict as conflict:
                    conflicts += 1
                    claim = await self._after_conflict(claim, conflict)
                except errors.ClientError as error:
                    raise WriteRejected(f"{_doing(assigned)} claim {key}: {error}") from error
        raise WriteRejected(f"{_doing(assigned)} claim {key}: others keep changing it")

    async def withdraw(self, key: ClaimKey, uid: str, *, deallocate: bool) -> None:
        """Remove a consumer, and if `deallocate` the allocation too unless others use it."""
        async with self._locked(key):
            claim, delay = self._newest(key), FIRST_RETRY_SECONDS
            while claim is not None and claim.status.allocation is not None:
                kept = [consumer for consumer in claim.status.reserved_for if consumer.uid != uid]
                change: dict[str, Any] = {"reservedFor": kept or None}
                if deallocate and not kept:
                    change |= {"allocation": None, "devices": None}
                elif len(kept) == len(claim.status.reserved_for):
                    return
                try:
                    await self._write_status(claim, change)
                    return
                except WriteOutcomeUnknown as error:
                    log.warning("claim %s: %s; reading it to see what happened", key, error)
                    await asyncio.sleep(delay)
                    delay = min(delay * 2, MAX_RETRY_SECONDS)
                except errors.Conflict:
                    # Somebody else was faster; the next attempt is made for what they wrote.
                    pass
                except errors.ClientError as error:
                    log.error("claim %s stays reserved: %s", key, error)
                    return
                claim = await self._read(key)

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create the claim of a pod's extended resources. A lost response is looked up."""
        namespace = claim.metadata.namespace
        body = _creation(claim)
        while True:
            try:
                created = await answered(self._client.create(kinds.RESOURCE_CLAIM, body, namespace))
                return self._received(created)
            except WriteOutcomeUnknown as error:
                log.warning("claim for extended resources: %s; listing claims to see", error)
                existing = await self._find_extended(claim)
                if existing is not None:
                    return existing
            except errors.ClientError as error:
                raise WriteRejected(f"create claim for extended resources: {error}") from error

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim that the scheduler created, with its finalizer."""
        metadata = claim.metadata
        kept = [name for name in metadata.finalizers if name != well_known.CLAIM_FINALIZER]
        patch = {"metadata": {"uid": metadata.uid, "finalizers": kept or None}}
        kind = kinds.RESOURCE_CLAIM

        async def remove() -> None:
            await self._client.patch(kind, metadata.name, patch, metadata.namespace)
            await object_writes.delete(self._client, kind, metadata)

        try:
            await retry_until_answered(remove)
        except (errors.NotFound, errors.Conflict):
            return
        except errors.ClientError as error:
            log.error("claim %s cannot be deleted: %s", claim.key, error)

    async def annotate(self, claim: ResourceClaim, text: str | None) -> None:
        """Set or remove the explanation. Failures are ignored: the next one replaces it."""
        try:
            await self._patch_metadata(claim, {"annotations": {EXPLANATION: text}})
        except (WriteOutcomeUnknown, errors.ClientError) as error:
            log.debug("claim %s: no explanation: %s", claim.key, error)

    async def _write_metadata(self, claim: ResourceClaim) -> ResourceClaim:
        """Add the finalizer, and remove the explanation why the claim had no devices."""
        metadata = claim.metadata
        change: dict[str, Any] = {}
        if well_known.CLAIM_FINALIZER not in metadata.finalizers:
            change["finalizers"] = [*metadata.finalizers, well_known.CLAIM_FINALIZER]
        if EXPLANATION in metadata.annotations:
            change["annotations"] = {EXPLANATION: None}
        return await self._patch_metadata(claim, change)

    async def _patch_metadata(self, claim: ResourceClaim, change: dict[str, Any]) -> ResourceClaim:
        request = object_writes.patch_metadata(
            self._client, kinds.RESOURCE_CLAIM, claim.metadata, change
        )
        return self._received(await answered(request))

    def _assigned_status(self, claim: ResourceClaim, assigned: ClaimAssignment) -> dict[str, Any]:
        change: dict[str, Any] = {"reservedFor": [*claim.status.reserved_for, assigned.consumer]}
        allocation = assigned.allocation
        if allocation is not None and claim.status.allocation is None:
            if self._sets_timestamp:
                stamp = gotime.write(self._now())
                allocation = msgspec.structs.replace(allocation, allocation_timestamp=stamp)
            change["allocation"] = allocation
        return change

    async def _write_status(self, claim: ResourceClaim, change: dict[str, Any]) -> ResourceClaim:
        request = object_writes.patch_status(
            self._client, kinds.RESOURCE_CLAIM, claim.metadata, change, at_version=True
        )
        return self._received(await answered(request))

    async def _after_conflict(
        self, claim: ResourceClaim, conflict: errors.Conflict
    ) -> ResourceClaim:
        """Return the current claim. Raises WriteRejected if it did not change.

        Then the conflict is about a device, which another claim has by now.
        """
        fresh = await self._fresh(claim)
        if fresh.metadata.resource_version == claim.metadata.resource_version:
            raise WriteRejected(str(conflict)) from conflict
        return fresh

    async def _fresh(self, claim: ResourceClaim) -> ResourceClaim:
        key = claim.key
        fresh = await self._read(key)
        if fresh is None or fresh.metadata.uid != claim.metadata.uid:
            raise WriteRejected(f"claim {key} got deleted in the meantime")
        return fresh

    async def _read(self, key: ClaimKey) -> ResourceClaim | None:
        try:
            raw = await retry_until_answered(
                lambda: self._client.get(kinds.RESOURCE_CLAIM, key.name, key.namespace)
            )
        except errors.NotFound:
            return None
        return self._received(raw)

    async def _find_extended(self, claim: ResourceClaim) -> ResourceClaim | None:
        """Return the claim of a create request without a response; None if it was not created."""
        selection = ObjectSelection(namespace=claim.metadata.namespace)
        owner = owner_references.controller_of(claim.metadata)
        page = await retry_until_answered(
            lambda: self._client.list(kinds.RESOURCE_CLAIM, selection)
        )
        for raw in page.items:
            stored = decode(msgspec.json.decode(raw))
            is_extended = stored.metadata.annotations.get(
                well_known.EXTENDED_RESOURCE_CLAIM_ANNOTATION
            )
            if is_extended == "true" and owner_references.controller_of(stored.metadata) == owner:
                return stored
        return None

    def _received(self, raw: JsonObject) -> ResourceClaim:
        claim = decode(raw)
        self._wrote(claim)
        return claim

    @asynccontextmanager
    async def _locked(self, key: ClaimKey) -> AsyncIterator[None]:
        """Hold the lock of a claim: concurrent writes of one scheduler would only conflict."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            yield
        if not lock.locked():
            self._locks.pop(key, None)


def decode(raw: JsonObject) -> ResourceClaim:
    try:
        return msgspec.convert(raw, ResourceClaim)
    except msgspec.ValidationError:
        return msgspec.convert(canonical.prune_nulls(raw), ResourceClaim)


def _check(claim: ResourceClaim, assigned: ClaimAssignment) -> None:
    """Raise WriteRejected if the claim is not what the decision was made for."""
    key, current = claim.key, claim.status.allocation
    if claim.metadata.deletion_timestamp is not None:
        raise WriteRejected(f"claim {key} got deleted in the meantime")
    if current is None:
        if assigned.allocation is None:
            raise WriteRejected(f"claim {key} got deallocated elsewhere in the meantime")
        return
    expected = assigned.allocation or assigned.claim.status.allocation
    if expected is None or current.devices.results != expected.devices.results:
        raise WriteRejected(f"claim {key} got allocated elsewhere in the meantime")


def _needs_metadata(claim: ResourceClaim) -> bool:
    metadata = claim.metadata
    return (
        well_known.CLAIM_FINALIZER not in metadata.finalizers or EXPLANATION in metadata.annotations
    )


def _doing(assigned: ClaimAssignment) -> str:
    what = "reservation" if assigned.allocation is None else "allocation and reservation"
    return f"add {what} to"


def _creation(claim: ResourceClaim) -> dict[str, Any]:
    metadata = msgspec.structs.replace(claim.metadata, name="")
    return {**kinds.RESOURCE_CLAIM.type_meta, "metadata": metadata, "spec": claim.spec}
