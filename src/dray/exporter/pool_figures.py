"""The figures of one pool: its devices by node, class and state, and what is left to place.

A device and its partitions share counters and are counted once, as one device. Each class sees
those parts of it that it matches: some may be held, and others available.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dray.allocator import device_counts, device_groups, device_states
from dray.allocator.device_counts import SelectingClass
from dray.allocator.device_states import DeviceAvailability, DeviceState
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.ids import DeviceId, PoolId
from dray.api.semantics import pools
from dray.exporter.metric_table import NONE
from dray.partitions import largest_partition


class ClassView(NamedTuple):
    """A device with its partitions as one class sees it."""

    device_class: str
    state: DeviceState
    is_tainted: bool = False
    """Whether only claims with a toleration could get what is available of it."""


class LargestPartition(NamedTuple):
    """The largest part of a device that a claim could get now, and all of it is 1."""

    node: str
    device: str
    ratio: float


class DeviceViews(NamedTuple):
    """The node of a device, and how classes see it; what agrees in both is counted together."""

    node: str
    views: tuple[ClassView, ...]


class PoolFigures(NamedTuple):
    """The numbers of one pool."""

    devices: Mapping[DeviceViews, int] = {}
    tainted: Mapping[str, int] = {}
    """By node."""
    unhealthy: Mapping[str, int] = {}
    partitions: Sequence[LargestPartition] = ()
    slices: int = 0
    is_complete: bool = False

    def nodes(self) -> set[str]:
        return {group.node for group in self.devices}


def count(
    cluster: ClusterInventory, pool_id: PoolId, classes: Sequence[SelectingClass]
) -> PoolFigures:
    """Return the figures of a pool; those of an empty one if it does not exist."""
    entry = cluster.pools().get(pool_id)
    if entry is None:
        return PoolFigures()
    slices = list(entry.slices.values())
    current = pools.current_slices(slices)
    members = list(device_states.devices_of_pool(cluster, pool_id))
    classes_of = _classes_of(members, classes)
    devices: Counter[DeviceViews] = Counter()
    tainted: Counter[str] = Counter()
    unhealthy: Counter[str] = Counter()
    partitions = []
    for group in device_groups.groups(members):
        node = device_groups.node_of(group[0], slices) or NONE
        devices[DeviceViews(node, _views(group, classes_of))] += 1
        tainted[node] += any(device.is_tainted for device in group)
        unhealthy[node] += any(device.is_unhealthy for device in group)
        if len(group) > 1:
            device = DeviceId(*pool_id, device_groups.root(group[0]))
            largest = largest_partition.of_group(group)
            ratio = largest.share if largest is not None else 0.0
            partitions.append(LargestPartition(node, str(device), ratio))
    is_complete = bool(current) and len(current) == current[0].spec.pool.resource_slice_count
    return PoolFigures(devices, tainted, unhealthy, partitions, len(slices), is_complete)


def _classes_of(
    members: Sequence[DeviceAvailability], classes: Sequence[SelectingClass]
) -> dict[str, list[str]]:
    """Return the classes of each published device."""
    published = [device for device in members if device.device is not None]
    found: dict[str, list[str]] = {device.id.device: [] for device in published}
    for name, matching in device_counts.by_class(published, classes):
        for device, matches in zip(published, matching, strict=True):
            if matches:
                found[device.id.device].append(name or NONE)
    return found


def _views(
    group: Sequence[DeviceAvailability], classes_of: Mapping[str, Sequence[str]]
) -> tuple[ClassView, ...]:
    parts: dict[str, list[DeviceAvailability]] = {}
    for device in group:
        for name in classes_of.get(device.id.device, (NONE,)):
            parts.setdefault(name, []).append(device)
    if len(parts) > 1:
        # What one class matches is not also counted as matching none.
        parts.pop(NONE, None)
    return tuple(_view(name, matched) for name, matched in sorted(parts.items()))


def _view(name: str, parts: Sequence[DeviceAvailability]) -> ClassView:
    available = [device for device in parts if device.state in device_groups.AVAILABLE]
    is_tainted = bool(available) and all(device.is_tainted for device in available)
    return ClassView(name, device_groups.combined(device.state for device in parts), is_tainted)
