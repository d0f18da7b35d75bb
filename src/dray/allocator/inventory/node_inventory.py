"""The devices of one node, numbered, with everything that checks need to know about them.

An inventory is built when a node is first used and stays until its slices, labels or taint rules
change. Allocations change all the time; `sync` follows them device by device. Sets of devices are
integers with one bit per device, so that checks can work on many devices in one operation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

from dray.allocator.checks import compatibility_groups, taints
from dray.allocator.checks.counters import PoolCounters, layout_of
from dray.allocator.checks.usage import DeviceHolders, PoolHolders
from dray.allocator.inventory import pools, shapes
from dray.allocator.inventory.node_classes import (
    DeviceFacts,
    FoundDevices,
    NodeClass,
    NumberedDevices,
    NumberedPool,
    ShapeGroups,
)
from dray.allocator.inventory.pools import PoolOnNode
from dray.allocator.model import attributes, rejections
from dray.allocator.model.attributes import Value
from dray.allocator.model.candidates import Candidate, DeviceMatches
from dray.api.features import Features
from dray.api.ids import ClaimKey, PoolId
from dray.api.types.dra import Device, DeviceCapacity, DeviceTaintRule, ResourceSlice
from dray.api.types.nodes import Node

_SAME_IN_A_POOL = ((), (shapes.DRIVER,))
"""The paths, or none, in which all devices of a pool agree."""

_NO_CAPACITY: Mapping[str, DeviceCapacity] = {}
_NO_NEEDS: Mapping[str, int] = {}

_CACHED_KEYS = 64
"""Limit of cached attributes per node, and of cached groupings."""


class NodePool:
    """One pool of a node: its counters, and the holders of its devices."""

    __slots__ = (
        "_indexes",
        "charged",
        "counters",
        "holders",
        "members",
        "pool",
        "present_groups",
        "synced_version",
    )

    def __init__(self, pool: PoolOnNode, holders: PoolHolders) -> None:
        self.pool = pool
        self.holders = holders
        self.counters: PoolCounters | None = None
        self.present_groups: Mapping[str, compatibility_groups.Intersection] = {}
        self._indexes: dict[str, int] = {}
        self.members = 0
        """The devices that are on the node."""
        self.charged: dict[str, None] = {}
        """The allocated devices whose counters are subtracted."""
        self.synced_version = -1
        """The version of `holders` at the last sync."""

    @property
    def indexes(self) -> Mapping[str, int]:
        """Indexes in the inventory, by device name."""
        if not self._indexes and self.members:
            names = [device.name for found in self.pool.slices for device in found.spec.devices]
            first = (self.members & -self.members).bit_length() - 1
            self._indexes.update(zip(names, itertools.count(first), strict=False))
        return self._indexes

    def numbered(self) -> NumberedPool:
        """Return the numbers of the devices, for the other nodes of a class."""
        return NumberedPool(self._indexes, self.members, self.counters)

    def number_like(self, other: NumberedPool) -> None:
        # One dictionary for all of them, filled when one of them reads it.
        self._indexes = other.indexes
        self.members = other.members
        if other.counters is not None:
            self.counters = other.counters.for_alike_pool()

    def devices(self) -> Iterator[Device]:
        """Yield the devices for the node, then those for other nodes that use the same counters."""
        for resource_slice in (*self.pool.slices, *self.pool.slices_elsewhere):
            yield from resource_slice.spec.devices


class NodeInventory:
    """The devices of one node. They are made when `devices` is first read."""

    __slots__ = (
        "_devices",
        "_facts",
        "everything",
        "features",
        "node",
        "node_class",
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

    everything: int
    """The set of all devices."""

    def __init__(
        self,
        node: Node,
        pools_on_node: Sequence[PoolOnNode],
        holders_of_pool: Callable[[PoolId], PoolHolders],
        rules: Sequence[DeviceTaintRule],
        features: Features,
        node_class: NodeClass | None = None,
    ) -> None:
        self._devices: list[Candidate] | None = None
        self.node = node
        self.node_class = node_class
        """The nodes with the same devices, if there are others."""
        self.pools = pools_on_node
        self.features = features
        self.node_pools = [
            NodePool(pool, holders_of_pool(pool.id)) for pool in pools_on_node if pool.is_usable
        ]
        self.shareable = 0
        self.partitions = 0
        """Devices that draw from shared counters."""
        self.possibly_excluded = 0
        """Devices that taints, feature gates or the node may exclude for some request."""
        self.uses_node_resources = False
        """Whether a device takes resources of the node."""
        if node_class is not None and node_class.numbered is not None:
            self._number_like(node_class.numbered)
        else:
            first = 0
            for node_pool in self.node_pools:
                first = self._number_devices(node_pool, first)
            self.everything = (1 << first) - 1
            if rules:
                self._add_taints(rules)
            if node_class is not None:
                node_class.numbered = self._numbered()
        self.on_node = self._selecting_this_node()
        """By per-device node selection; every device where the slice selects nodes."""
        self.taken = 0
        """Devices that claims hold as a whole."""
        self.shared = 0
        """Devices of which claims hold shares."""
        self.version = 0
        """Increases with every change of holders; results are cached with it."""
        self._facts = node_class.facts if node_class else DeviceFacts()

    @property
    def devices(self) -> list[Candidate]:
        # A search of an alike node may have found what is asked of this one: then nobody reads
        # its devices. Not `__getattr__`, which makes all attributes slow.
        if self._devices is None:
            self._devices = self._make_devices()
        return self._devices

    def _make_devices(self) -> list[Candidate]:
        devices: list[Candidate] = []
        shareable = self.shareable
        for number, node_pool in enumerate(self.node_pools):
            driver, counters = node_pool.pool.id.driver, node_pool.counters
            needs = counters.needs if counters else _NO_NEEDS
            for resource_slice in node_pool.pool.slices:
                devices += [
                    Candidate(
                        index,
                        1 << index,
                        number,
                        driver,
                        resource_slice,
                        device,
                        device.taints,
                        needs.get(device.name, 0) if needs else 0,
                        shareable >> index & 1 == 1,
                    )
                    for index, device in enumerate(resource_slice.spec.devices, len(devices))
                ]
        return devices

    def slices(self) -> list[ResourceSlice]:
        """Return the slices of the devices, in the order of their numbers."""
        return [found for node_pool in self.node_pools for found in node_pool.pool.slices]

    @property
    def unusable(self) -> int:
        """The devices on which no CEL expression can be evaluated."""
        if self._facts.unusable is None:
            unusable = 0
            for candidate in self.devices:
                if not shapes.is_usable(candidate.device):
                    unusable |= candidate.bit
            self._facts.unusable = unusable
        return self._facts.unusable

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
        candidates = self.devices
        while devices:
            bit = devices & -devices
            devices ^= bit
            yield candidates[bit.bit_length() - 1]

    def group_by_shape(
        self, key: Hashable, read_shapes: shapes.Reader, among: int = -1
    ) -> ShapeGroups:
        """Group the devices by what `read_shapes` returns for them; `key` identifies the reader.

        Pools without a device of `among` may be left out.
        """
        known = self._facts.groups
        of_pools = [
            known.get((number, key)) or self._group_pool(number, key, read_shapes)
            for number, node_pool in enumerate(self.node_pools)
            if node_pool.members & among
        ]
        return of_pools[0] if len(of_pools) == 1 else list(itertools.chain(*of_pools))

    def _group_pool(self, number: int, key: Hashable, read_shapes: shapes.Reader) -> ShapeGroups:
        node_pool = self.node_pools[number]
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
        known = self._facts.groups
        if len(known) >= _CACHED_KEYS * len(self.node_pools):
            known.clear()
        known[number, key] = groups
        return groups

    def found_for(self, wanted: Hashable, find: Callable[[], FoundDevices]) -> FoundDevices:
        """Return what `find` returns, once for all nodes with these devices."""
        # Without a class nobody else has these devices, and the caller keeps the result.
        if self.node_class is None:
            return find()
        known = self._facts.found
        found = known.get(wanted)
        if found is None:
            if len(known) >= _CACHED_KEYS:
                known.clear()
            found = known[wanted] = find()
        return found

    def excludable_devices(self) -> list[tuple[Candidate, int]]:
        """Return the possibly excluded devices: one of each kind, and all that are like it."""
        if self._facts.excludable is None:
            kinds: dict[Hashable, tuple[Candidate, int]] = {}
            for candidate in self.members(self.possibly_excluded):
                operations = candidate.resource_slice.spec.skip_node_operations
                kind = candidate.taints, operations, bool(candidate.device.consumes_counters)
                example, devices = kinds.get(kind, (candidate, 0))
                kinds[kind] = example, devices | candidate.bit
            self._facts.excludable = list(kinds.values())
        return self._facts.excludable

    def capacities(self) -> list[tuple[Mapping[str, DeviceCapacity], int]]:
        """Return the distinct capacity maps, each with the devices that have it."""
        if self._facts.capacities is None:
            self._facts.capacities = self._distinct_capacities()
        return self._facts.capacities

    def _distinct_capacities(self) -> list[tuple[Mapping[str, DeviceCapacity], int]]:
        if not any(pools.traits_of(found).has_capacity for found in self.slices()):
            return [(_NO_CAPACITY, self.everything)]
        distinct: list[tuple[Mapping[str, DeviceCapacity], int]] = []
        # Interned slices share their maps: most are known by their identity.
        places: dict[int, int] = {}
        for candidate in self.devices:
            capacity = candidate.device.capacity
            place = places.get(id(capacity))
            if place is not None:
                distinct[place] = (distinct[place][0], distinct[place][1] | candidate.bit)
                continue
            for number, (other, members) in enumerate(distinct):
                if other == capacity:
                    distinct[number] = (other, members | candidate.bit)
                    places[id(capacity)] = number
                    break
            else:
                places[id(capacity)] = len(distinct)
                distinct.append((capacity, candidate.bit))
        return distinct

    def value(self, candidate: Candidate, attribute: str) -> Value | None:
        """Return a published attribute in the form that constraints compare, or None."""
        facts = self._facts
        if attribute not in facts.values:
            self._read(attribute)
        return facts.values[attribute][candidate.index]

    def value_masks(self, attribute: str) -> Mapping[Value, int]:
        """Return the devices by value of a published attribute."""
        if attribute not in self._facts.values:
            self._read(attribute)
        return self._facts.value_masks[attribute]

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
        facts = self._facts
        if len(facts.values) >= _CACHED_KEYS:
            facts.values.clear()
            facts.value_masks.clear()
        facts.values[attribute] = values
        facts.value_masks[attribute] = masks

    def _selecting_this_node(self) -> DeviceMatches:
        matching, failing = self.everything, 0
        if not self._has_own_selection():
            return DeviceMatches(matching)
        for candidate in self.devices:
            if not candidate.resource_slice.spec.per_device_node_selection:
                continue
            try:
                if not pools.serves_node(candidate.device, self.node):
                    matching &= ~candidate.bit
            except rejections.AllocationError:
                failing |= candidate.bit
        return DeviceMatches(matching & ~failing, failing)

    def _has_own_selection(self) -> bool:
        """Return whether a device may select nodes itself."""
        for node_pool in self.node_pools:
            for resource_slice in node_pool.pool.slices:
                if resource_slice.spec.per_device_node_selection:
                    return True
        return False

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
        self._sync_devices(node_pool, changed)
        if self.features.device_compatibility_groups:
            by_device = node_pool.holders.by_device
            node_pool.present_groups = compatibility_groups.of_allocated(
                device for device in node_pool.devices() if device.name in by_device
            )

    def _sync_devices(self, node_pool: NodePool, changed: Iterable[str]) -> None:
        by_device, indexes = node_pool.holders.by_device, node_pool.indexes
        taken, shared = self.taken, self.shared
        for name in changed:
            holders = by_device.get(name)
            number = indexes.get(name)
            if number is not None:
                bit = 1 << number
                taken = taken | bit if holders and holders.owners else taken & ~bit
                shared = shared | bit if holders and holders.shares else shared & ~bit
            if node_pool.counters is not None:
                _charge(node_pool, node_pool.counters, name, is_held=holders is not None)
        self.taken, self.shared = taken, shared

    def _numbered(self) -> NumberedDevices:
        return NumberedDevices(
            self.everything,
            [node_pool.numbered() for node_pool in self.node_pools],
            self.shareable,
            self.partitions,
            self.possibly_excluded,
            self.uses_node_resources,
        )

    def _number_like(self, other: NumberedDevices) -> None:
        """Number the devices as on another node of the class."""
        for node_pool, same in zip(self.node_pools, other.pools, strict=True):
            node_pool.number_like(same)
        self.everything = other.everything
        self.shareable = other.shareable
        self.partitions = other.partitions
        self.possibly_excluded = other.possibly_excluded
        self.uses_node_resources = other.uses_node_resources

    def _number_devices(self, node_pool: NodePool, first: int) -> int:
        """Number the devices of a pool from `first` on; return the number after the last one."""
        if counter_sets := node_pool.pool.counter_sets:
            node_pool.counters = PoolCounters(layout_of(counter_sets, node_pool.devices()))
        number = first
        for resource_slice in node_pool.pool.slices:
            self._classify(resource_slice, number)
            number += len(resource_slice.spec.devices)
        node_pool.members = (1 << number) - (1 << first)
        return number

    def _classify(self, resource_slice: ResourceSlice, first: int) -> None:
        """Note the devices of a slice, from number `first` on, that differ from plain ones."""
        spec = resource_slice.spec
        if spec.skip_node_operations:
            self.possibly_excluded |= ((1 << len(spec.devices)) - 1) << first
        traits = pools.traits_of(resource_slice)
        if traits.is_plain:
            return
        self.possibly_excluded |= traits.tainted << first
        self.partitions |= traits.consumes_counters << first
        if not self.features.partitionable_devices:
            self.possibly_excluded |= traits.consumes_counters << first
        if self.features.consumable_capacity:
            self.shareable |= traits.shareable << first
        if traits.uses_node_resources:
            self.uses_node_resources = True

    def _add_taints(self, rules: Sequence[DeviceTaintRule]) -> None:
        """Add the taints of rules to those of the devices."""
        for node_pool in self.node_pools:
            driver, pool = node_pool.pool.id
            applying = taints.rules_for_pool(driver, pool, rules)
            for candidate in self.members(node_pool.members) if applying else ():
                name = candidate.device.name
                candidate.taints = taints.with_rules(candidate.taints, name, applying)
                if candidate.taints:
                    self.possibly_excluded |= candidate.bit


def _charge(node_pool: NodePool, counters: PoolCounters, name: str, *, is_held: bool) -> None:
    """Subtract what a device takes of the counters, or give it back."""
    # Once per device, however many claims hold it or shares of it.
    if is_held and name not in node_pool.charged:
        counters.charge(name)
        node_pool.charged[name] = None
    elif not is_held and name in node_pool.charged:
        counters.refund(name)
        del node_pool.charged[name]
