"""The devices of one node, numbered, with what is known about them.

An inventory is built when a node is first asked and stays until its slices, labels or taint rules
change. What claims hold changes all the time; `catch_up` follows it device by device. Sets of
devices are integers with one bit per device.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

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

_REMEMBERED = 64
"""How many ways to look at the devices of a node are remembered."""

Kinds = list[tuple[Hashable, int]]
"""Devices that look alike to somebody: what they have in common, and which they are."""


class NodePool:
    """One pool of an inventory: its counters, and who holds its devices."""

    __slots__ = ("charged", "holdings", "ledger", "numbers", "pool", "present_groups", "seen")

    def __init__(self, pool: PoolOnNode, holdings: PoolHolders) -> None:
        self.pool = pool
        self.holdings = holdings
        self.ledger = PoolCounters(pool.counter_sets, self.devices()) if pool.counter_sets else None
        self.present_groups: Mapping[str, compatibility_groups.Intersection] = {}
        self.numbers: dict[str, int] = {}
        """Device names to numbers in the inventory."""
        self.charged: dict[str, None] = {}
        """The allocated devices that the ledger has been told of."""
        self.seen = -1
        """The version of the holdings that was followed last."""

    def devices(self) -> Iterator[Device]:
        """Those for the node, then those for other nodes: all draw from the same counters."""
        for resource_slice in (*self.pool.slices, *self.pool.slices_elsewhere):
            yield from resource_slice.spec.devices


class NodeInventory:
    __slots__ = (
        "_capacities",
        "_kinds",
        "_value_masks",
        "_values",
        "devices",
        "everything",
        "features",
        "node",
        "on_node",
        "partitions",
        "pools",
        "sections",
        "shareable",
        "shared",
        "suspects",
        "taken",
        "unusable",
        "version",
    )

    def __init__(
        self,
        node: Node,
        gathered: Sequence[PoolOnNode],
        holdings_of: Callable[[PoolId], PoolHolders],
        rules: Sequence[DeviceTaintRule],
        features: Features,
    ) -> None:
        self.node = node
        self.pools = gathered
        self.features = features
        self.sections = [
            NodePool(pool, holdings_of(pool.id)) for pool in gathered if pool.is_usable
        ]
        self.devices: list[Candidate] = []
        self.shareable = 0
        self.partitions = 0
        """Devices that draw from counters."""
        self.suspects = 0
        """Devices that taints, gates or the node may keep away from some request."""
        self.unusable = 0
        """Devices on which no expression can be evaluated."""
        for number, section in enumerate(self.sections):
            self._number_devices(number, section, rules)
        self.everything = (1 << len(self.devices)) - 1
        self.on_node = self._selecting_this_node()
        """By per-device node selection; everything where slices select nodes."""
        self.taken = 0
        """Held by claims for themselves alone."""
        self.shared = 0
        """Of which claims hold shares."""
        self.version = 0
        """Counts what `catch_up` has followed."""
        self._capacities: list[tuple[Mapping[str, DeviceCapacity], int]] | None = None
        self._kinds: dict[Hashable, Kinds] = {}
        self._values: dict[str, list[Value | None]] = {}
        self._value_masks: dict[str, dict[Value, int]] = {}

    def where(self, holds: Callable[[Candidate], bool]) -> int:
        """The devices of which something is true."""
        found = 0
        for candidate in self.devices:
            if holds(candidate):
                found |= candidate.bit
        return found

    def members(self, devices: int) -> Iterator[Candidate]:
        """The devices of a set, in order."""
        while devices:
            bit = devices & -devices
            devices ^= bit
            yield self.devices[bit.bit_length() - 1]

    def kinds(self, key: Hashable, look: Callable[[Sequence[Candidate]], list[Hashable]]) -> Kinds:
        """The devices grouped by what `look` sees in them; `key` stands for `look`."""
        known = self._kinds.get(key)
        if known is None:
            found: dict[Hashable, int] = {}
            for candidate, seen in zip(self.devices, look(self.devices), strict=True):
                found[seen] = found.get(seen, 0) | candidate.bit
            known = [(shapes.shared(shape), members) for shape, members in found.items()]
            if len(self._kinds) >= _REMEMBERED:
                self._kinds.clear()
            self._kinds[key] = known
        return known

    def capacities(self) -> list[tuple[Mapping[str, DeviceCapacity], int]]:
        """The different capacity maps and which devices have them."""
        if self._capacities is None:
            self._capacities = self._distinct_capacities()
        return self._capacities

    def _distinct_capacities(self) -> list[tuple[Mapping[str, DeviceCapacity], int]]:
        distinct: list[tuple[Mapping[str, DeviceCapacity], int]] = []
        for candidate in self.devices:
            capacity = candidate.device.capacity
            for number, (known, members) in enumerate(distinct):
                if known is capacity or known == capacity:
                    distinct[number] = (known, members | candidate.bit)
                    break
            else:
                distinct.append((capacity, candidate.bit))
        return distinct

    def value(self, candidate: Candidate, attribute: str) -> Value | None:
        """A published attribute as constraints compare it."""
        if attribute not in self._values:
            self._read(attribute)
        return self._values[attribute][candidate.index]

    def value_masks(self, attribute: str) -> Mapping[Value, int]:
        """The devices that have each value of a published attribute."""
        if attribute not in self._values:
            self._read(attribute)
        return self._value_masks[attribute]

    def _read(self, attribute: str) -> None:
        to_value = (
            attributes.set_value if self.features.list_type_attributes else attributes.scalar_value
        )
        masks: dict[Value, int] = {}
        values: list[Value | None] = []
        same: dict[Value, Value] = {}
        for candidate in self.devices:
            found = attributes.lookup(candidate.device, candidate.driver, attribute)
            if found is None:
                values.append(None)
                continue
            value = to_value(found)
            value = same.setdefault(value, value)
            values.append(value)
            masks[value] = masks.get(value, 0) | candidate.bit
        if len(self._values) >= _REMEMBERED:
            self._values.clear()
            self._value_masks.clear()
        self._values[attribute] = values
        self._value_masks[attribute] = masks

    def _selecting_this_node(self) -> DeviceMatches:
        accepted, failing = self.everything, 0
        for candidate in self.devices:
            if not candidate.published_in.spec.per_device_node_selection:
                continue
            try:
                if not pools.serves_node(candidate.device, self.node):
                    accepted &= ~candidate.bit
            except rejections.AllocationError:
                failing |= candidate.bit
        return DeviceMatches(accepted & ~failing, failing)

    def holding_of(self, candidate: Candidate) -> DeviceHolders | None:
        holdings = self.sections[candidate.section].holdings
        return holdings.by_device.get(candidate.device.name)

    def holders_of(self, candidate: Candidate) -> tuple[ClaimKey, ...]:
        holding = self.holding_of(candidate)
        return holding.holders() if holding else ()

    def holders_on(self, section: int, counter_set: str) -> tuple[ClaimKey, ...]:
        """The claims with devices that draw from a counter set."""
        held = self.sections[section].holdings.by_device
        holders: dict[ClaimKey, None] = {}
        for device in self.sections[section].devices():
            if device.name in held and any(
                consumption.counter_set == counter_set for consumption in device.consumes_counters
            ):
                holders.update(dict.fromkeys(held[device.name].holders()))
        return tuple(holders)

    def catch_up(self) -> None:
        """Follow what claims have taken and released since the last time."""
        for section in self.sections:
            version = section.holdings.version
            if section.seen != version:
                self._follow(section)
                section.seen = version
                self.version += 1

    def _follow(self, section: NodePool) -> None:
        changed = section.holdings.changed_since(section.seen) if section.seen >= 0 else None
        if changed is None:
            changed = {*section.holdings.by_device, *section.charged, *section.numbers}
        for name in changed:
            self._recheck(section, name)
        if self.features.device_compatibility_groups:
            held = section.holdings.by_device
            section.present_groups = compatibility_groups.of_allocated(
                device for device in section.devices() if device.name in held
            )

    def _recheck(self, section: NodePool, name: str) -> None:
        holding = section.holdings.by_device.get(name)
        number = section.numbers.get(name)
        if number is not None:
            bit = 1 << number
            self.taken = self.taken | bit if holding and holding.owners else self.taken & ~bit
            self.shared = self.shared | bit if holding and holding.shares else self.shared & ~bit
        if section.ledger is None:
            return
        if holding and name not in section.charged:
            section.ledger.charge(name)
            section.charged[name] = None
        elif not holding and name in section.charged:
            section.ledger.refund(name)
            del section.charged[name]

    def _number_devices(
        self, number: int, section: NodePool, rules: Sequence[DeviceTaintRule]
    ) -> None:
        pool = section.pool.id
        applying = taints.rules_for_pool(pool.driver, pool.pool, rules) if rules else ()
        needs = section.ledger.needs if section.ledger else {}
        index = len(self.devices)
        for resource_slice in section.pool.slices:
            for device in resource_slice.spec.devices:
                section.numbers[device.name] = index
                all_taints = device.taints
                if applying:
                    all_taints = taints.with_rules(all_taints, device.name, applying)
                need = needs.get(device.name, 0) if needs else 0
                candidate = Candidate(
                    index, 1 << index, number, pool.driver, resource_slice, device, all_taints, need
                )
                self.devices.append(candidate)
                self._classify(candidate)
                index += 1

    def _classify(self, candidate: Candidate) -> None:
        device, bit = candidate.device, candidate.bit
        if device.allow_multiple_allocations and self.features.consumable_capacity:
            candidate.is_shareable = True
            self.shareable |= bit
        if device.consumes_counters:
            self.partitions |= bit
            if not self.features.partitionable_devices:
                self.suspects |= bit
        if candidate.taints or candidate.published_in.spec.skip_node_operations:
            self.suspects |= bit
        if not shapes.is_usable(device):
            self.unusable |= bit
