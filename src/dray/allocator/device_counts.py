"""Counts of devices by class and state, updated only for pools that changed.

A device counts once for each class whose selectors it matches, and for the class "" if it matches
none; missing devices match none. The states are those of `device_states`.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dray.allocator import device_states
from dray.allocator.device_states import DeviceAvailability, DeviceState
from dray.allocator.inventory.cluster_inventory import ClusterInventory, PoolEntry
from dray.allocator.inventory.selectors import CachedSelector
from dray.allocator.model.candidates import Candidate
from dray.api.ids import PoolId
from dray.api.types.dra import ResourceSlice
from dray.api.types.nodes import Node


class DeviceGroupKey(NamedTuple):
    """The properties that devices which are counted together share."""

    state: DeviceState
    class_name: str
    is_tainted: bool = False
    is_unhealthy: bool = False


SelectingClass = tuple[str, Sequence[CachedSelector]]
"""A class name and its selectors."""


class _Counted(NamedTuple):
    epoch: int
    version: int
    slices: tuple[ResourceSlice, ...]
    nodes: Sequence[Node | None] | int
    groups: Counter[DeviceGroupKey]


class DeviceCounts:
    """Counts devices; a pool's counts are cached until what they depend on changes."""

    def __init__(self, cluster: ClusterInventory) -> None:
        self._cluster = cluster
        self._pools: dict[PoolId, _Counted] = {}
        self._total: Counter[DeviceGroupKey] = Counter()

    def counts(self) -> dict[DeviceGroupKey, int]:
        """Return the counts; groups that had devices before and have none now count 0."""
        entries = self._cluster.pools()
        for pool_id in self._pools.keys() - entries.keys():
            self._total.subtract(self._pools.pop(pool_id).groups)
        classes = selecting_classes(self._cluster)
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
            and self._nodes(entry) == cached.nodes
        )

    def _count(
        self, pool_id: PoolId, entry: PoolEntry, classes: Sequence[SelectingClass]
    ) -> _Counted:
        devices = list(device_states.devices_of_pool(self._cluster, pool_id))
        published = [device for device in devices if device.device is not None]
        keys = [_key(device) for device in published]
        groups = Counter(_key(device) for device in devices if device.device is None)
        for name, matching in by_class(published, classes):
            for key, count in Counter(itertools.compress(keys, matching)).items():
                groups[key._replace(class_name=name)] += count
        slices = tuple(entry.slices.values())
        return _Counted(
            self._cluster.epoch, entry.holders.version, slices, self._nodes(entry), groups
        )

    def _nodes(self, entry: PoolEntry) -> Sequence[Node | None] | int:
        """Return what changes with the nodes that the slices of a pool may be for."""
        names = [resource_slice.spec.node_name for resource_slice in entry.slices.values()]
        if not all(names):
            return self._cluster.nodes_version
        return [self._cluster.nodes[name].node for name in names if name]


def devices_of_class(cluster: ClusterInventory, class_name: str) -> Iterator[DeviceAvailability]:
    """Yield the published devices that match a class, with their states."""
    selectors = _selectors(cluster, class_name)
    for pool_id in sorted(cluster.pools()):
        devices = device_states.devices_of_pool(cluster, pool_id)
        published = [device for device in devices if device.device is not None]
        (_, matching), _ = by_class(published, [(class_name, selectors)])
        yield from itertools.compress(published, matching)


def selecting_classes(cluster: ClusterInventory) -> list[SelectingClass]:
    """Return every class with its selectors."""
    return [(name, _selectors(cluster, name)) for name in cluster.classes]


def by_class(
    published: Sequence[DeviceAvailability], classes: Sequence[SelectingClass]
) -> Iterator[tuple[str, Sequence[bool]]]:
    """Yield for each class which devices match it; last, for "", which match none."""
    candidates = [_candidate(number, device) for number, device in enumerate(published)]
    unmatched = [True] * len(candidates)
    for name, selectors in classes:
        accepted = [selector.accepts(candidates) for selector in selectors]
        columns = [[True] * len(candidates), *accepted]
        matching = list(map(all, zip(*columns, strict=True)))
        unmatched = list(map(operator.gt, unmatched, matching))
        yield name, matching
    yield "", unmatched


def _selectors(cluster: ClusterInventory, class_name: str) -> list[CachedSelector]:
    selectors = cluster.classes[class_name].spec.selectors
    return [cluster.selectors.selector(item.cel.expression) for item in selectors if item.cel]


def _key(device: DeviceAvailability) -> DeviceGroupKey:
    return DeviceGroupKey(device.state, "", device.is_tainted, device.is_unhealthy)


def _candidate(number: int, found: DeviceAvailability) -> Candidate:
    assert found.device is not None
    assert found.resource_slice is not None
    return Candidate(number, 1 << number, 0, found.id.driver, found.resource_slice, found.device)
