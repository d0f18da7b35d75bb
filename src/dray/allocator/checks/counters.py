"""Partitionable devices: the shared counters of a pool, packed into integers.

A `Ledger` gives every counter of a pool a field in one integer, wide enough for the sum of all that
could ever be taken, with a guard bit on top. What is left minus what a device needs keeps every
guard bit if and only if no counter of the pool is below zero, so a partition is checked with one
subtraction. Upstream refuses every partition of a pool in which any counter is overdrawn
(incubating/allocator_incubating.go checkAvailableCounters); so does this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.model import rejections
from dray.allocator.model.candidates import Candidate, Slot
from dray.allocator.model.requests import Alternative
from dray.allocator.model.trail import Trail
from dray.api.formats import quantity
from dray.api.ids import ClaimKey
from dray.api.types.dra import CounterSet, Device

CounterKey = tuple[str, str]
"""Counter set and counter."""

HoldersOn = Callable[[int, str], tuple[ClaimKey, ...]]
"""The claims whose devices draw from a counter set of a section."""


class PackedCounter(NamedTuple):
    """Where a counter is, and how many nano units one step of it is worth."""

    key: CounterKey
    shift: int
    width: int
    unit: int

    def read(self, packed: int) -> int:
        return (packed >> self.shift) & ((1 << self.width) - 1)

    def text(self, steps: int) -> str:
        return str(quantity.Quantity(steps * self.unit, quantity.Format.BINARY_SI))


class CounterConsumers(NamedTuple):
    """The devices that draw from a counter, and the least that one of them takes."""

    field: PackedCounter
    devices: int
    least: int


class PoolCounters:
    """The counters of one pool as one node sees it."""

    __slots__ = ("_draws", "_fields", "_total", "guards", "left", "needs")

    def __init__(self, counter_sets: Mapping[str, CounterSet], devices: Iterable[Device]) -> None:
        consuming = [device for device in devices if device.consumes_counters]
        totals = {
            (name, key): _nano(counter.value)
            for name, counter_set in counter_sets.items()
            for key, counter in counter_set.counters.items()
        }
        amounts = [_amounts(device) for device in consuming]
        self._fields = _lay_out(totals, amounts)
        self.guards = sum(1 << (field.shift + field.width) for field in self._fields.values())
        self._total = self._packed(totals)
        self.left = self.guards + self._total
        self.needs = {
            device.name: self._packed(amount)
            for device, amount in zip(consuming, amounts, strict=True)
        }
        """What each device takes, packed."""
        self._draws: Sequence[CounterConsumers] | None = None

    def charge(self, device: str) -> None:
        """An allocated device has its counters, even if others hold more than there are."""
        self.left -= self.needs.get(device, 0)

    def refund(self, device: str) -> None:
        self.left += self.needs.get(device, 0)

    def allows(self, left: int, need: int) -> bool:
        return (left - need) & self.guards == self.guards

    def draws(self, devices: Iterable[Candidate]) -> Sequence[CounterConsumers]:
        """Who draws from each counter, among the pool's devices on the node."""
        if self._draws is None:
            needs = [(device.bit, device.need) for device in devices]
            self._draws = [
                CounterConsumers(
                    field, sum(bit for bit, _ in taking), min(steps for _, steps in taking)
                )
                for field in self._fields.values()
                if (taking := [(bit, field.read(need)) for bit, need in needs if field.read(need)])
            ]
        return self._draws

    def portion(self, need: int) -> float:
        """How much of each counter's total `need` is, summed over the counters."""
        return sum(
            field.read(need) / (field.read(self._total) or 1) for field in self._fields.values()
        )

    def portion_used(self, need: int) -> float:
        """How much of the counters that `need` draws from is taken."""
        return sum(
            1 - (field.read(self.left) / (field.read(self._total) or 1))
            for field in self._fields.values()
            if field.read(need)
        )

    def shortage(self, left: int, need: int) -> tuple[PackedCounter, int, int]:
        """The counter that is overdrawn if `need` is taken: field, needed, available."""
        after = left - need
        field = next(
            field for field in self._fields.values() if not after >> (field.shift + field.width) & 1
        )
        wanted = field.read(need)
        return field, wanted, field.read(after) - (1 << field.width) + wanted

    def _packed(self, amounts: Mapping[CounterKey, int]) -> int:
        fields = self._fields
        return sum(nano // fields[key].unit << fields[key].shift for key, nano in amounts.items())


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
    fields = {}
    shift = 0
    for key, steps in values.items():
        unit = math.gcd(*steps) or 1
        # Twice the sum: admin access may take a partition that is allocated already.
        width = (2 * sum(steps) // unit).bit_length() + 1
        fields[key] = PackedCounter(key, shift, width, unit)
        shift += width + 1
    return fields


def _nano(text: str) -> int:
    """Validation refuses negative amounts; one that is there nevertheless counts as zero."""
    return max(quantity.parse(text).nano, 0)


def both_draw(partitions: int, candidates: int, picked: Candidate) -> bool:
    """Return whether `picked` and one of the candidates draw from counters.

    Whether these are the same counters is not looked at: a conflict too many costs time, one too
    few would lose a solution.
    """
    return bool(partitions & picked.bit and partitions & candidates)


class CounterCheck:
    """The check that a device's pool has enough of every counter left."""

    name = rejections.CheckName.COUNTERS
    __slots__ = (
        "_charged",
        "_devices",
        "_holders_on",
        "_ledgers",
        "_left",
        "_shared",
        "applies_to",
    )

    def __init__(
        self,
        devices: Sequence[Candidate],
        ledgers: Sequence[PoolCounters | None],
        *,
        partitions: int,
        shared: int,
        holders_on: HoldersOn,
    ) -> None:
        self._devices = devices
        self._ledgers = ledgers
        self._left = [ledger.left if ledger else 0 for ledger in ledgers]
        self._shared = shared
        self._charged = 0
        self._holders_on = holders_on
        self.applies_to = partitions

    def take(
        self, slot: Slot, device: Candidate, trail: Trail
    ) -> rejections.DeviceRejection | None:
        if self._is_paid(device):
            return None
        section, need = device.section, device.need
        left = self._left[section]
        ledger = self._ledger(section)
        if not ledger.allows(left, need):
            return self._shortage(device, ledger, left)
        trail.push(self._restore, section, left, self._charged)
        self._left[section] = left - need
        if device.is_shareable:
            self._charged |= device.bit
        return None

    def filter_candidates(self, slot: Slot, candidates: int, wanted: int) -> int:
        kept = candidates & ~self.applies_to
        rest = candidates & self.applies_to
        while rest:
            bit = rest & -rest
            rest ^= bit
            device = self._devices[bit.bit_length() - 1]
            section = device.section
            if self._is_paid(device) or self._ledger(section).allows(
                self._left[section], device.need
            ):
                kept |= bit
        if wanted > 1 and kept.bit_count() >= wanted > self.max_takeable(kept):
            return 0
        return kept

    def max_takeable(self, candidates: int) -> int:
        """An upper bound of how many of the candidates can be taken together, each once."""
        rest = candidates & self.applies_to & ~(self._shared | self._charged)
        most = (candidates & ~rest).bit_count()
        crowded = []
        for section, ledger in enumerate(self._ledgers):
            for draw in self._draws(section, ledger) if ledger else ():
                able = draw.field.read(self._left[section]) // draw.least
                excess = (draw.devices & rest).bit_count() - able
                if excess > 0:
                    crowded.append((excess, able, draw.devices))
        for _, able, members in sorted(crowded, reverse=True):
            drawing = (members & rest).bit_count()
            if drawing > able:
                most += able
                rest &= ~members
        return most + rest.bit_count()

    def _draws(self, section: int, ledger: PoolCounters) -> Sequence[CounterConsumers]:
        return ledger.draws(
            device for device in self._devices if device.section == section and device.need
        )

    def can_conflict(
        self, slot: Slot, candidates: int, other: Alternative, picked: Candidate
    ) -> bool:
        return both_draw(self.applies_to, candidates, picked)

    def state_key(self, device: Candidate) -> Hashable:
        return self._is_paid(device)

    def _is_paid(self, device: Candidate) -> bool:
        """The first share of a device pays for all (allocateDevice, skipCounterCheck)."""
        return device.is_shareable and bool(device.bit & (self._shared | self._charged))

    def _ledger(self, section: int) -> PoolCounters:
        ledger = self._ledgers[section]
        assert ledger is not None, "only pools with counters have partitions"
        return ledger

    def _shortage(
        self, device: Candidate, ledger: PoolCounters, left: int
    ) -> rejections.InsufficientCounter:
        field, wanted, available = ledger.shortage(left, device.need)
        counter_set, counter = field.key
        return rejections.InsufficientCounter(
            device.id,
            counter_set,
            counter,
            needed=field.text(wanted),
            available=field.text(available),
            holders=self._holders_on(device.section, counter_set),
        )

    def _restore(self, section: int, left: int, charged: int) -> None:
        self._left[section] = left
        self._charged = charged
