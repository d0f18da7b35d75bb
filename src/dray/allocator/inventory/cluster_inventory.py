"""The allocator's live input: nodes, slices, classes, taint rules and allocations.

One owner calls the `put_…` and `drop_…` methods as objects come and go. Nothing is computed then: a
change only records on which nodes something may fit now (`relaxed_nodes`), and a node's inventory
is built when it is needed. Sets of nodes are integers with one bit per node; a node's index is its
place in the order of arrival, and new nodes reuse the indexes of nodes that are gone.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.checks.usage import PoolHolders
from dray.allocator.inventory import pools
from dray.allocator.inventory.node_classes import NodeClasses
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.inventory.selector_failures import SelectorFailures
from dray.allocator.inventory.selectors import Selectors
from dray.allocator.model.rejections import AllocationError
from dray.api.features import DEFAULT, Features
from dray.api.formats import quantity
from dray.api.ids import ClaimKey, DeviceId, PoolId, SharedDeviceId
from dray.api.types import dra
from dray.api.types.dra import AllocationResult, DeviceTaintRule, ResourceSlice
from dray.api.types.nodes import Node

_CHUNK = 64
_LOG_LIMIT = 1 << 16

EVERY_NODE = -1
"""The set of all nodes, also of those that come later; in the change log, an entry for all."""

EXTERNAL_HOLDER = ClaimKey("", "")
"""The holder of devices that `record_state` records without their claims."""


class AllocatedState(NamedTuple):
    """The allocated devices, in the form of upstream's AllocatedState."""

    devices: Iterable[DeviceId] = ()
    shares: Iterable[SharedDeviceId] = ()
    capacity: Mapping[DeviceId, Mapping[str, str]] = {}


