"""Partitionable devices: the shared counters of a pool, packed into integers.

`PoolCounters` gives every counter of a pool a range of bits in one integer, wide enough for the sum
of all that could ever be taken, with a guard bit on top. What is left minus what a device needs
keeps every guard bit if and only if no counter of the pool is below zero, so a partition is checked
with one subtraction. Upstream rejects every partition of a pool in which any counter is overdrawn
(incubating/allocator_incubating.go checkAvailableCounters); so does this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.model import rejections
from dray.allocator.model.candidates import Candidate, Check, Slot
from dray.allocator.model.rejections import DeviceRejection, InsufficientCounter
from dray.allocator.model.requests import Alternative
from dray.allocator.model.trail import Trail
from dray.api.formats import quantity
from dray.api.ids import ClaimKey
from dray.api.types.dra import CounterSet, Device

CounterKey = tuple[str, str]
"""Counter set and counter."""

HoldersOn = Callable[[int, str], tuple[ClaimKey, ...]]
"""Returns the claims whose devices draw from a counter set, given the pool's index."""


class PackedCounter(NamedTuple):
    """The bits of one counter, and how many nano units its lowest bit is worth."""

    key: CounterKey
    shift: int
    width: int
    unit: int

    @property
    def mask(self) -> int:
        return ((1 << self.width) - 1) << self.shift

    def read(self, packed: int) -> int:
        return (packed >> self.shift) & ((1 << self.width) - 1)

    def text(self, steps: int) -> str:
        return str(quantity.Quantity(steps * self.unit, quantity.QuantityFormat.BINARY_SI))


class CounterConsumers(NamedTuple):
    """The devices that draw from a counter, and the smallest amount that one of them takes."""

    counter: PackedCounter
    devices: int
    least: int


class Partitions:
    """The partitions of a pool on a node: the same on every node of a class."""

    __slots__ = ("by_need", "consumers")

    def __init__(self) -> None:
        self.by_need: Sequence[tuple[int, int]] | None = None
        """The packed amounts that devices need, each with the devices that need it."""
        self.consumers: Sequence[CounterConsumers] | None = None


class PoolCounters:
    """The counters of one pool, for the devices that one node sees."""

    __slots__ = ("_layout", "_partitions", "guards", "left", "needs")

    def __init__(self, layout: CounterLayout, partitions: Partitions | None = None) -> None:
        self._layout = layout
        self._partitions = partitions or Partitions()
        self.guards = layout.guards
        self.left = layout.guards + layout.total
        self.needs = layout.needs
        """The packed amounts that devices take, by name."""

    def for_alike_pool(self) -> PoolCounters:
        """Return the counters of a pool with the same devices, of which nothing is taken."""
        return PoolCounters(self._layout, self._partitions)

    def charge(self, device: str) -> None:
        """Subtract what an allocated device takes, also if that is more than is left."""
        self.left -= self.needs.get(device, 0)

    def refund(self, device: str) -> None:
        self.left += self.needs.get(device, 0)

    def allows(self, left: int, need: int) -> bool:
        return (left - need) & self.guards == self.guards

    def consumers(self, devices: Iterable[Candidate]) -> Sequence[CounterConsumers]:
        """Return who draws from each counter, among the pool's devices on the node."""
        found = self._partitions.consumers
        if found is None:
            needs = tuple([(device.bit, device.need) for device in devices])
            found = self._partitions.consumers = self._layout.consumers(needs)
        return found

    def by_need(self, devices: Iterable[Candidate]) -> Sequence[tuple[int, int]]:
        """Return what the pool's partitions on the node need, each with those that need it."""
        found = self._partitions.by_need
        if found is None:
            needing: dict[int, int] = {}
            for device in devices:
                needing[device.need] = needing.get(device.need, 0) | device.bit
            found = self._partitions.by_need = list(needing.items())
        return found

    def missing(self, need: int) -> Iterator[tuple[PackedCounter, int]]:
        """Yield the counters of which too little is left, with how many steps have to be refunded.

        A counter that is overdrawn is among them whatever is needed, because it rejects everything.
        """
        for counter in self._layout.counters.values():
            guarded = (self.left >> counter.shift) & ((2 << counter.width) - 1)
            steps = counter.read(need) - (guarded - (1 << counter.width))
            if steps > 0:
                yield counter, steps

    def portion(self, need: int) -> float:
        """Return the fraction of each counter that `need` is, summed over the counters."""
        counters, total = self._layout.counters.values(), self._layout.total
        return sum(counter.read(need) / (counter.read(total) or 1) for counter in counters)

    def portion_used(self, need: int) -> float:
        """Return the fraction that is taken of the counters `need` draws from, summed."""
        return sum(
            1 - (counter.read(self.left) / (counter.read(self._layout.total) or 1))
            for counter in self._layout.counters.values()
            if counter.read(need)
        )

    def of_set(self, counter_set: str) -> list[tuple[PackedCounter, int]]:
        """Return the counters of a set, which lie side by side, with their totals."""
        return [
            (counter, counter.read(self._layout.total))
            for (name, _), counter in self._layout.counters.items()
            if name == counter_set
        ]

    def shortage(self, left: int, need: int) -> tuple[PackedCounter, int, int]:
        """Return the counter that `need` would overdraw, the amount needed and the amount left."""
        after = left - need
        counter = next(
            counter
            for counter in self._layout.counters.values()
            if not after >> (counter.shift + counter.width) & 1
        )
        needed = counter.read(need)
        return counter, needed, counter.read(after) - (1 << counter.width) + needed


