"""Writes claims so that each write ends in a definite answer: it happened, or it did not.

Every write names the version it was made for. Only a refusal by the server (4xx) counts as "did
not". After a time-out or a server error the claim is read afresh, for as long as that takes, and
what it shows decides.
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
from dray.api.types.dra import AllocationResult, ResourceClaim
from dray.api.types.meta import JsonObject
from dray.client.api_client import Client, ObjectSelection
from dray.scheduler.claims.device_fit import ClaimAssignment
from dray.scheduling import claim_readiness

log = logging.getLogger(__name__)

FINALIZER = "resource.kubernetes.io/delete-protection"
EXPLANATION = "dray.dev/explanation"
"""Where a claim carries why it is not allocated."""
CONFLICTS = 5
WRITE_SECONDS = 30.0
FIRST_RETRY_SECONDS = 0.1
MAX_RETRY_SECONDS = 10.0

Answer = TypeVar("Answer")


class WriteRejected(Exception):
    """The server said no, or the claim is not what the decision was made for."""


class WriteOutcomeUnknown(Exception):
    """No answer: the write may have happened."""


async def answered(request: Awaitable[Answer]) -> Answer:
    """The answer of the server; Unknown where there is none that can be relied on."""
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            return await request
    except (errors.ServerError, errors.TooManyRequests, TimeoutError) as error:
        raise WriteOutcomeUnknown(str(error) or "no answer in time") from error


async def retry_until_answered(request: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask until there is an answer. For reads, and for writes that may be repeated."""
    delay = FIRST_RETRY_SECONDS
    while True:
        try:
            return await answered(request())
        except WriteOutcomeUnknown as error:
            log.warning("no answer from the API server: %s", error)
            await asyncio.sleep(delay)
            delay = min(delay * 2, MAX_RETRY_SECONDS)