class ChangeLog:
    """The nodes that changed, in order. Readers keep a cursor and read many entries at once."""

    __slots__ = ("_chunks", "_dropped", "_nodes")

    def __init__(self) -> None:
        self._nodes: list[int] = []
        self._chunks: list[int] = []
        """The union of each full chunk, so that reading n entries costs n / 64 operations."""
        self._dropped = 0

    def end(self) -> int:
        """Return the cursor of a reader that has read everything."""
        return self._dropped + len(self._nodes)

    def add(self, node: int) -> None:
        # Readers with an older cursor then read EVERY_NODE, which is always correct.
        if len(self._nodes) == _LOG_LIMIT:
            self._dropped += _LOG_LIMIT
            self._nodes.clear()
            self._chunks.clear()
        self._nodes.append(node)
        if len(self._nodes) % _CHUNK == 0:
            self._chunks.append(_set_of(self._nodes[-_CHUNK:]))

    def since(self, cursor: int) -> int:
        """Return the set of nodes that changed from `cursor` on."""
        start = cursor - self._dropped
        if start < 0:
            return EVERY_NODE
        first, last = -(-start // _CHUNK), len(self._chunks)
        if first >= last:
            return _set_of(self._nodes[start:])
        changed = _set_of(self._nodes[start : first * _CHUNK])
        for chunk in self._chunks[first:last]:
            changed |= chunk
        return changed | _set_of(self._nodes[last * _CHUNK :])


def _set_of(nodes: Sequence[int]) -> int:
    if not nodes:
        return 0
    if EVERY_NODE in nodes:
        return EVERY_NODE
    # Shifting a bit into a long integer for each node would copy that integer for each.
    bits = bytearray(max(nodes) // 8 + 1)
    for node in nodes:
        bits[node >> 3] |= 1 << (node & 7)
    return int.from_bytes(bits, "little")


class NodeEntry:
    """A node, or the entry for one that slices name and that does not exist yet."""

    __slots__ = ("index", "inventory", "name", "node", "slices")

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index
        self.node: Node | None = None
        self.slices: dict[str, ResourceSlice] = {}
        self.inventory: NodeInventory | AllocationError | None = None


class PoolEntry:
    """All slices of a pool, for any nodes, and the holders of its devices."""

    __slots__ = ("holders", "slices")

    def __init__(self) -> None:
        self.slices: dict[str, ResourceSlice] = {}
        self.holders = PoolHolders()


class ClusterInventory:
    """The devices of the cluster: what is published, and what is allocated of it."""

    def __init__(self, features: Features = DEFAULT) -> None:
        self.features = features
        self.selectors = Selectors(features)
        self.classes: dict[str, dra.DeviceClass] = {}
        self.nodes: dict[str, NodeEntry] = {}
        self.by_index: list[NodeEntry | None] = []
        self.existing_nodes = 0
        """The set of nodes that exist."""
        self.nodes_with_free_devices = 0
        """The nodes that may have a free device; the allocator removes one where it finds none."""
        self.relaxed_nodes = ChangeLog()
        """The nodes on which something may fit now that did not fit before."""
        self.epoch = 0
        """Counts the changes after which no cached result is valid."""
        self.nodes_version = 0
        """Counts the changes of nodes that concern devices."""
        self._free_indexes: list[int] = []
        self._built: set[NodeEntry] = set()
        self._node_classes = NodeClasses()
        self._pools: dict[PoolId, PoolEntry] = {}
        self._slices: dict[str, ResourceSlice] = {}
        self._shared_slices: dict[str, ResourceSlice] = {}
        self._rules: dict[str, DeviceTaintRule] = {}
        self._allocations: dict[ClaimKey, AllocationResult] = {}
        self.selector_failures = SelectorFailures(self._slices, self._nodes_for)

    def put_node(self, node: Node) -> None:
        entry = self._entry(node.metadata.name)
        # Node statuses change all the time. Only a change of labels or features concerns devices.
        if entry.node is not None and _is_equivalent(entry.node, node):
            return
        entry.node = node
        entry.inventory = None
        self.nodes_version += 1
        self.existing_nodes |= 1 << entry.index
        self._mark_relaxed([entry.index])

    def drop_node(self, name: str) -> None:
        entry = self.nodes.get(name)
        if entry is not None and entry.node is not None:
            entry.node = None
            entry.inventory = None
            self.nodes_version += 1
            self.existing_nodes &= ~(1 << entry.index)
            self._drop_entry_if_unused(entry)

    def put_slice(self, resource_slice: ResourceSlice) -> None:
        name, spec = resource_slice.metadata.name, resource_slice.spec
        existing = self._slices.get(name)
        if existing is not None:
            if existing.spec == spec:
                return
            # A slice that moves to another pool or node concerns its former nodes too.
            if _location(existing) != _location(resource_slice):
                self.drop_slice(name)
        self._slices[name] = resource_slice
        self.selector_failures.slice_changed(name)
        pool_id = resource_slice.pool_id
        pool = self._pool(pool_id)
        pool.slices[name] = resource_slice
        if spec.node_name:
            self._entry(spec.node_name).slices[name] = resource_slice
        else:
            self._shared_slices[name] = resource_slice
        self._invalidate_nodes_of(pool)

    def drop_slice(self, name: str) -> None:
        resource_slice = self._slices.pop(name, None)
        if resource_slice is None:
            return
        self.selector_failures.slice_changed(name)
        spec = resource_slice.spec
        pool_id = resource_slice.pool_id
        pool = self._pool(pool_id)
        # Before the removal: the nodes are those that the slices of the pool name.
        self._invalidate_nodes_of(pool)
        del pool.slices[name]
        self._drop_pool_if_unused(pool_id)
        if spec.node_name:
            entry = self.nodes[spec.node_name]
            del entry.slices[name]
            self._drop_entry_if_unused(entry)
        else:
            del self._shared_slices[name]

    def put_class(self, device_class: dra.DeviceClass) -> None:
        name = device_class.metadata.name
        existing = self.classes.get(name)
        self.classes[name] = device_class
        # Inventories do not depend on classes; cached results do.
        if existing is None or existing.spec != device_class.spec:
            self.epoch += 1

    def drop_class(self, name: str) -> None:
        if self.classes.pop(name, None) is not None:
            self.epoch += 1

    def put_taint_rule(self, rule: DeviceTaintRule) -> None:
        name = rule.metadata.name
        existing = self._rules.get(name)
        self._rules[name] = rule
        if existing is None or existing.spec != rule.spec:
            self._invalidate_everything()

    def drop_taint_rule(self, name: str) -> None:
        if self._rules.pop(name, None) is not None:
            self._invalidate_everything()

    def use_features(self, features: Features) -> None:
        if features == self.features:
            return
        # Recorded again under the new gates, which decide whether a share counts as a whole device.
        allocations = dict(self._allocations)
        for key in allocations:
            self.release(key)
        self.features = features
        self.selectors = Selectors(features)
        for key, allocation in allocations.items():
            self.record_allocation(key, allocation)
        self._invalidate_everything()

    def put_claim(self, claim: dra.ResourceClaim) -> None:
        """Record the allocation of a claim, or that it has none."""
        key = claim.key
        if claim.status.allocation is None:
            self.release(key)
        else:
            self.record_allocation(key, claim.status.allocation)

    def record_allocation(self, key: ClaimKey, allocation: AllocationResult) -> None:
        """Record that a claim holds exactly these devices."""
        existing = self._allocations.get(key)
        if existing is not None:
            if existing == allocation:
                return
            self.release(key)
        self._allocations[key] = allocation
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            pool = self._pool(result.pool_id)
            if self._is_share(result):
                self._take_share(pool, result.device, key, _in_nano(result.consumed_capacity))
            else:
                self._take(pool, result.device, key)

    def release(self, key: ClaimKey) -> AllocationResult | None:
        """Record that a claim holds no devices; return its former allocation, or None."""
        allocation = self._allocations.pop(key, None)
        if allocation is None:
            return None
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            pool_id = result.pool_id
            pool = self._pool(pool_id)
            if self._is_share(result):
                consumed = _in_nano(result.consumed_capacity)
                pool.holders.release_share(result.device, key, consumed)
            else:
                pool.holders.release(result.device, key)
            self._mark_relaxed(self._nodes_of(pool))
            self._drop_pool_if_unused(pool_id)
        return allocation

    def record_state(self, state: AllocatedState) -> None:
        """Record allocated devices without their claims."""
        for device in state.devices:
            pool = self._pool(device.pool_id)
            self._take(pool, device.device, EXTERNAL_HOLDER)
        for share in state.shares:
            pool = self._pool(share.pool_id)
            self._take_share(pool, share.device, EXTERNAL_HOLDER, {})
        for device, consumed in state.capacity.items():
            pool = self._pool(device.pool_id)
            self._take_share(pool, device.device, EXTERNAL_HOLDER, _in_nano(consumed))

    def inventory(self, entry: NodeEntry) -> NodeInventory:
        """Return the node's devices as they are now.

        Raises AllocationError if a slice has an invalid node selector.
        """
        cached = entry.inventory
        if cached is None:
            cached = entry.inventory = self._build(entry)
            self._built.add(entry)
        if isinstance(cached, AllocationError):
            raise cached.with_traceback(None)
        cached.sync()
        return cached

    def slices(self) -> Collection[ResourceSlice]:
        """Return all slices, also those that no node can reach."""
        return self._slices.values()

    def slices_of_several_nodes(self) -> Collection[ResourceSlice]:
        """Return the slices that name no node: they select nodes, or their devices do."""
        return self._shared_slices.values()

    def pools(self) -> Mapping[PoolId, PoolEntry]:
        """Return every pool that is published or of which claims hold devices."""
        return self._pools

    def taint_rules(self) -> Collection[DeviceTaintRule]:
        """Return the taint rules, none if their feature gate is off."""
        return self._rules.values() if self.features.device_taint_rules else ()

    def holders_of(self, device: DeviceId) -> tuple[ClaimKey, ...]:
        pool = self._pools.get(device.pool_id)
        holders = pool.holders.by_device.get(device.device) if pool else None
        return holders.claims() if holders else ()

    def _is_share(self, result: dra.DeviceRequestAllocationResult) -> bool:
        # Without the feature gate a share counts as the whole device: GatherAllocatedState in
        # https://github.com/kubernetes/kubernetes/blob/release-1.37/pkg/scheduler/framework/plugins/dynamicresources/dra_manager.go
        return result.share_id is not None and self.features.consumable_capacity

    def _take(self, pool: PoolEntry, device: str, key: ClaimKey) -> None:
        pool.holders.take(device, key)
        # Devices in use need not have a common group. What they admit then depends on the order of
        # the devices, so one more device in use can admit candidates that were rejected before.
        if self.features.device_compatibility_groups and _has_counters(pool):
            self._mark_relaxed(self._nodes_of(pool))

    def _take_share(
        self, pool: PoolEntry, device: str, key: ClaimKey, consumed: Mapping[str, int]
    ) -> None:
        pool.holders.take_share(device, key, consumed)
        # Taking a share can also make room: the first one takes the counters of the device, and
        # later ones need none.
        if _has_counters(pool):
            self._mark_relaxed(self._nodes_of(pool))

    def _build(self, entry: NodeEntry) -> NodeInventory | AllocationError:
        assert entry.node is not None, "inventories are built for existing nodes only"
        slices = itertools.chain(entry.slices.values(), self._shared_slices.values())
        rules = list(self.taint_rules())
        try:
            pools_on_node = pools.pools_of_node(entry.node, slices, self._slices_of, self.features)
        except AllocationError as failure:
            return failure
        # A taint rule may name a pool, and so tell nodes apart that have the same devices.
        node_class = None if rules else self._node_classes.find(entry.node, pools_on_node)
        return NodeInventory(
            entry.node,
            pools_on_node,
            lambda pool: self._pool(pool).holders,
            rules,
            self.features,
            node_class,
        )

    def _slices_of(self, pool: PoolId) -> Iterable[ResourceSlice]:
        return self._pool(pool).slices.values()

    def _pool(self, pool: PoolId) -> PoolEntry:
        entry = self._pools.get(pool)
        if entry is None:
            entry = self._pools[pool] = PoolEntry()
        return entry

    def _entry(self, name: str) -> NodeEntry:
        entry = self.nodes.get(name)
        if entry is not None:
            return entry
        if self._free_indexes:
            entry = NodeEntry(name, heapq.heappop(self._free_indexes))
            self.by_index[entry.index] = entry
            # Allocators may have cached a negative result for the former node of this index.
            self._mark_relaxed([entry.index])
        else:
            entry = NodeEntry(name, len(self.by_index))
            self.by_index.append(entry)
        self.nodes[name] = entry
        return entry

    def _drop_pool_if_unused(self, pool_id: PoolId) -> None:
        pool = self._pools[pool_id]
        if not (pool.slices or pool.holders.by_device):
            del self._pools[pool_id]

    def _drop_entry_if_unused(self, entry: NodeEntry) -> None:
        if entry.node is None and not entry.slices:
            self._built.discard(entry)
            del self.nodes[entry.name]
            self.by_index[entry.index] = None
            heapq.heappush(self._free_indexes, entry.index)

    def _nodes_of(self, pool: PoolEntry) -> Iterable[int]:
        """Return the nodes that see the pool or share its counters."""
        nodes: dict[int, None] = {}
        for resource_slice in pool.slices.values():
            name = resource_slice.spec.node_name
            if not name:
                return (EVERY_NODE,)
            nodes[self.nodes[name].index] = None
        return nodes

    def _nodes_for(self, slices: Iterable[ResourceSlice]) -> int:
        """Return the set of nodes for which some slices are."""
        names = {resource_slice.spec.node_name for resource_slice in slices}
        if not all(names):
            return EVERY_NODE
        # A slice may have been removed while the caller paused.
        return _set_of([self.nodes[name].index for name in names if name in self.nodes])

    def _mark_relaxed(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            self.relaxed_nodes.add(node)
            if node == EVERY_NODE:
                self.nodes_with_free_devices = self.existing_nodes
            elif not self.nodes_with_free_devices >> node & 1:
                self.nodes_with_free_devices |= 1 << node

    def _invalidate_nodes_of(self, pool: PoolEntry) -> None:
        """Drop the inventories of the nodes that see the pool."""
        nodes = self._nodes_of(pool)
        if self._built:
            for node in nodes:
                if node == EVERY_NODE:
                    self._drop_inventories()
                elif (entry := self.by_index[node]) is not None:
                    entry.inventory = None
        self._mark_relaxed(nodes)

    def _invalidate_everything(self) -> None:
        self.epoch += 1
        self.nodes_with_free_devices = self.existing_nodes
        self._node_classes.clear()
        self._drop_inventories()

    def _drop_inventories(self) -> None:
        for entry in self._built:
            entry.inventory = None
        self._built.clear()


def _has_counters(pool: PoolEntry) -> bool:
    return any(resource_slice.spec.shared_counters for resource_slice in pool.slices.values())


def _location(resource_slice: ResourceSlice) -> tuple[str, str, str | None]:
    return resource_slice.spec.driver, resource_slice.spec.pool.name, resource_slice.spec.node_name


def _is_equivalent(one: Node, other: Node) -> bool:
    return (
        one.metadata.labels == other.metadata.labels
        and one.status.declared_features == other.status.declared_features
    )


def _in_nano(amounts: Mapping[str, str]) -> dict[str, int]:
    return {name: quantity.parse(text).nano for name, text in amounts.items()}
