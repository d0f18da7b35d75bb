"""Nodes that look alike to some claims: one of them is looked at, and counts for all.

A device looks like another one if it agrees with it in all that a gate asks or that is told about
devices, and is held as well or not. Nodes are alike if as many of their devices look the same. Only
nodes whose pools are all their own are compared: a device that several nodes reach counts once, so
what a node adds there depends on the nodes before it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from dray.allocator.checks import taints
from dray.allocator.inventory import pools, shapes
from dray.allocator.inventory.cluster_inventory import ClusterInventory, NodeEntry
from dray.allocator.inventory.pools import PoolOnNode
from dray.allocator.inventory.shapes import Path
from dray.allocator.model import attributes, rejections
from dray.allocator.model.attributes import Value
from dray.allocator.problem.resolution import ResolvedClaim
from dray.api.features import Features
from dray.api.ids import ClaimKey, PoolId
from dray.api.types.dra import Device, DeviceTaintRule, ResourceSlice
from dray.explain.selectors import expressions

_encode = msgspec.msgpack.encode


class EquivalentNode(NamedTuple):
    """A node of a group."""

    node: str
    device_keys: Sequence[int] = ()
    """How each device looks, in the order of the inventory; none for a node that is alone."""
    slices: Sequence[ResourceSlice] = ()
    """What publishes the devices."""

    def devices(self) -> Iterator[tuple[ResourceSlice, Device]]:
        for resource_slice in self.slices:
            for device in resource_slice.spec.devices:
                yield resource_slice, device


EquivalenceClass = list[EquivalentNode]
"""Nodes that look alike; the first stands for all."""


def paths_read(claims: Iterable[ResolvedClaim], features: Features) -> frozenset[Path]:
    """The values of devices that decide at a gate."""
    found: set[Path] = set()
    for claim in claims:
        for alternative in (
            alternative for request in claim.requests for alternative in request.alternatives
        ):
            found.update(*(located.selector.paths for located in alternative.selectors))
            if alternative.parsed.derived:
                found.add(shapes.WHOLE_DEVICE)
        # Otherwise it is enough for constraints that an attribute is there.
        if features.list_type_attributes:
            found.update(map(_path, _constrained_attributes(claim)))
    return frozenset(found)


def _constrained_attributes(claim: ResolvedClaim) -> set[str]:
    """The attributes that constraints name."""
    constraints = claim.parsed.constraints
    return {
        constraint.match_attribute or constraint.distinct_attribute or ""
        for constraint in constraints
    }


def _path(attribute: str) -> Path:
    domain, _, name = attribute.partition("/")
    return expressions.ATTRIBUTES, domain, name


def group_nodes(
    cluster: ClusterInventory, nodes: Iterable[str], paths: Iterable[Path]
) -> list[EquivalenceClass]:
    """The nodes by how they look to whom reads `paths`; groups and nodes in the given order."""
    classifier = _NodeClassifier(cluster, paths)
    groups: list[EquivalenceClass] = []
    groups_by_key: dict[Hashable, EquivalenceClass] = {}
    for node in nodes:
        key, member = classifier.classify(cluster.nodes[node])
        members = [] if key is None else groups_by_key.setdefault(key, [])
        if not members:
            groups.append(members)
        members.append(member)
    return groups


def holders(
    cluster: ClusterInventory, devices: int, one: EquivalentNode, other: EquivalentNode
) -> Iterator[ClaimKey]:
    """Who holds the devices of another member that look like these devices of the one."""
    lost = {key for index, key in enumerate(one.device_keys) if devices >> index & 1}
    device_keys = iter(other.device_keys)
    for resource_slice in other.slices:
        pool = resource_slice.pool_id
        by_device = cluster.pools()[pool].holders.by_device
        for device, key in zip(resource_slice.spec.devices, device_keys, strict=False):
            if key in lost and device.name in by_device:
                yield from by_device[device.name].claims()


def representatives(
    groups: Iterable[EquivalenceClass], claims: Sequence[ResolvedClaim]
) -> dict[str, str]:
    """For each node the first one on which the allocator comes to the same result.

    It goes from device to device, so order matters. Of the values that constraints compare it
    matters which are the same.
    """
    compared = sorted(set().union(*map(_constrained_attributes, claims)))
    found: dict[str, str] = {}
    for members in groups:
        first: dict[Hashable, str] = {}
        for member in members:
            key = (tuple(member.device_keys), *(_pattern(member, name) for name in compared))
            found[member.node] = first.setdefault(key, member.node)
    return found


def _pattern(member: EquivalentNode, attribute: str) -> Hashable:
    """For each device the first one with the same value of an attribute, and what it is."""
    found: list[tuple[str, int]] = []
    first: dict[Value, int] = {}
    for resource_slice, device in member.devices():
        published = attributes.lookup(device, resource_slice.spec.driver, attribute)
        value = attributes.scalar_value(published) if published else attributes.INCOMPARABLE
        found.append((value.kind, first.setdefault(value, len(found))))
    return tuple(found)


class _NodeClassifier:
    """Tells devices from each other as far as claims can."""

    def __init__(self, cluster: ClusterInventory, paths: Iterable[Path]) -> None:
        self._cluster = cluster
        self._pools = cluster.pools()
        self._rules = list(cluster.taint_rules())
        self._shared = [
            resource_slice
            for resource_slice in cluster.slices()
            if not resource_slice.spec.node_name
        ]
        self._paths = sorted(paths)
        self._attributes: dict[str, Sequence[str] | None] = {}
        """By driver."""
        self._numbers: dict[Hashable, int] = {}

    def classify(self, entry: NodeEntry) -> tuple[Hashable | None, EquivalentNode]:
        """What a node has in common with others that look like it; None if it is alone."""
        assert entry.node is not None, "only nodes that are there are asked"
        slices = [*entry.slices.values(), *self._shared] if self._shared else entry.slices.values()
        try:
            pools_on_node = pools.pools_of_node(
                entry.node, slices, self._slices_of, self._cluster.features
            )
        except rejections.AllocationError:
            return None, EquivalentNode(entry.name)
        if not all(map(self._is_comparable, pools_on_node)):
            return None, EquivalentNode(entry.name)
        node_key: list[Hashable] = [entry.node.status.declared_features]
        device_keys: list[int] = []
        for pool in pools_on_node:
            of_pool = [
                key for resource_slice in pool.slices for key in self._device_keys(resource_slice)
            ]
            device_keys += of_pool
            counters = pool.counter_sets and _encode(pool.counter_sets)
            node_key.append((counters or b"", tuple(sorted(of_pool))))
        slices_of_node = [
            resource_slice for pool in pools_on_node for resource_slice in pool.slices
        ]
        return tuple(node_key), EquivalentNode(entry.name, device_keys, slices_of_node)

    def _slices_of(self, pool: PoolId) -> Iterable[ResourceSlice]:
        return self._pools[pool].slices.values()

    def _is_comparable(self, pool: PoolOnNode) -> bool:
        """Whether the node has the pool for itself, and what is held of it are whole devices.

        What partitions leave of each other is hardly ever the same on two nodes.
        """
        by_device = self._pools[pool.id].holders.by_device
        return (
            pool.is_usable
            and not pool.slices_elsewhere
            and all(
                resource_slice.spec.node_name
                and resource_slice.spec.per_device_node_selection is None
                for resource_slice in pool.slices
            )
            and not (by_device and pool.counter_sets)
            and not any(holders.shares for holders in by_device.values())
        )

    def _device_keys(self, resource_slice: ResourceSlice) -> list[int]:
        """A number for each device, the same for those that look the same."""
        driver, pool = resource_slice.spec.driver, resource_slice.spec.pool.name
        by_device = self._pools[PoolId(driver, pool)].holders.by_device
        rules = taints.rules_for_pool(driver, pool, self._rules) if self._rules else ()
        device_keys = [
            (
                values,
                tuple(device.attributes),
                tuple(device.capacity.items()),
                shapes.is_usable(device),
                device.name in by_device,
                _tainted(device, rules) if device.taints or rules else (),
                device.binding_conditions,
                device.allow_multiple_allocations,
                device.consumes_counters and _encode(device.consumes_counters),
                resource_slice.spec.skip_node_operations,
                driver,
            )
            for device, values in zip(
                resource_slice.spec.devices, self._values(resource_slice), strict=True
            )
        ]
        numbers = self._numbers
        return [numbers.setdefault(key, len(numbers)) for key in device_keys]

    def _values(self, resource_slice: ResourceSlice) -> list[Hashable]:
        """The attributes that are read of each device."""
        driver = resource_slice.spec.driver
        if driver not in self._attributes:
            self._attributes[driver] = _attributes_read(self._paths, driver)
        names = self._attributes[driver]
        if names is None:
            return [tuple(device.attributes.values()) for device in resource_slice.spec.devices]
        return [tuple(map(device.attributes.get, names)) for device in resource_slice.spec.devices]


def _attributes_read(paths: Iterable[Path], driver: str) -> Sequence[str] | None:
    """The names of attributes as a driver may publish them; None for all of them.

    What else paths can name, every look takes in.
    """
    names: list[str] = []
    for path in paths:
        match path:
            case (expressions.ATTRIBUTES, domain, name):
                names += [f"{domain}/{name}", name] if domain == driver else [f"{domain}/{name}"]
            case (expressions.CAPACITY, _, _) | ("driver",) | ("allowMultipleAllocations",):
                pass
            case _:
                return None
    return names


def _tainted(device: Device, rules: Sequence[DeviceTaintRule]) -> Hashable:
    found = taints.with_rules(device.taints, device.name, rules)
    return tuple([(taint.key, taint.value, taint.effect) for taint in found])
