"""The live input: nodes, slices, classes, taint rules and what claims hold, kept in step.

One owner calls the `put_…` and `drop_…` methods as objects come and go. Nothing is computed then; each
change only says which nodes it may have opened up (`loosened`), and a node's inventory is built when
the node is asked. Sets of nodes are integers with one bit per node; a node's number is its place in
the order of arrival, where later nodes fill the gaps that others have left.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dray.allocator import pools
from dray.allocator.inventory import Inventory
from dray.allocator.selectors import Selectors
from dray.allocator.usage import Holdings
from dray.allocator.verdicts import Failure
from dray.api import quantity
from dray.api.claims import AllocationResult, ResourceClaim
from dray.api.classes import DeviceClass
from dray.api.features import DEFAULT, Features
from dray.api.names import ClaimKey, DeviceId, PoolId, SharedDeviceId
from dray.api.nodes import Node
from dray.api.slices import ResourceSlice
from dray.api.taints import DeviceTaintRule

_CHUNK = 64

OUTSIDE = ClaimKey("", "")
"""Who holds what `hold_state` says."""


class AllocatedState(NamedTuple):
    """What claims hold, as upstream's scheduler hands it to the allocator."""

    devices: Iterable[DeviceId] = ()
    shares: Iterable[SharedDeviceId] = ()
    capacity: Mapping[DeviceId, Mapping[str, str]] = {}


