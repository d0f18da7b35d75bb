"""The devices of one node, numbered, with everything that checks need to know about them.

An inventory is built when a node is first used and stays until its slices, labels or taint rules
change. Allocations change all the time; `sync` follows them device by device. Sets of devices are
integers with one bit per device, so that checks can work on many devices in one operation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

from dray.allocator.checks import compatibility_groups, taints
from dray.allocator.checks.counters import PoolCounters
from dray.allocator.checks.usage import DeviceHolders, PoolHolders
from dray.allocator.inventory import pools, shapes
from dray.allocator.inventory.pools import PoolOnNode
from dray.allocator.model import attributes, rejections
from dray.allocator.model.attributes import Value
from dray.allocator.model.candidates import Candidate, DeviceMatches
from dray.api.features import Features
from dray.api.ids import ClaimKey, PoolId
from dray.api.types.dra import Device, DeviceCapacity, DeviceTaintRule
from dray.api.types.nodes import Node

_SAME_IN_A_POOL = ((), (shapes.DRIVER,))
"""The paths, or none, in which all devices of a pool agree."""

_CACHED_KEYS = 64
"""Limit of cached groupings per pool, and of cached attributes per node."""

ShapeGroups = list[tuple[Hashable, int]]
"""Devices by shape: the shape, and the set of devices that have it."""


class NodePool:
    """One pool of a node: its counters, and the holders of its devices."""

    __slots__ = (
        "charged",
        "counters",
        "groups",
        "holders",
        "indexes",
        "members",
        "pool",
        "present_groups",
        "synced_version",
    )

    def __init__(self, pool: PoolOnNode, holders: PoolHolders) -> None:
        self.pool = pool
        self.holders = holders
        counter_sets = pool.counter_sets
        self.counters = PoolCounters(counter_sets, self.devices()) if counter_sets else None
        self.present_groups: Mapping[str, compatibility_groups.Intersection] = {}
        self.indexes: dict[str, int] = {}
        """Indexes in the inventory, by device name."""
        self.members = 0
        """The devices that are on the node."""
        self.groups: dict[Hashable, ShapeGroups] = {}
        """These devices by shape, for each reader of shapes."""
        self.charged: dict[str, None] = {}
        """The allocated devices whose counters are subtracted."""
        self.synced_version = -1
        """The version of `holders` at the last sync."""

    def devices(self) -> Iterator[Device]:
        """Yield the devices for the node, then those for other nodes that use the same counters."""
        for resource_slice in (*self.pool.slices, *self.pool.slices_elsewhere):
            yield from resource_slice.spec.devices


class NodeInventory:
    __slots__ = (
        "_capacities",
        "_excludable",
        "_unusable",
        "_value_masks",
        "_values",
        "devices",
        "everything",
        "features",
        "node",
        "node_pools",
        "on_node",
        "partitions",
        "pools",
        "possibly_excluded",
        "shareable",
        "shared",
        "taken",
        "uses_node_resources",
        "version",
    )

    def __init__(
        self,
        node: Node,
        pools_on_node: Sequence[PoolOnNode],
        holders_of_pool: Callable[[PoolId], PoolHolders],
        rules: Sequence[DeviceTaintRule],
        features: Features,
    ) -> None:
        self.node = node
        self.pools = pools_on_node
        self.features = features
        self.node_pools = [
            NodePool(pool, holders_of_pool(pool.id)) for pool in pools_on_node if pool.is_usable
        ]
        self.devices: list[Candidate] = []
        self.shareable = 0
        self.partitions = 0
        """Devices that draw from shared counters."""
        self.possibly_excluded = 0
        """Devices that taints, feature gates or the node may exclude for some request."""
        self._unusable: int | None = None
        self.uses_node_resources = False
        """Whether a device takes resources of the node."""
        for number, node_pool in enumerate(self.node_pools):
            self._number_devices(number, node_pool, rules)
        self.everything = (1 << len(self.devices)) - 1
        self.on_node = self._selecting_this_node()
        """By per-device node selection; every device where the slice selects nodes."""
        self.taken = 0
        """Devices that claims hold as a whole."""
        self.shared = 0
        """Devices of which claims hold shares."""
        self.version = 0
        """Increases with every change of holders; results are cached with it."""
        self._capacities: list[tuple[Mapping[str, DeviceCapacity], int]] | None = None
        self._excludable: list[tuple[Candidate, int]] | None = None
        self._values: dict[str, list[Value | None]] = {}
        self._value_masks: dict[str, dict[Value, int]] = {}

    @property
    def unusable(self) -> int:
        """The devices on which no CEL expression can be evaluated."""
        if self._unusable is None:
            self._unusable = 0
            for candidate in self.devices:
                if not shapes.is_usable(candidate.device):
                    self._unusable |= candidate.bit
        return self._unusable

    def where(self, holds: Callable[[Candidate], bool]) -> int:
        """Return the set of devices for which `holds` returns True."""
        devices = 0
        for candidate in self.devices:
            if holds(candidate):
                devices |= candidate.bit
        return devices

    def members(self, devices: int) -> Iterator[Candidate]:
        """Yield the devices of a set, in order."""
        # The lowest bit first, which is upstream's visiting order.
        while devices:
            bit = devices & -devices
            devices ^= bit
            yield self.devices[bit.bit_length() - 1]

    def group_by_shape(
        self, key: Hashable, read_shapes: shapes.Reader, among: int = -1
    ) -> ShapeGroups:
        """Group the devices by what `read_shapes` returns for them; `key` identifies the reader.

        Pools without a device of `among` may be left out.
        """
        of_pools = [
            node_pool.groups.get(key) or self._group_pool(node_pool, key, read_shapes)
            for node_pool in self.node_pools
            if node_pool.members & among
        ]
        return of_pools[0] if len(of_pools) == 1 else list(itertools.chain(*of_pools))

    def _group_pool(
        self, node_pool: NodePool, key: Hashable, read_shapes: shapes.Reader
    ) -> ShapeGroups:
        if key in _SAME_IN_A_POOL:
            first = node_pool.members & -node_pool.members
            (shape,) = read_shapes([self.devices[first.bit_length() - 1]])
            groups = [(shapes.interned(shape), node_pool.members)]
        else:
            devices = list(self.members(node_pool.members))
            members: dict[Hashable, int] = {}
            for candidate, shape in zip(devices, read_shapes(devices), strict=True):
                members[shape] = members.get(shape, 0) | candidate.bit
            groups = [(shapes.interned(shape), found) for shape, found in members.items()]
        if len(node_pool.groups) >= _CACHED_KEYS:
            node_pool.groups.clear()
        node_pool.groups[key] = groups
        return groups

    def excludable_devices(self) -> list[tuple[Candidate, int]]:
        """Return the possibly excluded devices: one of each kind, and all that are like it."""
        if self._excludable is None:
            kinds: dict[Hashable, tuple[Candidate, int]] = {}
            for candidate in self.members(self.possibly_excluded):
                operations = candidate.resource_slice.spec.skip_node_operations
                kind = candidate.taints, operations, bool(candidate.device.consumes_counters)
                example, devices = kinds.get(kind, (candidate, 0))
                kinds[kind] = example, devices | candidate.bit
            self._excludable = list(kinds.values())
        return self._excludable

    def capacities(self) -> list[tuple[Mapping[str, DeviceCapacity], int]]:
        """Return the distinct capacity maps, each with the devices that have it."""
        if self._capacities is None:
            self._capacities = self._distinct_capacities()
        return self._capacities

    def _distinct_capacities(self) -> list[tuple[Mapping[str, DeviceCapacity], int]]:
        distinct: list[tuple[Mapping[str, DeviceCapacity], int]] = []
        for candidate in self.devices:
            capacity = candidate.device.capacity
            for number, (other, members) in enumerate(distinct):
                # Interned slices share their maps, so the first comparison decides in most cases.
                if other is capacity or other == capacity:
                    distinct[number] = (other, members | candidate.bit)
                    break
            else:
                distinct.append((capacity, candidate.bit))
        return distinct

    def value(self, candidate: Candidate, attribute: str) -> Value | None:
        """Return a published attribute in the form that constraints compare, or None."""
        if attribute not in self._values:
            self._read(attribute)
        return self._values[attribute][candidate.index]

    def value_masks(self, attribute: str) -> Mapping[Value, int]:
        """Return the devices by value of a published attribute."""
        if attribute not in self._values:
            self._read(attribute)
        return self._value_masks[attribute]

    def _read(self, attribute: str) -> None:
        lists = self.features.list_type_attributes
        to_value = attributes.set_value if lists else attributes.scalar_value
        masks: dict[Value, int] = {}
        values: list[Value | None] = []
        # Equal values become one object: comparing them is then a comparison of identities.
        same: dict[Value, Value] = {}
        for candidate in self.devices:
            published = attributes.lookup(candidate.device, candidate.driver, attribute)
            if published is None:
                values.append(None)
                continue
            value = to_value(published)
            value = same.setdefault(value, value)
            values.append(value)
            masks[value] = masks.get(value, 0) | candidate.bit
        if len(self._values) >= _CACHED_KEYS:
            self._values.clear()
            self._value_masks.clear()
        self._values[attribute] = values
        self._value_masks[attribute] = masks

    def _selecting_this_node(self) -> DeviceMatches:
        matching, failing = self.everything, 0
        for candidate in self.devices:
            if not candidate.resource_slice.spec.per_device_node_selection:
                continue
            try:
                if not pools.serves_node(candidate.device, self.node):
                    matching &= ~candidate.bit
            except rejections.AllocationError:
                failing |= candidate.bit
        return DeviceMatches(matching & ~failing, failing)

    def device_holders(self, candidate: Candidate) -> DeviceHolders | None:
        holders = self.node_pools[candidate.pool_index].holders
        return holders.by_device.get(candidate.device.name)

    def holders_of(self, candidate: Candidate) -> tuple[ClaimKey, ...]:
        holders = self.device_holders(candidate)
        return holders.claims() if holders else ()

    def holders_on(self, pool_index: int, counter_set: str) -> tuple[ClaimKey, ...]:
        """Return the claims with devices that draw from a counter set."""
        node_pool = self.node_pools[pool_index]
        by_device = node_pool.holders.by_device
        holders: dict[ClaimKey, None] = {}
        for device in node_pool.devices():
            if device.name in by_device and any(
                consumption.counter_set == counter_set for consumption in device.consumes_counters
            ):
                holders.update(dict.fromkeys(by_device[device.name].claims()))
        return tuple(holders)

    def sync(self) -> None:
        """Take over what claims have taken and released since the last call."""
        # Runs before every search of the node, so a pool without changes costs one comparison.
        for node_pool in self.node_pools:
            version = node_pool.holders.version
            if node_pool.synced_version != version:
                self._sync_pool(node_pool)
                node_pool.synced_version = version
                self.version += 1

    def _sync_pool(self, node_pool: NodePool) -> None:
        changed: Iterable[str] | None
        if node_pool.synced_version < 0:
            # Nothing is taken in a new inventory.
            changed = node_pool.holders.by_device
        else:
            changed = node_pool.holders.changed_since(node_pool.synced_version)
        if changed is None:
            # The journal does not reach back far enough: compare every device that is allocated,
            # has its counters subtracted, or is on the node and may have been released.
            changed = {*node_pool.holders.by_device, *node_pool.charged, *node_pool.indexes}
        for name in changed:
            self._sync_device(node_pool, name)
        if self.features.device_compatibility_groups:
            by_device = node_pool.holders.by_device
            node_pool.present_groups = compatibility_groups.of_allocated(
                device for device in node_pool.devices() if device.name in by_device
            )

    def _sync_device(self, node_pool: NodePool, name: str) -> None:
        holders = node_pool.holders.by_device.get(name)
        number = node_pool.indexes.get(name)
        if number is not None:
            bit = 1 << number
            self.taken = self.taken | bit if holders and holders.owners else self.taken & ~bit
            self.shared = self.shared | bit if holders and holders.shares else self.shared & ~bit
        if node_pool.counters is None:
            return
        # Counters are subtracted once per device, however many claims hold it or shares of it.
        if holders and name not in node_pool.charged:
            node_pool.counters.charge(name)
            node_pool.charged[name] = None
        elif not holders and name in node_pool.charged:
            node_pool.counters.refund(name)
            del node_pool.charged[name]

    def _number_devices(
        self, number: int, node_pool: NodePool, rules: Sequence[DeviceTaintRule]
    ) -> None:
        pool = node_pool.pool.id
        applying = taints.rules_for_pool(pool.driver, pool.pool, rules) if rules else ()
        needs = node_pool.counters.needs if node_pool.counters else {}
        first = index = len(self.devices)
        for resource_slice in node_pool.pool.slices:
            skips_operations = bool(resource_slice.spec.skip_node_operations)
            for device in resource_slice.spec.devices:
                node_pool.indexes[device.name] = index
                all_taints = device.taints
                if applying:
                    all_taints = taints.with_rules(all_taints, device.name, applying)
                need = needs.get(device.name, 0) if needs else 0
                candidate = Candidate(
                    index, 1 << index, number, pool.driver, resource_slice, device, all_taints, need
                )
                self.devices.append(candidate)
                if all_taints or skips_operations:
                    self.possibly_excluded |= candidate.bit
                if device.allow_multiple_allocations or device.consumes_counters:
                    self._classify(candidate)
                if device.node_allocatable_resources:
                    self.uses_node_resources = True
                index += 1
        node_pool.members = (1 << index) - (1 << first)

    def _classify(self, candidate: Candidate) -> None:
        """Note what several claims may use at once: shares, and partitions."""
        device, bit = candidate.device, candidate.bit
        if device.allow_multiple_allocations and self.features.consumable_capacity:
            candidate.is_shareable = True
            self.shareable |= bit
        if device.consumes_counters:
            self.partitions |= bit
            if not self.features.partitionable_devices:
                self.possibly_excluded |= bit
