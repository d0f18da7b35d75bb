"""The claims that decisions are based on, and allocations that are decided but not written yet.

A reservation holds the devices of a decision, so that the next decision counts with them. The
allocation of a stored claim takes precedence over a reservation for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api import well_known
from dray.api.ids import ClaimKey
from dray.api.semantics import owner_references
from dray.api.types.dra import AllocationResult, ResourceClaim
from dray.scheduling.claims.shape_counts import ShapeCounts


class _Reservation(NamedTuple):
    """An allocation that is not written yet, and the uids of the pods that count on it."""

    allocation: AllocationResult
    pods: set[str]


class ClaimIndex:
    """All claims. Records in the inventory which devices they hold."""

    def __init__(self, inventory: ClusterInventory) -> None:
        self._inventory = inventory
        self._claims: dict[ClaimKey, ResourceClaim] = {}
        self._reservations: dict[ClaimKey, _Reservation] = {}
        self._undecodable: Mapping[ClaimKey, AllocationResult] = {}
        self._for_extended_resources: dict[str, dict[ClaimKey, ResourceClaim]] = {}
        """Claims that were created for extended resources, by the uid of their pod."""
        self.hidden: Sequence[str] = ()
        """Claims whose devices cannot be determined, each with the reason."""
        self._shapes: ShapeCounts | None = None

    def __iter__(self) -> Iterator[ResourceClaim]:
        return iter(self._claims.values())

    def get(self, key: ClaimKey) -> ResourceClaim | None:
        return self._claims.get(key)

    def put(self, claim: ResourceClaim) -> None:
        """Add or update a claim."""
        key = claim.key
        self._unindex(self._claims.get(key))
        self._claims[key] = claim
        if self._shapes is not None:
            self._shapes.add(claim)
        owner = _extended_resource_owner(claim)
        if owner:
            self._for_extended_resources.setdefault(owner, {})[key] = claim
        self._record(key)

    def drop(self, key: ClaimKey) -> None:
        """Remove a claim; a reservation for it stays."""
        self._unindex(self._claims.pop(key, None))
        self._record(key)

    def shapes(self) -> ShapeCounts:
        """Return the shapes of all claims, which are counted from the first call on."""
        if self._shapes is None:
            self._shapes = ShapeCounts()
            for claim in self:
                self._shapes.add(claim)
        return self._shapes

    def set_undecodable(
        self, allocations: Mapping[ClaimKey, AllocationResult], hidden: Sequence[str]
    ) -> None:
        """Replace what is known of claims that cannot be decoded: they keep their devices."""
        before, self._undecodable = self._undecodable, allocations
        self.hidden = hidden
        for key in before.keys() | allocations.keys():
            if before.get(key) != allocations.get(key):
                self._record(key)

    def for_extended_resources(self, pod_uid: str) -> Collection[ResourceClaim]:
        """Return the claims that were created for the extended resources of a pod."""
        return self._for_extended_resources.get(pod_uid, {}).values()

    def reserved(self, key: ClaimKey) -> AllocationResult | None:
        """Return the allocation that is about to be written; None without one."""
        reservation = self._reservations.get(key)
        return reservation.allocation if reservation else None

    def reserve(self, key: ClaimKey, allocation: AllocationResult, pod_uid: str) -> None:
        """Hold the devices of an allocation for a claim, on behalf of a pod."""
        self._reservations.setdefault(key, _Reservation(allocation, set())).pods.add(pod_uid)
        self._record(key)

    def release(self, key: ClaimKey, pod_uid: str) -> None:
        """Undo `reserve`. The devices are free when the last pod has released them."""
        reservation = self._reservations.get(key)
        if reservation is not None:
            reservation.pods.discard(pod_uid)
            if not reservation.pods:
                self.end_reservation(key)

    def end_reservation(self, key: ClaimKey) -> None:
        """Remove the reservation of a claim for all pods, for example because it is written."""
        if self._reservations.pop(key, None) is not None:
            self._record(key)

    def _record(self, key: ClaimKey) -> None:
        claim = self._claims.get(key)
        allocation = claim.status.allocation if claim else self._undecodable.get(key)
        if allocation is None:
            allocation = self.reserved(key)
        if allocation is None:
            self._inventory.release(key)
        else:
            self._inventory.record_allocation(key, allocation)

    def _unindex(self, claim: ResourceClaim | None) -> None:
        if claim is not None and self._shapes is not None:
            self._shapes.remove(claim)
        owner = _extended_resource_owner(claim) if claim else ""
        if claim is not None and owner:
            claims = self._for_extended_resources[owner]
            claims.pop(claim.key, None)
            if not claims:
                del self._for_extended_resources[owner]


def _extended_resource_owner(claim: ResourceClaim) -> str:
    """Return the uid of the pod that a claim provides extended resources for, or nothing."""
    annotations = claim.metadata.annotations
    if annotations.get(well_known.EXTENDED_RESOURCE_CLAIM_ANNOTATION) != "true":
        return ""
    owner = owner_references.controller_of(claim.metadata)
    return owner.uid if owner else ""