class ChangeLog:
    """Which nodes changed, in order. Readers keep a cursor and catch up in large steps."""

    __slots__ = ("_chunks", "_entries")

    def __init__(self) -> None:
        self._entries: list[int] = []
        self._chunks: list[int] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, nodes: int) -> None:
        self._entries.append(nodes)
        if len(self._entries) % _CHUNK == 0:
            self._chunks.append(_union(self._entries[-_CHUNK:]))

    def since(self, cursor: int) -> int:
        """The nodes of every entry from `cursor` on."""
        first_chunk = -(-cursor // _CHUNK)
        if first_chunk >= len(self._chunks):
            return _union(self._entries[cursor:])
        return (
            _union(self._entries[cursor : first_chunk * _CHUNK])
            | _union(self._chunks[first_chunk:])
            | _union(self._entries[len(self._chunks) * _CHUNK :])
        )


def _union(sets: Iterable[int]) -> int:
    result = 0
    for each in sets:
        result |= each
    return result


class NodeEntry:
    """A node, or the place for one that slices have named before it came."""

    __slots__ = ("bit", "index", "inventory", "name", "node", "slices")

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index
        self.bit = 1 << index
        self.node: Node | None = None
        self.slices: dict[str, ResourceSlice] = {}
        self.inventory: Inventory | Failure | None = None


class PoolEntry:
    """All slices of a pool, for whichever nodes, and what claims hold of it."""

    __slots__ = ("holdings", "slices")

    def __init__(self) -> None:
        self.slices: dict[str, ResourceSlice] = {}
        self.holdings = Holdings()


class Hold(NamedTuple):
    """One device of one claim."""

    pool: PoolId
    device: str
    share: Mapping[str, int] | None
    """What a share consumes, in nano units; None if the claim has the device alone."""


class Fleet:
    def __init__(self, features: Features = DEFAULT) -> None:
        self.features = features
        self.selectors = Selectors(features)
        self.classes: dict[str, DeviceClass] = {}
        self.nodes: dict[str, NodeEntry] = {}
        self.by_index: list[NodeEntry | None] = []
        self.present = 0
        """The nodes there are."""
        self.vacant = 0
        """The nodes that may have a free device."""
        self.loosened = ChangeLog()
        """Where something may fit now that did not fit before."""
        self.epoch = 0
        """Counts the changes after which nothing that was worked out before holds."""
        self._gaps: list[int] = []
        self._pools: dict[PoolId, PoolEntry] = {}
        self._slices: dict[str, ResourceSlice] = {}
        self._shared_slices: dict[str, ResourceSlice] = {}
        self._rules: dict[str, DeviceTaintRule] = {}
        self._allocations: dict[ClaimKey, AllocationResult] = {}
        self._holds: dict[ClaimKey, list[Hold]] = {}

    def put_node(self, node: Node) -> None:
        entry = self._entry(node.metadata.name)
        if entry.node is not None and _looks_same(entry.node, node):
            return
        entry.node = node
        entry.inventory = None
        self.present |= entry.bit
        self._loosen(entry.bit)

    def drop_node(self, name: str) -> None:
        entry = self.nodes.get(name)
        if entry is not None and entry.node is not None:
            entry.node = None
            entry.inventory = None
            self.present &= ~entry.bit
            self._forget_unless_used(entry)

    def put_slice(self, piece: ResourceSlice) -> None:
        name, spec = piece.metadata.name, piece.spec
        known = self._slices.get(name)
        if known is not None:
            if known.spec == spec:
                return
            if _place(known) != _place(piece):
                self.drop_slice(name)
        self._slices[name] = piece
        pool = PoolId(spec.driver, spec.pool.name)
        self._pool(pool).slices[name] = piece
        if spec.node_name:
            self._entry(spec.node_name).slices[name] = piece
        else:
            self._shared_slices[name] = piece
        self._rebuild(pool)

    def drop_slice(self, name: str) -> None:
        piece = self._slices.pop(name, None)
        if piece is None:
            return
        spec = piece.spec
        pool = PoolId(spec.driver, spec.pool.name)
        self._rebuild(pool)
        self._pool(pool).slices.pop(name)
        if spec.node_name:
            entry = self.nodes[spec.node_name]
            entry.slices.pop(name)
            self._forget_unless_used(entry)
        else:
            self._shared_slices.pop(name)

    def put_class(self, device_class: DeviceClass) -> None:
        name = device_class.metadata.name
        known = self.classes.get(name)
        self.classes[name] = device_class
        if known is None or known.spec != device_class.spec:
            self.epoch += 1

    def drop_class(self, name: str) -> None:
        if self.classes.pop(name, None) is not None:
            self.epoch += 1

    def put_taint_rule(self, rule: DeviceTaintRule) -> None:
        name = rule.metadata.name
        known = self._rules.get(name)
        self._rules[name] = rule
        if known is None or known.spec != rule.spec:
            self._rebuild_everything()

    def drop_taint_rule(self, name: str) -> None:
        if self._rules.pop(name, None) is not None:
            self._rebuild_everything()

    def use_features(self, features: Features) -> None:
        if features == self.features:
            return
        self.features = features
        self.selectors = Selectors(features)
        for key, allocation in list(self._allocations.items()):
            self.release(key)
            self.hold(key, allocation)
        self._rebuild_everything()

    def put_claim(self, claim: ResourceClaim) -> None:
        """Take note of a claim; only what is allocated to it matters here."""
        key = ClaimKey(claim.metadata.namespace, claim.metadata.name)
        allocation = claim.status.allocation
        if allocation is None:
            self.release(key)
        else:
            self.hold(key, allocation)

    def drop_claim(self, key: ClaimKey) -> None:
        self.release(key)

    def hold(self, key: ClaimKey, allocation: AllocationResult) -> None:
        """The claim has these devices, and no others."""
        known = self._allocations.get(key)
        if known is not None:
            if known == allocation:
                return
            self.release(key)
        self._allocations[key] = allocation
        self._take(key, self._holds_of(allocation))

    def release(self, key: ClaimKey) -> None:
        self._allocations.pop(key, None)
        for hold in self._holds.pop(key, ()):
            holdings = self._pool(hold.pool).holdings
            if hold.share is None:
                holdings.release(hold.device, key)
            else:
                holdings.release_share(hold.device, key, hold.share)
            self._loosen(self._reach(hold.pool))

    def hold_state(self, state: AllocatedState) -> None:
        """Take note of an allocated state that comes without its claims."""
        holds = [Hold(PoolId(id.driver, id.pool), id.device, None) for id in state.devices]
        holds += [Hold(PoolId(id.driver, id.pool), id.device, {}) for id in state.shares]
        holds += [
            Hold(PoolId(id.driver, id.pool), id.device, _in_nano(consumed))
            for id, consumed in state.capacity.items()
        ]
        self._take(OUTSIDE, holds)

    def inventory(self, entry: NodeEntry) -> Inventory:
        """The node's devices as they are now; raises Failure if its slices cannot be understood."""
        found = entry.inventory
        if found is None:
            found = entry.inventory = self._build(entry)
        if isinstance(found, Failure):
            raise found
        found.catch_up()
        return found

    def holders_of(self, device: DeviceId) -> tuple[ClaimKey, ...]:
        pool = self._pools.get(PoolId(device.driver, device.pool))
        holding = pool.holdings.by_device.get(device.device) if pool else None
        return holding.holders() if holding else ()

    def _build(self, entry: NodeEntry) -> Inventory | Failure:
        assert entry.node is not None, "only nodes that are there are asked"
        slices = itertools.chain(entry.slices.values(), self._shared_slices.values())
        rules = list(self._rules.values()) if self.features.device_taint_rules else []
        try:
            gathered = pools.gather(entry.node, slices, self._slices_of, self.features)
        except Failure as failure:
            return failure
        return Inventory(
            entry.node, gathered, lambda pool: self._pool(pool).holdings, rules, self.features
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
        if entry is None:
            index = heapq.heappop(self._gaps) if self._gaps else len(self.by_index)
            entry = self.nodes[name] = NodeEntry(name, index)
            if index == len(self.by_index):
                self.by_index.append(entry)
            else:
                self.by_index[index] = entry
        return entry

    def _forget_unless_used(self, entry: NodeEntry) -> None:
        if entry.node is None and not entry.slices:
            del self.nodes[entry.name]
            self.by_index[entry.index] = None
            heapq.heappush(self._gaps, entry.index)

    def _loosen(self, nodes: int) -> None:
        self.vacant |= nodes
        self.loosened.add(nodes)

    def _reach(self, pool: PoolId) -> int:
        """The nodes that see the pool or share its counters."""
        nodes = 0
        for piece in self._pool(pool).slices.values():
            if not piece.spec.node_name:
                return -1
            nodes |= self.nodes[piece.spec.node_name].bit
        return nodes
