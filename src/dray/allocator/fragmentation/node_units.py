"""The units of a node: read from its inventory, for the columns that requests are."""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from dray.allocator.checks.counters import PoolCounters
from dray.allocator.fragmentation.units import Amounts, CounterRange, Unit, UnitDevice, UnitState
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model.candidates import Candidate
from dray.allocator.problem.node_problem import NodeAlternative
from dray.api.formats import quantity

Column = NodeAlternative | None
"""An alternative of a request on the node; None where it cannot be evaluated there."""


class PlacedUnit(NamedTuple):
    """A unit of a node, and where its devices and counters are in the inventory."""

    unit: Unit
    devices: int
    first: int
    """The index of its first device."""
    counters: PoolCounters | None
    shift: int
    mask: int

    def state(self, inventory: NodeInventory) -> UnitState:
        """Return the unit with what is allocated of it now."""
        taken = (inventory.taken & self.devices) >> self.first
        left = self.counters.left >> self.shift & self.mask if self.counters else 0
        shared = inventory.shared & inventory.shareable & self.devices
        if not shared:
            return UnitState(self.unit, left, taken)
        consumed = [
            (device.bit >> self.first, _consumed(inventory, device))
            for device in inventory.members(shared)
        ]
        return UnitState(self.unit, left, taken, tuple(consumed))

    def member(self, device: Candidate) -> UnitDevice:
        """Return a device of the unit."""
        bit = device.bit >> self.first
        return next(member for member in self.unit.devices if member.bit == bit)


class UnitReader:
    """Reads the units of nodes; equal ones become the same object."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Unit] = {}

    def units(self, inventory: NodeInventory, columns: Sequence[Column]) -> list[PlacedUnit]:
        """Return the units of a node."""
        by_set: dict[tuple[int, str], list[Candidate]] = {}
        placed: list[PlacedUnit] = []
        for device in inventory.devices:
            if not device.need:
                placed.append(self._placed(inventory, [device], columns))
                continue
            for name in _counter_sets(device):
                by_set.setdefault((device.pool_index, name), []).append(device)
        for (_, name), devices in by_set.items():
            placed.append(self._placed(inventory, devices, columns, name))
        return placed

    def _placed(
        self,
        inventory: NodeInventory,
        devices: Sequence[Candidate],
        columns: Sequence[Column],
        counter_set: str = "",
    ) -> PlacedUnit:
        first = devices[0].index
        pool = inventory.node_pools[devices[0].pool_index].counters if counter_set else None
        packed = pool.of_set(counter_set) if pool else []
        shift = packed[0][0].shift if packed else 0
        end = packed[-1][0].shift + packed[-1][0].width + 1 if packed else 0
        mask = (1 << (end - shift)) - 1
        counters = tuple(
            CounterRange(counter.shift - shift, counter.width, total) for counter, total in packed
        )
        members = tuple(
            UnitDevice(
                device.bit >> first,
                need := device.need >> shift & mask if counter_set else 0,
                _mean_portion(counters, need) if device.is_shareable else 1.0,
                amounts_of(device),
                tuple(_takes(column, device) for column in columns),
            )
            for device in devices
        )
        guards = sum(1 << (counter.shift + counter.width) for counter in counters)
        key = members, counters
        unit = self._known.get(key)
        if unit is None:
            digest = zlib.crc32(repr(key).encode())
            unit = self._known[key] = Unit(members, counters, guards, digest)
        return PlacedUnit(unit, _union(devices), first, pool, shift, mask)


def amounts_of(device: Candidate) -> Amounts | None:
    """Return the capacities of a device that can be shared; None for others."""
    return tuple(total for _, total in _totals(device)) if device.is_shareable else None


def takes_of(alternative: NodeAlternative, device: Candidate) -> Amounts:
    """Return what an alternative takes of an eligible device."""
    if not device.is_shareable:
        return ()
    demand = alternative.demand(device)
    return tuple(demand[name].taken.nano for name in sorted(device.device.capacity))


def _takes(column: Column, device: Candidate) -> Amounts | None:
    if column is None or not column.eligible & device.bit:
        return None
    return takes_of(column, device)


def _consumed(inventory: NodeInventory, device: Candidate) -> Amounts:
    holders = inventory.device_holders(device)
    capacity = holders.capacity if holders else {}
    return tuple(capacity.get(name, 0) for name in sorted(device.device.capacity))


def _totals(device: Candidate) -> Iterator[tuple[str, int]]:
    for name, capacity in sorted(device.device.capacity.items()):
        yield name, quantity.parse(capacity.value).nano


def _mean_portion(counters: Sequence[CounterRange], need: int) -> float:
    portions = [counter.read(need) / counter.total for counter in counters if counter.total]
    return sum(portions) / len(portions) if portions else 1.0


def _counter_sets(device: Candidate) -> dict[str, None]:
    return {consumed.counter_set: None for consumed in device.device.consumes_counters}


def _union(devices: Iterable[Candidate]) -> int:
    union = 0
    for device in devices:
        union |= device.bit
    return union
