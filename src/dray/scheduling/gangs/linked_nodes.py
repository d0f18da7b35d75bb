"""Nodes that are linked with others: by devices that several of them see, or by their counters."""

from __future__ import annotations

from collections.abc import Sequence

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model.rejections import AllocationError
from dray.allocator.placement import Allocator
from dray.api.types.dra import ResourceClaim


class LinkedNodes:
    """Tells on which nodes claims may get devices that do not belong to that node alone."""

    def __init__(self, inventory: ClusterInventory, allocator: Allocator) -> None:
        self._allocator = allocator
        self._pools = set()
        for pool_id, entry in inventory.pools().items():
            names = {resource_slice.spec.node_name for resource_slice in entry.slices.values()}
            if len(names) > 1 or not all(names):
                self._pools.add(pool_id)

    @property
    def exist(self) -> bool:
        """Return whether there are such devices at all."""
        return bool(self._pools)

    def has(self, name: str, claims: Sequence[ResourceClaim]) -> bool:
        """Return whether some claims may get such devices on a node."""
        if not (claims and self._pools):
            return False
        try:
            problem = self._allocator.problem(claims, name)
        except AllocationError:
            return False
        inventory = problem.inventory
        shared = inventory.where(
            lambda device: inventory.node_pools[device.pool_index].pool.id in self._pools
        )
        return any(alternative.eligible & shared for alternative in problem.alternatives())