class CounterLayout:
    """The bits of a pool's counters: equal for all pools with the same counters and partitions."""

    __slots__ = ("_consumers", "counters", "guards", "needs", "sources", "total")

    def __init__(self, counter_sets: Mapping[str, CounterSet], consuming: Sequence[Device]) -> None:
        totals = {
            (name, key): _nano(counter.value)
            for name, counter_set in counter_sets.items()
            for key, counter in counter_set.counters.items()
        }
        amounts = [_amounts(device) for device in consuming]
        self.counters = _lay_out(totals, amounts)
        self.guards = sum(
            1 << (counter.shift + counter.width) for counter in self.counters.values()
        )
        self.total = self._packed(totals)
        self.needs = {
            device.name: self._packed(amount)
            for device, amount in zip(consuming, amounts, strict=True)
        }
        self._consumers: dict[Hashable, Sequence[CounterConsumers]] = {}
        self.sources = [device.consumes_counters for device in consuming]
        """Kept, so that their identities stay theirs."""

    def consumers(self, needs: tuple[tuple[int, int], ...]) -> Sequence[CounterConsumers]:
        """Return who draws from each counter, of devices given by their bits and needs."""
        found = self._consumers.get(needs)
        if found is None:
            if len(self._consumers) >= _CONSUMERS_LIMIT:
                self._consumers.clear()
            found = self._consumers[needs] = list(self._consumers_among(needs))
        return found

    def _consumers_among(self, needs: Iterable[tuple[int, int]]) -> Iterator[CounterConsumers]:
        for counter in self.counters.values():
            # Runs for every counter and device of a layout: without `counter.read`.
            mask = counter.mask
            taking = [(bit, need & mask) for bit, need in needs if need & mask]
            if taking:
                least = min([packed for _, packed in taking]) >> counter.shift
                yield CounterConsumers(counter, sum([bit for bit, _ in taking]), least)

    def _packed(self, amounts: Mapping[CounterKey, int]) -> int:
        counters = self.counters
        return sum(
            nano // counters[key].unit << counters[key].shift for key, nano in amounts.items()
        )


_LAYOUTS_LIMIT = 1 << 9
_CONSUMERS_LIMIT = 1 << 5
_layouts: dict[Hashable, CounterLayout] = {}


def layout_of(counter_sets: Mapping[str, CounterSet], devices: Iterable[Device]) -> CounterLayout:
    """Return the layout of the counters of a pool with these devices."""
    consuming = [device for device in devices if device.consumes_counters]
    # Interned slices share what their devices consume (`inventory.interning`), so the pools of a
    # model are recognized without a look inside.
    key = (
        tuple([(device.name, id(device.consumes_counters)) for device in consuming]),
        tuple(
            [
                (name, tuple([(key, counter.value) for key, counter in found.counters.items()]))
                for name, found in counter_sets.items()
            ]
        ),
    )
    layout = _layouts.get(key)
    if layout is None:
        if len(_layouts) >= _LAYOUTS_LIMIT:
            _layouts.clear()
        layout = _layouts[key] = CounterLayout(counter_sets, consuming)
    return layout


def _amounts(device: Device) -> dict[CounterKey, int]:
    amounts: dict[CounterKey, int] = {}
    for consumption in device.consumes_counters:
        for name, counter in consumption.counters.items():
            key = (consumption.counter_set, name)
            amounts[key] = amounts.get(key, 0) + _nano(counter.value)
    return amounts


