"""Classes of nodes: nodes whose pools have the same devices.

Most fleets have few kinds of nodes. What is read of the devices of one node holds for its class. A
search that finds devices on one node finds those with the same numbers on every node of the class
where the same devices are taken (`placement`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.checks.capacity import Demand
from dray.allocator.checks.counters import PoolCounters
from dray.allocator.inventory.pools import PoolOnNode
from dray.allocator.model.attributes import Value
from dray.allocator.model.candidates import Candidate
from dray.api import well_known
from dray.api.types.dra import Device, DeviceCapacity
from dray.api.types.nodes import Node

_CLASSES_LIMIT = 1 << 10
_SEEN_LIMIT = 1 << 12

ShapeGroups = list[tuple[Hashable, int]]
"""Devices by shape: the shape, and the set of devices that have it."""


class FoundDevices(NamedTuple):
    """The devices of a node that one alternative of a request could use, as sets."""

    eligible: int
    """Those that pass every check that looks at a device alone."""
    selected: int
    """Those that pass the checks among these whose evaluation may raise an error."""
    failing: int
    """Those on which a selector or a capacity raises an error when they are visited."""
    demands: list[tuple[int, Demand]]
    """What the alternative takes of them, each demand with its devices."""


class DeviceFacts:
    """The facts about the devices of a node that `NodeInventory` has read so far."""

    __slots__ = (
        "capacities",
        "excludable",
        "found",
        "groups",
        "unusable",
        "value_masks",
        "values",
    )

    def __init__(self) -> None:
        self.capacities: list[tuple[Mapping[str, DeviceCapacity], int]] | None = None
        self.excludable: list[tuple[Candidate, int]] | None = None
        self.found: dict[Hashable, FoundDevices] = {}
        """The devices that pass what is checked of a device alone, by what is asked for."""
        self.groups: dict[tuple[int, Hashable], ShapeGroups] = {}
        """The devices of a pool by shape, for each pool and reader of shapes."""
        self.unusable: int | None = None
        self.values: dict[str, list[Value | None]] = {}
        self.value_masks: dict[str, dict[Value, int]] = {}


class NumberedPool(NamedTuple):
    """The numbers of the devices of a pool, which are the same on every node of a class."""

    indexes: dict[str, int]
    """By name; empty before a node of the class reads them."""
    members: int
    counters: PoolCounters | None


class NumberedDevices(NamedTuple):
    """The numbers of the devices of one node of a class, which are those on all of them."""

    everything: int
    pools: Sequence[NumberedPool]
    shareable: int
    partitions: int
    possibly_excluded: int
    uses_node_resources: bool


class NodeClass:
    """The common part of nodes with the same devices."""

    __slots__ = ("_kept", "facts", "numbered")

    def __init__(self, pools: Sequence[PoolOnNode]) -> None:
        self.facts = DeviceFacts()
        self.numbered: NumberedDevices | None = None
        self._kept = [
            (pool.counter_sets, [found.spec.devices for found in pool.slices]) for pool in pools
        ]
        """What the key of the class names by its identity."""


class NodeClasses:
    """The classes of the nodes of one cluster; it forgets them when it reaches its limit."""

    def __init__(self) -> None:
        self._classes: dict[Hashable, NodeClass] = {}
        self._seen: dict[int, Sequence[Device]] = {}
        """The devices of slices, by their identity."""

    def clear(self) -> None:
        self._classes.clear()
        self._seen.clear()

    def find(self, node: Node, pools: Sequence[PoolOnNode]) -> NodeClass | None:
        """Return the class of a node with these pools, or None if no node is like it so far."""
        if self._has_new_devices(pools):
            return None
        key = _key(node, pools)
        if key is None:
            return None
        found = self._classes.get(key)
        if found is None:
            if len(self._classes) >= _CLASSES_LIMIT:
                self._classes.clear()
            found = self._classes[key] = NodeClass(pools)
        return found

    def _has_new_devices(self, pools: Iterable[PoolOnNode]) -> bool:
        """Return whether no node before had the devices of some slice, and note these."""
        # Where no two nodes are alike, this is all that classes cost.
        is_new = False
        for pool in pools:
            for resource_slice in pool.slices:
                devices = resource_slice.spec.devices
                if id(devices) not in self._seen:
                    if len(self._seen) >= _SEEN_LIMIT:
                        self._seen.clear()
                    self._seen[id(devices)] = devices
                    is_new = True
        return is_new


def _key(node: Node, pools: Sequence[PoolOnNode]) -> Hashable:
    """Return a key that is equal for nodes on which a search goes the same way."""
    key: list[Hashable] = [well_known.OPTIONAL_NODE_OPERATIONS in node.status.declared_features]
    for pool in pools:
        if not pool.is_usable or pool.slices_elsewhere:
            return None
        # Slices with equal devices share the tuple of them, and those with equal counter sets share
        # these (`interning`).
        key.append(pool.id.driver)
        key += map(id, pool.counter_sets.values())
        for resource_slice in pool.slices:
            spec = resource_slice.spec
            if spec.per_device_node_selection:
                return None
            key += (id(spec.devices), spec.skip_node_operations)
    return tuple(key)
