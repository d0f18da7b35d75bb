"""Published slices whose devices no node can use, and why."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.inventory.pools import uses_groups
from dray.api.ids import PoolId
from dray.api.selectors import label_selectors, node_selectors
from dray.api.semantics import pools
from dray.api.types.dra import ResourceSlice
from dray.api.types.nodes import Node

_POOLS_KEPT = 5


class UnreachableReason(enum.StrEnum):
    NO_SUCH_NODE = "no such node"
    NO_NODE_MATCHES = "no node matches"
    OLD_GENERATION = "old generation"
    GATE_OFF = "gate off"


class UnreachableSlices(msgspec.Struct, frozen=True):
    """Slices of one pool that are unreachable for one reason."""

    pool: PoolId
    cause: UnreachableReason
    detail: str
    """The node, or the feature gate."""
    slices: int
    devices: int


def find_unreachable_slices(cluster: ClusterInventory) -> tuple[UnreachableSlices, ...]:
    """Return the unreachable slices, by pool and reason, those with most devices first."""
    newest = {
        pool: pools.newest_generation(slices)
        for pool, slices in pools.group_by_pool(cluster.slices()).items()
    }
    nodes = [entry.node for entry in cluster.nodes.values() if entry.node is not None]
    counts: dict[tuple[PoolId, UnreachableReason, str], tuple[int, int]] = {}
    for resource_slice in cluster.slices():
        pool = resource_slice.pool_id
        cause = _cause(resource_slice, newest[pool], nodes, cluster)
        if cause is not None:
            slices, devices = counts.get((pool, *cause), (0, 0))
            counts[pool, *cause] = (slices + 1, devices + len(resource_slice.spec.devices))
    unreachable = [UnreachableSlices(*key, *counts) for key, counts in counts.items() if counts[1]]
    return tuple(sorted(unreachable, key=lambda entry: -entry.devices)[:_POOLS_KEPT])


def _cause(
    resource_slice: ResourceSlice, newest: int, nodes: Sequence[Node], cluster: ClusterInventory
) -> tuple[UnreachableReason, str] | None:
    spec, features = resource_slice.spec, cluster.features
    uses_partitions = spec.per_device_node_selection is not None or spec.shared_counters
    if uses_partitions and not features.partitionable_devices:
        return UnreachableReason.GATE_OFF, "DRAPartitionableDevices"
    if uses_groups(resource_slice) and not features.device_compatibility_groups:
        return UnreachableReason.GATE_OFF, "DRADeviceCompatibilityGroups"
    if spec.pool.generation < newest:
        return UnreachableReason.OLD_GENERATION, ""
    if spec.node_name:
        entry = cluster.nodes.get(spec.node_name)
        is_there = entry is not None and entry.node is not None
        return None if is_there else (UnreachableReason.NO_SUCH_NODE, spec.node_name)
    if spec.node_selector is None:
        return None
    try:
        matches = node_selectors.compile_node_selector(spec.node_selector)
    except label_selectors.SelectorError:
        return None
    if any(matches(node.metadata.labels, node.metadata.name) for node in nodes):
        return None
    return UnreachableReason.NO_NODE_MATCHES, ""
