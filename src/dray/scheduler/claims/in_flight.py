"""Claims as the server has them, when the cache does not show our own writes yet.

The answer to a write arrives before the event of the watch. Decisions and writes use the newer of
the two. Reservations, which exist before anything is written, are in `scheduling.claims`. They end
when the write is known to have failed, because the server refused it, or when the claim that the
server answered with shows the allocation. A write that may or may not have happened ends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dray.api.ids import ClaimKey, ObjectKey
from dray.api.types import dra
from dray.api.types.dra import AllocationResult, ResourceClaim
from dray.client.cache import Undecodable
from dray.scheduling.claims.claim_index import ClaimIndex
from dray.scheduling.claims.claim_readiness import FindClaim


class InFlightClaims:
    """Feeds the claims that decisions use, from the cache and from answers to our own writes."""

    def __init__(self, index: ClaimIndex, find_in_cache: FindClaim) -> None:
        self._index = index
        self._find_in_cache = find_in_cache
        self._written: dict[ClaimKey, ResourceClaim] = {}
        """The claims that the server answered with, until the cache shows them."""

    def newest(self, key: ClaimKey) -> ResourceClaim | None:
        """Return the claim, with our own writes; None if it does not exist."""
        return self._written.get(key) or self._find_in_cache(key)

    def record_written(self, claim: ResourceClaim) -> None:
        """Take over the claim that the server answered with."""
        key = claim.key
        cached = self._find_in_cache(key)
        if cached is None or _is_newer(claim, cached):
            self._written[key] = claim
        self._update_index(key)
        if claim.status.allocation is not None:
            self._index.end_reservation(key)

    def observe(self, key: ClaimKey, claim: ResourceClaim | None) -> None:
        """Take over a change of the cache. None if the claim is deleted."""
        written = self._written.get(key)
        if written is not None and (claim is None or not _is_newer(written, claim)):
            del self._written[key]
        self._update_index(key)

    def observe_undecodable(self, claims: Mapping[ObjectKey, Undecodable]) -> None:
        """Take over the claims that cannot be decoded: they keep their devices if those can."""
        allocations: dict[ClaimKey, AllocationResult] = {}
        hidden: list[str] = []
        for object_key, claim in claims.items():
            key = ClaimKey(*object_key)
            allocation = _read_results(claim.raw)
            if allocation is None:
                hidden.append(f"{key}: {claim.reason}")
            else:
                allocations[key] = allocation
        self._index.set_undecodable(allocations, hidden)

    def _update_index(self, key: ClaimKey) -> None:
        claim = self.newest(key)
        if claim is None:
            self._index.drop(key)
        else:
            self._index.put(claim)


def _is_newer(claim: ResourceClaim, other: ResourceClaim) -> bool:
    """Compare resource versions as numbers, which Kubernetes allows within one kind."""
    if claim.metadata.uid != other.metadata.uid:
        return False
    return _version(claim) > _version(other)


def _version(claim: ResourceClaim) -> int:
    version = claim.metadata.resource_version
    return int(version) if version.isdigit() else 0


class _RawResult(msgspec.Struct, rename="camel"):
    """The fields of an allocation result that say which device it holds."""

    driver: str
    pool: str
    device: str
    admin_access: bool | None = None


def _read_results(raw: Mapping[str, Any]) -> AllocationResult | None:
    """Return what an undecodable claim holds; None if even that cannot be decoded."""
    try:
        allocation = (raw.get("status") or {}).get("allocation")
        if not allocation:
            return AllocationResult()
        results = (allocation.get("devices") or {}).get("results") or ()
        raw_results = msgspec.convert(results, list[_RawResult])
    except (AttributeError, msgspec.ValidationError):
        return None
    # Shares count as whole devices: their size may be what cannot be decoded.
    whole = (
        dra.DeviceRequestAllocationResult(**msgspec.structs.asdict(result))
        for result in raw_results
    )
    return AllocationResult(dra.DeviceAllocationResult(tuple(whole)))
