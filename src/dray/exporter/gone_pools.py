"""Pools that their driver no longer publishes, though it should or claims need them."""

from __future__ import annotations

from collections import Counter

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.ids import PoolId


class GonePools:
    """Follows pools from the first slice that is seen, until their node is gone as well.

    A pool of which claims hold devices counts in any case. Pools of no single node come and go
    with what they are for, and count only while claims hold their devices.
    """

    def __init__(self, inventory: ClusterInventory) -> None:
        self._inventory = inventory
        self._node_of: dict[PoolId, str] = {}
        self._pools_of: dict[str, set[PoolId]] = {}
        self._gone: set[PoolId] = set()
        self._drivers: set[str] = set()

    def pool_changed(self, pool_id: PoolId) -> None:
        entry = self._inventory.pools().get(pool_id)
        self._drivers.add(pool_id.driver)
        if entry is not None and entry.slices:
            self._gone.discard(pool_id)
            names = {found.spec.node_name for found in entry.slices.values()}
            self._follow(pool_id, (names.pop() or "") if len(names) == 1 else "")
        elif entry is not None or self._exists(self._node_of.get(pool_id, "")):
            self._gone.add(pool_id)
        else:
            self._forget(pool_id)

    def node_removed(self, name: str) -> None:
        for pool_id in tuple(self._pools_of.get(name, ())):
            self.pool_changed(pool_id)

    def by_driver(self) -> Counter[str]:
        """Return the number of pools that are gone, also for drivers of which none is."""
        counts = Counter(dict.fromkeys(self._drivers, 0))
        counts.update(pool_id.driver for pool_id in self._gone)
        return counts

    def _exists(self, node: str) -> bool:
        entry = self._inventory.nodes.get(node)
        return entry is not None and entry.node is not None

    def _follow(self, pool_id: PoolId, node: str) -> None:
        before = self._node_of.get(pool_id)
        if before != node:
            self._forget(pool_id)
            self._node_of[pool_id] = node
            self._pools_of.setdefault(node, set()).add(pool_id)

    def _forget(self, pool_id: PoolId) -> None:
        self._gone.discard(pool_id)
        node = self._node_of.pop(pool_id, None)
        if node is not None:
            self._pools_of[node].discard(pool_id)
            if not self._pools_of[node]:
                del self._pools_of[node]
