"""What was decided or written and is not yet seen in the cache: allocations, and pods on nodes.

A reservation is made here before anything is written, so that the next decision counts with it. It
ends when the write is known to have failed (the server refused it), or when the claim that the
server answered shows the allocation. A write that may or may not have happened ends nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.ids import ClaimKey, ObjectKey
from dray.api.semantics import pod_claims
from dray.api.types.dra import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from dray.client.cache import Undecodable
from dray.scheduling.claims.claim_readiness import FindClaim


class _Pending:
    """An allocation that is not written yet, and the pods that count on it."""

    __slots__ = ("allocation", "users")

    def __init__(self, allocation: AllocationResult) -> None:
        self.allocation = allocation
        self.users: set[str] = set()


class Inflight:
    def __init__(self, fleet: ClusterInventory, find_in_cache: FindClaim) -> None:
        self._fleet = fleet
        self._find_in_cache = find_in_cache
        self._pending: dict[ClaimKey, _Pending] = {}
        self._written: dict[ClaimKey, ResourceClaim] = {}
        """What the server answered to our own writes, until the cache shows it."""
        self._unreadable: dict[ClaimKey, AllocationResult] = {}

    def newest(self, key: ClaimKey) -> ResourceClaim | None:
        """The claim as we know it, our own writes included."""
        return self._written.get(key) or self._find_in_cache(key)

    def pending(self, key: ClaimKey) -> AllocationResult | None:
        """The allocation that is about to be written."""
        pending = self._pending.get(key)
        return pending.allocation if pending else None

    def reserve(self, key: ClaimKey, allocation: AllocationResult, user: str) -> None:
        """The devices belong to the claim from now on. `user` is the uid of a pod."""
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = _Pending(allocation)
        pending.users.add(user)
        self._settle(key)

    def release(self, key: ClaimKey, user: str) -> None:
        """The pod does not count on the pending allocation any more."""
        pending = self._pending.get(key)
        if pending is not None:
            pending.users.discard(user)
            if not pending.users:
                del self._pending[key]
                self._settle(key)

    def note_written(self, claim: ResourceClaim) -> None:
        """The server has the claim like this."""
        key = pod_claims.key_of(claim)
        known = self._find_in_cache(key)
        if known is None or _is_newer(claim, known):
            self._written[key] = claim
        if claim.status.allocation is not None:
            self._pending.pop(key, None)
        self._settle(key)

    def observe(self, key: ClaimKey, claim: ResourceClaim | None) -> None:
        """The cache has the claim like this now."""
        written = self._written.get(key)
        if written is not None and (claim is None or not _is_newer(written, claim)):
            del self._written[key]
        self._settle(key)

    def hold_unreadable(self, claims: Mapping[ObjectKey, Undecodable]) -> list[str]:
        """A claim that cannot be decoded keeps its devices; the names of those that hide them."""
        for gone in [key for key in self._unreadable if ObjectKey(*key) not in claims]:
            del self._unreadable[gone]
            self._settle(gone)
        hidden = []
        for object_key, claim in claims.items():
            key = ClaimKey(object_key.namespace, object_key.name)
            allocation = _read_results(claim.raw)
            if allocation is None:
                hidden.append(f"{key}: {claim.reason}")
            elif self._unreadable.get(key) != allocation:
                self._unreadable[key] = allocation
                self._settle(key)
        return hidden

    def _settle(self, key: ClaimKey) -> None:
        """Tell the fleet what the claim holds, all things considered."""
        claim = self.newest(key)
        allocation = claim.status.allocation if claim else self._unreadable.get(key)
        if allocation is None:
            allocation = self.pending(key)
        if allocation is None:
            self._fleet.release(key)
        else:
            self._fleet.record_allocation(key, allocation)


def _is_newer(claim: ResourceClaim, other: ResourceClaim) -> bool:
    """Resource versions are compared as numbers, which Kubernetes allows within one kind."""
    if claim.metadata.uid != other.metadata.uid:
        return False
    return _version(claim) > _version(other)


def _version(claim: ResourceClaim) -> int:
    version = claim.metadata.resource_version
    return int(version) if version.isdigit() else 0


class _RawResult(msgspec.Struct, rename="camel"):
    """The least that has to be right in an allocation to know which devices it holds."""

    driver: str
    pool: str
    device: str
    admin_access: bool | None = None


def _read_results(raw: Mapping[str, Any]) -> AllocationResult | None:
    """What an unreadable claim holds; None if even that cannot be read."""
    try:
        allocation = (raw.get("status") or {}).get("allocation")
        if not allocation:
            return AllocationResult()
        results = (allocation.get("devices") or {}).get("results") or ()
        found = msgspec.convert(results, list[_RawResult])
    except (AttributeError, msgspec.ValidationError):
        return None
    return AllocationResult(DeviceAllocationResult(tuple(_whole_devices(found))))


def _whole_devices(results: Iterable[_RawResult]) -> Iterable[DeviceRequestAllocationResult]:
    """Shares count as whole devices: how much they take may be what cannot be read."""
    for result in results:
        yield DeviceRequestAllocationResult(
            driver=result.driver,
            pool=result.pool,
            device=result.device,
            admin_access=result.admin_access,
        )