def _lay_out(
    totals: Mapping[CounterKey, int], needs: Iterable[Mapping[CounterKey, int]]
) -> dict[CounterKey, PackedCounter]:
    values = {key: [total] for key, total in totals.items()}
    for need in needs:
        for key, nano in need.items():
            values[key].append(nano)
    packed = {}
    shift = 0
    for key, steps in values.items():
        # The greatest common divisor keeps the integers small: 40Gi and 10Gi need three bits.
        unit = math.gcd(*steps) or 1
        # Twice the sum: admin access may take a partition that is allocated already.
        width = (2 * sum(steps) // unit).bit_length() + 1
        packed[key] = PackedCounter(key, shift, width, unit)
        shift += width + 1
    return packed


def _nano(text: str) -> int:
    # Validation rejects negative amounts. One that is stored nevertheless counts as zero: a borrow
    # into the next counter would corrupt it.
    return max(quantity.parse(text).nano, 0)


def both_draw(partitions: int, candidates: int, picked: Candidate) -> bool:
    """Return whether `picked` and one of the candidates draw from counters.

    Whether these are the same counters is not looked at: a conflict too many costs time, one too
    few would lose a solution.
    """
    return bool(partitions & picked.bit and partitions & candidates)


class CounterCheck(Check):
    """Checks that a device's pool has enough of every counter left."""

    name = rejections.CheckName.COUNTERS
    __slots__ = (
        "_charged",
        "_devices",
        "_holders_on",
        "_left",
        "_pool_counters",
        "_shareable",
        "_shared",
        "applies_to",
    )

    def __init__(
        self,
        devices: Sequence[Candidate],
        pool_counters: Sequence[PoolCounters | None],
        *,
        partitions: int,
        shareable: int,
        shared: int,
        holders_on: HoldersOn,
    ) -> None:
        self._devices = devices
        self._shareable = shareable
        self._pool_counters = pool_counters
        self._left = [counters.left if counters else 0 for counters in pool_counters]
        self._shared = shared
        self._charged = 0
        self._holders_on = holders_on
        self.applies_to = partitions

    def take(self, slot: Slot, device: Candidate, trail: Trail) -> DeviceRejection | None:
        if self._is_charged(device):
            return None
        pool_index, need = device.pool_index, device.need
        left = self._left[pool_index]
        counters = self._counters_of(pool_index)
        if not counters.allows(left, need):
            return self._shortage(device, counters, left)
        trail.push(self._restore, pool_index, left, self._charged)
        self._left[pool_index] = left - need
        if device.is_shareable:
            self._charged |= device.bit
        return None

    def filter_candidates(self, slot: Slot, candidates: int, needed: int) -> int:
        charged = self._shareable & (self._shared | self._charged)
        kept = candidates & (charged | ~self.applies_to)
        rest = candidates ^ kept
        for pool_index, counters in enumerate(self._pool_counters if rest else ()):
            if counters is None:
                continue
            left, guards = self._left[pool_index], counters.guards
            for need, devices in counters.by_need(self._partitions_of(pool_index)):
                # As `PoolCounters.allows`: this runs for every need of a node.
                if rest & devices and (left - need) & guards == guards:
                    kept |= rest & devices
        if needed > 1 and kept.bit_count() >= needed > self.max_takeable(kept):
            return 0
        return kept

    def max_takeable(self, candidates: int) -> int:
        """Return an upper bound of how many candidates can be taken together, each once."""
        rest = candidates & self.applies_to & ~(self._shared | self._charged)
        most = (candidates & ~rest).bit_count()
        crowded = []
        for pool_index, counters in enumerate(self._pool_counters):
            for consumer in self._consumers(pool_index, counters) if counters else ():
                able = consumer.counter.read(self._left[pool_index]) // consumer.least
                excess = (consumer.devices & rest).bit_count() - able
                if excess > 0:
                    crowded.append((excess, able, consumer.devices))
        # Each counter bounds its own consumers. The bounds add up only over devices that were not
        # counted yet, so the counters that exclude most devices come first.
        for _, able, members in sorted(crowded, reverse=True):
            consuming = (members & rest).bit_count()
            if consuming > able:
                most += able
                rest &= ~members
        return most + rest.bit_count()

    def _partitions_of(self, pool_index: int) -> Iterator[Candidate]:
        for device in self._devices:
            if device.pool_index == pool_index and device.bit & self.applies_to:
                yield device

    def _consumers(self, pool_index: int, counters: PoolCounters) -> Sequence[CounterConsumers]:
        return counters.consumers(
            device for device in self._devices if device.pool_index == pool_index and device.need
        )

    def can_conflict(
        self, slot: Slot, candidates: int, other: Alternative, picked: Candidate
    ) -> bool:
        return both_draw(self.applies_to, candidates, picked)

    def state_key(self, device: Candidate) -> Hashable:
        return self._is_charged(device)

    def _is_charged(self, device: Candidate) -> bool:
        # The first share takes the counters for all shares: skipCounterCheck in allocateDevice,
        # https://github.com/kubernetes/kubernetes/blob/release-1.37/staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go
        return device.is_shareable and bool(device.bit & (self._shared | self._charged))

    def _counters_of(self, pool_index: int) -> PoolCounters:
        counters = self._pool_counters[pool_index]
        assert counters is not None, "only pools with counters have partitions"
        return counters

    def _shortage(
        self, device: Candidate, counters: PoolCounters, left: int
    ) -> InsufficientCounter:
        packed, needed, available = counters.shortage(left, device.need)
        counter_set, counter = packed.key
        return InsufficientCounter(
            device.id,
            counter_set,
            counter,
            needed=packed.text(needed),
            available=packed.text(available),
            holders=self._holders_on(device.pool_index, counter_set),
        )

    def _restore(self, pool_index: int, left: int, charged: int) -> None:
        self._left[pool_index] = left
        self._charged = charged
