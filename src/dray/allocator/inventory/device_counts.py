"""Counts of devices by class and state, updated only for pools that changed.

A device counts once for each class whose selectors it matches, and for the class "" if it matches
none. Of a pool, the newest generation counts. "Free" means that no claim holds the device: a
partition may be free although its counters are used up by others.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dray.allocator.checks import taints
from dray.allocator.checks.taints import prevents_allocation
from dray.allocator.checks.usage import PoolHolders
from dray.allocator.inventory.cluster_inventory import ClusterInventory, PoolEntry
from dray.allocator.inventory.selectors import CachedSelector
from dray.allocator.model.candidates import Candidate
from dray.api.ids import PoolId
from dray.api.semantics import pools
from dray.api.types.dra import DeviceTaint, DeviceTaintRule, ResourceSlice

FREE, ALLOCATED, SHARED, TAINTED = "free", "allocated", "shared", "tainted"
STATES = (FREE, ALLOCATED, SHARED, TAINTED)


class DeviceGroupKey(NamedTuple):
    """The state and class of devices that are counted together."""

    state: str
    class_name: str


_Class = tuple[str, Sequence[CachedSelector]]
"""A class name and its selectors."""


class _Counted(NamedTuple):
    epoch: int
    version: int
    slices: tuple[ResourceSlice, ...]
    groups: Counter[DeviceGroupKey]


class DeviceCounts:
    """Counts devices; a pool's counts are cached until slices, claims, classes or rules change."""

    def __init__(self, cluster: ClusterInventory) -> None:
        self._cluster = cluster
        self._pools: dict[PoolId, _Counted] = {}
        self._total: Counter[DeviceGroupKey] = Counter()

    def counts(self) -> dict[DeviceGroupKey, int]:
        """Return the counts; groups that had devices before and have none now count 0."""
        entries = self._cluster.pools()
        for pool_id in self._pools.keys() - entries.keys():
            self._total.subtract(self._pools.pop(pool_id).groups)
        classes = self._classes()
        for pool_id, entry in entries.items():
            cached = self._pools.get(pool_id)
            if cached is not None:
                if self._is_current(cached, entry):
                    continue
                self._total.subtract(cached.groups)
            counted = self._count(pool_id, entry, classes)
            self._pools[pool_id] = counted
            self._total.update(counted.groups)
        return dict(self._total)

    def _is_current(self, cached: _Counted, entry: PoolEntry) -> bool:
        return (
            cached.version == entry.holders.version
            and cached.epoch == self._cluster.epoch
            # By identity: a changed slice is a new object.
            and len(cached.slices) == len(entry.slices)
            and all(map(operator.is_, cached.slices, entry.slices.values()))
        )

    def _classes(self) -> list[_Class]:
        find = self._cluster.selectors.selector
        return [
            (name, [find(item.cel.expression) for item in device_class.spec.selectors if item.cel])
            for name, device_class in self._cluster.classes.items()
        ]

    def _count(self, pool_id: PoolId, entry: PoolEntry, classes: Sequence[_Class]) -> _Counted:
        rules = taints.rules_for_pool(*pool_id, self._cluster.taint_rules())
        candidates = list(_current_devices(entry))
        states = [_state(candidate, entry.holders, rules) for candidate in candidates]
        groups = Counter[DeviceGroupKey]()
        for name, matching in _by_class(candidates, classes):
            for state, count in Counter(itertools.compress(states, matching)).items():
                groups[DeviceGroupKey(state, name)] = count
        slices = tuple(entry.slices.values())
        return _Counted(self._cluster.epoch, entry.holders.version, slices, groups)


def _by_class(
    candidates: Sequence[Candidate], classes: Sequence[_Class]
) -> Iterator[tuple[str, Sequence[bool]]]:
    """Yield for each class which devices match it; last, for "", which match none."""
    unmatched = [True] * len(candidates)
    for name, selectors in classes:
        accepted = [selector.accepts(candidates) for selector in selectors]
        columns = [[True] * len(candidates), *accepted]
        matching = list(map(all, zip(*columns, strict=True)))
        unmatched = list(map(operator.gt, unmatched, matching))
        yield name, matching
    yield "", unmatched


def _current_devices(entry: PoolEntry) -> Iterator[Candidate]:
    """Yield the devices of the pool's newest generation."""
    for resource_slice in pools.current_slices(list(entry.slices.values())):
        for index, device in enumerate(resource_slice.spec.devices):
            driver = resource_slice.spec.driver
            yield Candidate(index, 1 << index, 0, driver, resource_slice, device)


def _state(candidate: Candidate, holders: PoolHolders, rules: Sequence[DeviceTaintRule]) -> str:
    device = candidate.device
    holder = holders.by_device.get(device.name)
    if holder is None and not (device.taints or rules):
        return FREE
    return device_state(
        is_owned=holder is not None and bool(holder.owners),
        is_shared=holder is not None and bool(holder.shares),
        taints=taints.with_rules(device.taints, device.name, rules),
    )


def device_state(*, is_owned: bool, is_shared: bool, taints: Iterable[DeviceTaint]) -> str:
    """Return the state of a device: `allocated`, `shared`, `tainted` or `free`.

    `is_owned` means that one claim holds the whole device, `is_shared` that claims hold shares of
    it; claims with admin access hold nothing. A holder counts before a taint: a tainted device
    that a pod still uses is in use. `tainted` devices are those that nobody holds and that only
    claims with a toleration can get.
    """
    if is_owned:
        return ALLOCATED
    if is_shared:
        return SHARED
    return TAINTED if any(map(prevents_allocation, taints)) else FREE
