"""Units of devices as plain values: how much of one is free, and which requests it can serve.

A unit is a device, or a counter set with the partitions that draw from it: mostly one GPU. Units
that are alike and in the same state are equal, on whatever nodes they are, so what is computed for
one of them is valid for all.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import msgspec

Amounts = tuple[int, ...]
"""Amounts of a device's capacities, in nano units."""


class CounterRange(NamedTuple):
    """The bits of one counter in the packed counters of the unit, and its total."""

    shift: int
    width: int
    total: int

    def read(self, packed: int) -> int:
        return packed >> self.shift & (1 << self.width) - 1


class UnitDevice(NamedTuple):
    """A device of a unit."""

    bit: int
    """In the sets of the unit's devices."""
    need: int
    """The counters of the unit that it takes, packed."""
    portion: float
    """The part of the unit that it is, where it can be shared."""
    totals: Amounts | None
    """Its capacities where it can be shared, else None."""
    takes: tuple[Amounts | None, ...]
    """What each column takes of it: nothing where it cannot be shared, None if not eligible."""


class Unit(msgspec.Struct, frozen=True, eq=False):
    """The devices and counters of a unit. Equal units have to be the same object."""

    devices: tuple[UnitDevice, ...]
    counters: tuple[CounterRange, ...]
    guards: int
    """The guard bits of the counters (see `checks.counters`)."""
    digest: int
    """A number that other units do not have, and that is the same in every process."""


class UnitState(NamedTuple):
    """A unit with what is allocated of it."""

    unit: Unit
    left: int
    """The counters that are left, packed."""
    taken: int
    """The devices that claims hold as a whole."""
    consumed: tuple[tuple[int, Amounts], ...] = ()
    """What claims hold of shared devices, by their bits."""

    @property
    def order(self) -> tuple[Any, ...]:
        """Return a key to sort states by, whatever the order in which they were found."""
        return self.unit.digest, self.left, self.taken, self.consumed


class UnitUse(NamedTuple):
    """The use of a unit in some state: what is free, and for which columns."""

    free: float
    """The part of it that is free."""
    takeable: tuple[int, ...]
    """How many of its devices each column can still get."""
    eligible: tuple[int, ...]
    """How many each column could get if all were free."""


def use_of(state: UnitState) -> UnitUse:
    """Return the use of a unit."""
    devices = state.unit.devices
    columns = list(zip(*(device.takes for device in devices), strict=True))
    takeable = [
        sum(
            takes is not None and can_take(state, device, takes)
            for device, takes in zip(devices, column, strict=True)
        )
        for column in columns
    ]
    eligible = [sum(takes is not None for takes in column) for column in columns]
    return UnitUse(_free(state), tuple(takeable), tuple(eligible))


def after(state: UnitState, device: UnitDevice, takes: Amounts) -> UnitState:
    """Return the state after a device is allocated, or after so much of it is."""
    held = dict(state.consumed)
    left = state.left if device.bit in held else state.left - device.need
    if device.totals is None:
        return state._replace(left=left, taken=state.taken | device.bit)
    before = held.get(device.bit, (0,) * len(takes))
    held[device.bit] = tuple(map(sum, zip(before, takes, strict=True)))
    return state._replace(left=left, consumed=tuple(sorted(held.items())))


def can_take(state: UnitState, device: UnitDevice, takes: Amounts) -> bool:
    """Return whether a device that is eligible can be allocated, or so much of it."""
    if state.taken & device.bit:
        return False
    held = next((amounts for bit, amounts in state.consumed if bit == device.bit), None)
    if held is None and device.need and not _allows(state, device.need):
        return False
    return held is None or device.totals is None or _fits(held, takes, device.totals)


def _fits(held: Amounts, takes: Amounts, totals: Amounts) -> bool:
    return all(a + b <= total for a, b, total in zip(held, takes, totals, strict=True))


def _allows(state: UnitState, need: int) -> bool:
    guards = state.unit.guards
    return (state.left - need) & guards == guards


def _free(state: UnitState) -> float:
    counters = state.unit.counters
    devices = {device.bit: device for device in state.unit.devices}
    shared = math.fsum(
        devices[bit].portion * (1 - _most_used(amounts, devices[bit].totals or ()))
        for bit, amounts in state.consumed
    )
    if counters:
        return shared + (_mean_left(state) if _allows(state, 0) else 0.0)
    unused = [bit for bit in devices if not state.taken & bit and bit not in dict(state.consumed)]
    return shared + len(unused)


def _mean_left(state: UnitState) -> float:
    counters = [counter for counter in state.unit.counters if counter.total]
    left = [counter.read(state.left) / counter.total for counter in counters]
    return math.fsum(left) / len(left) if left else 0.0


def _most_used(amounts: Amounts, totals: Amounts) -> float:
    """Return the part that is used of the capacity that is used most."""
    parts = (used / total for used, total in zip(amounts, totals, strict=True) if total)
    return min(max(parts, default=1.0), 1.0)
