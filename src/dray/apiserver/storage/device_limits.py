"""Finds what an allocation would use up beyond what is published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dray.api.features import Features
from dray.api.formats import quantity
from dray.api.ids import DeviceId, PoolId
from dray.api.types import dra
from dray.apiserver.storage.device_usage import DeviceUsage, DeviceUse


class Overuse(NamedTuple):
    """A reason against an allocation, and the keys of the claims that have what it needs."""

    what: str
    holders: tuple[str, ...] = ()


class _Drawing(NamedTuple):
    """A device that draws from a counter set."""

    consumption: dra.DeviceCounterConsumption
    holders: tuple[str, ...]


def find_overuse(
    usage: DeviceUsage, features: Features, claim: str, uses: tuple[DeviceUse, ...]
) -> Overuse | None:
    """Return the first reason against an allocation, or None. `claim` is the key of its claim."""
    search = _Search(usage, claim, uses)
    for overuse in search.repeated():
        return overuse
    if features.consumable_capacity:
        for overuse in search.shares():
            return overuse
    if features.partitionable_devices:
        for overuse in search.counters(mixes_groups=not features.device_compatibility_groups):
            return overuse
    return None


class _Search:
    """One allocation against the uses of all other claims."""

    def __init__(self, usage: DeviceUsage, claim: str, uses: tuple[DeviceUse, ...]) -> None:
        self._usage, self._claim, self._uses = usage, claim, uses
        self._own = dict.fromkeys(use.device for use in uses)

    def repeated(self) -> Iterator[Overuse]:
        for device in self._own:
            own = [use for use in self._uses if use.device == device]
            if len(own) > 1 and not all(use.is_share for use in own):
                yield Overuse(f"device {device} is in the allocation more than once")

    def shares(self) -> Iterator[Overuse]:
        for device in self._own:
            own = [use for use in self._uses if use.device == device]
            others = self._usage.users(device, self._claim)
            taken = [use for uses in others.values() for use in uses]
            if not all(use.is_share for use in own) and any(use.is_share for use in taken):
                yield Overuse(f"device {device} is shared by other claims", tuple(others))
            if any(use.is_share for use in own):
                yield from self._share(device, own, others)

    def _share(
        self, device: DeviceId, own: list[DeviceUse], others: Mapping[str, tuple[DeviceUse, ...]]
    ) -> Iterator[Overuse]:
        published = self._usage.published.device(device)
        if published is None:
            return
        if not published.device.allow_multiple_allocations:
            yield Overuse(f"device {device} does not allow multiple allocations", tuple(others))
        taken = [*own, *(use for uses in others.values() for use in uses)]
        for name, capacity in published.device.capacity.items():
            used = sum(_nano(use.consumed.get(name, "0")) for use in taken)
            total = _nano(capacity.value)
            if used > total:
                yield Overuse(
                    f"device {device} has {_text(total)} of the capacity {name}, "
                    f"and all shares together would use {_text(used)}",
                    tuple(others),
                )

    def counters(self, *, mixes_groups: bool) -> Iterator[Overuse]:
        drawn: dict[tuple[PoolId, str], list[_Drawing]] = {}
        for device in self._own:
            for consumption in self._consumption(device):
                own = drawn.setdefault((device.pool_id, consumption.counter_set), [])
                own.append(_Drawing(consumption, ()))
        others = {pool: list(self._others(pool)) for pool in {pool for pool, _ in drawn}}
        for (pool, name), own in drawn.items():
            drawings = own + [item for item in others[pool] if item.consumption.counter_set == name]
            yield from self._counter_set(pool, name, drawings)
            if not mixes_groups:
                yield from _groups(pool, name, drawings)

    def _others(self, pool: PoolId) -> Iterator[_Drawing]:
        """Yield what other devices in use draw. A device draws once, however often it is shared."""
        for device, holders in self._usage.used_devices(pool, self._claim):
            if device not in self._own:
                for consumption in self._consumption(device):
                    yield _Drawing(consumption, tuple(holders))

    def _consumption(self, device: DeviceId) -> tuple[dra.DeviceCounterConsumption, ...]:
        published = self._usage.published.device(device)
        return published.device.consumes_counters if published else ()

    def _counter_set(self, pool: PoolId, name: str, drawings: list[_Drawing]) -> Iterator[Overuse]:
        published = self._usage.published.counters(pool, name)
        totals = published.counters if published else {}
        for counter in dict.fromkeys(
            name for item in drawings for name in item.consumption.counters
        ):
            drawing = [item for item in drawings if counter in item.consumption.counters]
            used = sum(_nano(item.consumption.counters[counter].value) for item in drawing)
            total = _nano(totals[counter].value) if counter in totals else 0
            if used > total:
                yield Overuse(
                    f"counter {counter} of the counter set {name} in pool {pool} has "
                    f"{_text(total)}, and all devices together would use {_text(used)}",
                    _holders(drawing),
                )


def _groups(pool: PoolId, name: str, drawings: list[_Drawing]) -> Iterator[Overuse]:
    groups = [frozenset(item.consumption.compatibility_groups) for item in drawings]
    if any(groups) and not frozenset.intersection(*groups):
        yield Overuse(
            f"the devices that consume the counter set {name} in pool {pool} would have no "
            "compatibility group in common",
            _holders(drawings),
        )


def _holders(drawings: list[_Drawing]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for item in drawings for key in item.holders))


def _nano(text: str) -> int:
    return quantity.parse(text).nano


def _text(nano: int) -> str:
    return str(quantity.Quantity(nano, quantity.QuantityFormat.BINARY_SI))