class ClaimWrites:
    """`newest` knows our own writes before the cache does; `wrote` hears of each."""

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
        self._notes_time = (
            features.device_binding_conditions and features.resource_claim_device_status
        )
        self._turns: dict[ClaimKey, asyncio.Lock] = {}

    async def grant(self, grant: ClaimAssignment) -> ResourceClaim:
        """Allocate where needed and reserve: finalizer, then allocation and reservation."""
        key = pod_claims.key_of(grant.claim)
        async with self._turn(key):
            claim, conflicts = self._newest(key) or grant.claim, 0
            while conflicts < CONFLICTS:
                _check(claim, grant)
                if pod_claims.has_consumer(claim, grant.consumer):
                    return claim
                try:
                    if grant.allocation is not None and _needs_preparation(claim):
                        claim = await self._prepare(claim)
                    return await self._write_status(claim, self._granted(claim, grant))
                except WriteOutcomeUnknown as error:
                    log.warning("claim %s: %s; looking what became of it", key, error)
                    claim = await self._fresh(claim)
                except errors.Conflict as conflict:
                    conflicts += 1
                    claim = await self._after_conflict(claim, conflict)
                except errors.ClientError as refusal:
                    raise WriteRejected(f"{_doing(grant)} claim {key}: {refusal}") from refusal
        raise WriteRejected(f"{_doing(grant)} claim {key}: others keep changing it")

    async def withdraw(self, key: ClaimKey, uid: str, *, deallocate: bool) -> None:
        """Take a consumer's reservation back, and the allocation too if nobody else uses it."""
        async with self._turn(key):
            claim = self._newest(key)
            for _ in range(CONFLICTS):
                if claim is None or claim.status.allocation is None:
                    return
                kept = [each for each in claim.status.reserved_for if each.uid != uid]
                change: dict[str, Any] = {"reservedFor": kept or None}
                if deallocate and not kept:
                    change |= {"allocation": None, "devices": None}
                elif len(kept) == len(claim.status.reserved_for):
                    return
                try:
                    await self._write_status(claim, change)
                    return
                except (WriteOutcomeUnknown, errors.ClientError):
                    claim = await self._read(key)

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Make the claim of a pod's extended resources; one that is there already will do."""
        namespace = claim.metadata.namespace
        body = _creation(claim)
        while True:
            try:
                created = await answered(self._client.create(kinds.RESOURCE_CLAIM, body, namespace))
                return self._heard(created)
            except WriteOutcomeUnknown as error:
                log.warning("claim for extended resources: %s; looking what became of it", error)
                found = await self._find_extended(claim)
                if found is not None:
                    return found
            except errors.ClientError as refusal:
                raise WriteRejected(f"create claim for extended resources: {refusal}") from refusal

    async def delete(self, claim: ResourceClaim) -> None:
        """Remove a claim that we made, with its protection."""
        metadata = claim.metadata
        kept = [finalizer for finalizer in metadata.finalizers if finalizer != FINALIZER]
        patch = {"metadata": {"uid": metadata.uid, "finalizers": kept or None}}
        name, namespace = metadata.name, metadata.namespace

        async def remove() -> None:
            await self._client.patch(kinds.RESOURCE_CLAIM, name, patch, namespace)
            options = {"preconditions": {"uid": metadata.uid}}
            await self._client.delete(kinds.RESOURCE_CLAIM, name, namespace, options)

        try:
            await retry_until_answered(remove)
        except (errors.NotFound, errors.Conflict):
            return
        except errors.ClientError as refusal:
            log.error("claim %s/%s cannot be deleted: %s", namespace, name, refusal)

    async def annotate(self, claim: ResourceClaim, text: str | None) -> None:
        """Set or remove the explanation; it does not matter if that fails."""
        metadata = claim.metadata
        version = metadata.resource_version
        patch = {"metadata": {"resourceVersion": version, "annotations": {EXPLANATION: text}}}
        try:
            request = self._client.patch(
                kinds.RESOURCE_CLAIM, metadata.name, patch, metadata.namespace
            )
            self._heard(await answered(request))
        except (WriteOutcomeUnknown, errors.ClientError) as error:
            log.debug("claim %s/%s: no explanation: %s", metadata.namespace, metadata.name, error)

    async def _prepare(self, claim: ResourceClaim) -> ResourceClaim:
        """Protect the claim from being deleted, and forget why it had no devices."""
        metadata = claim.metadata
        change: dict[str, Any] = {"resourceVersion": metadata.resource_version}
        if FINALIZER not in metadata.finalizers:
            change["finalizers"] = [*metadata.finalizers, FINALIZER]
        if EXPLANATION in metadata.annotations:
            change["annotations"] = {EXPLANATION: None}
        patch = {"metadata": change}
        request = self._client.patch(kinds.RESOURCE_CLAIM, metadata.name, patch, metadata.namespace)
        return self._heard(await answered(request))

    def _granted(self, claim: ResourceClaim, grant: ClaimAssignment) -> dict[str, Any]:
        change: dict[str, Any] = {"reservedFor": [*claim.status.reserved_for, grant.consumer]}
        if grant.allocation is not None and claim.status.allocation is None:
            change["allocation"] = self._timed(grant.allocation)
        return change

    def _timed(self, allocation: AllocationResult) -> AllocationResult:
        if not self._notes_time:
            return allocation
        stamp = gotime.write(self._now())
        return msgspec.structs.replace(allocation, allocation_timestamp=stamp)

    async def _write_status(self, claim: ResourceClaim, change: dict[str, Any]) -> ResourceClaim:
        metadata = claim.metadata
        patch = {"metadata": {"resourceVersion": metadata.resource_version}, "status": change}
        request = self._client.patch(
            kinds.RESOURCE_CLAIM, metadata.name, patch, metadata.namespace, subresource="status"
        )
        return self._heard(await answered(request))

    async def _after_conflict(
        self, claim: ResourceClaim, conflict: errors.Conflict
    ) -> ResourceClaim:
        """The claim as it is now; a conflict without a change is about a device, not the claim."""
        fresh = await self._fresh(claim)
        if fresh.metadata.resource_version == claim.metadata.resource_version:
            raise WriteRejected(str(conflict)) from conflict
        return fresh

    async def _fresh(self, claim: ResourceClaim) -> ResourceClaim:
        key = pod_claims.key_of(claim)
        fresh = await self._read(key)
        if fresh is None or fresh.metadata.uid != claim.metadata.uid:
            raise WriteRejected(f"claim {key} got deleted in the meantime")
        return fresh

    async def _read(self, key: ClaimKey) -> ResourceClaim | None:
        async def read() -> JsonObject:
            return await self._client.get(kinds.RESOURCE_CLAIM, key.name, key.namespace)

        try:
            return self._heard(await retry_until_answered(read))
        except errors.NotFound:
            return None

    async def _find_extended(self, claim: ResourceClaim) -> ResourceClaim | None:
        """The claim that a create without answer may have left."""
        selection = ObjectSelection(namespace=claim.metadata.namespace)
        owner = owner_references.controller_of(claim.metadata)
        page = await retry_until_answered(
            lambda: self._client.list(kinds.RESOURCE_CLAIM, selection)
        )
        for raw in page.items:
            found = decode(msgspec.json.decode(raw))
            annotations = found.metadata.annotations
            made_by = owner_references.controller_of(found.metadata)
            if (
                annotations.get(well_known.EXTENDED_RESOURCE_CLAIM_ANNOTATION) == "true"
                and made_by == owner
            ):
                return found
        return None

    def _heard(self, raw: JsonObject) -> ResourceClaim:
        claim = decode(raw)
        self._wrote(claim)
        return claim

    @asynccontextmanager
    async def _turn(self, key: ClaimKey) -> AsyncIterator[None]:
        """One writer of ours at a time for each claim: we would only get in our own way."""
        turn = self._turns.setdefault(key, asyncio.Lock())
        async with turn:
            yield
        if not turn.locked():
            self._turns.pop(key, None)


def decode(raw: JsonObject) -> ResourceClaim:
    try:
        return msgspec.convert(raw, ResourceClaim)
    except msgspec.ValidationError:
        return msgspec.convert(canonical.prune_nulls(raw), ResourceClaim)


def _check(claim: ResourceClaim, grant: ClaimAssignment) -> None:
    """Whether the claim still is what the decision was made for."""
    key, current = pod_claims.key_of(claim), claim.status.allocation
    if claim.metadata.deletion_timestamp is not None:
        raise WriteRejected(f"claim {key} got deleted in the meantime")
    if current is None:
        if grant.allocation is None:
            raise WriteRejected(f"claim {key} got deallocated elsewhere in the meantime")
        return
    expected = grant.allocation or grant.claim.status.allocation
    if expected is None or current.devices.results != expected.devices.results:
        raise WriteRejected(f"claim {key} got allocated elsewhere in the meantime")


def _needs_preparation(claim: ResourceClaim) -> bool:
    metadata = claim.metadata
    return FINALIZER not in metadata.finalizers or EXPLANATION in metadata.annotations


def _doing(grant: ClaimAssignment) -> str:
    what = "reservation" if grant.allocation is None else "allocation and reservation"
    return f"add {what} to"


def _creation(claim: ResourceClaim) -> dict[str, Any]:
    metadata = msgspec.structs.replace(claim.metadata, name="")
    api_version = kinds.RESOURCE_CLAIM.preferred.api_version
    return {
        "apiVersion": api_version,
        "kind": kinds.RESOURCE_CLAIM.kind,
        "metadata": metadata,
        "spec": claim.spec,
    }
