"""Equivalence classes of nodes: one node of a class is evaluated and counts for all.

Two devices are equivalent if they agree in all values that filters read or that explanations show,
and if both are allocated or both are free. Two nodes are equivalent if they have equally many
devices of each kind. Only nodes that share no pool are compared: a device that several nodes reach
is counted once, so what a node adds there depends on the nodes before it.
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
    """A node of an equivalence class."""

    node: str
    device_keys: Sequence[int] = ()
    """A key for each device, equal for equivalent ones; empty for a node without equals."""
    slices: Sequence[ResourceSlice] = ()
    """The slices with the devices, in the same order."""

    def devices(self) -> Iterator[tuple[ResourceSlice, Device]]:
        for resource_slice in self.slices:
            for device in resource_slice.spec.devices:
                yield resource_slice, device


EquivalenceClass = list[EquivalentNode]
"""Equivalent nodes; the first one is evaluated."""


def paths_read(claims: Iterable[ResolvedClaim], features: Features) -> frozenset[Path]:
    """Return the paths of all device values on which a filter depends."""
    paths: set[Path] = set()
    for claim in claims:
        for alternative in claim.alternatives():
            paths.update(*(located.selector.paths for located in alternative.selectors))
            if alternative.parsed.derived:
                paths.add(shapes.WHOLE_DEVICE)
        # Without lists, the filter of constraints depends only on whether an attribute exists.
        if features.list_type_attributes:
            paths.update(map(_path, _constrained_attributes(claim)))
    return frozenset(paths)


def _constrained_attributes(claim: ResolvedClaim) -> set[str]:
    """Return the attributes that constraints name."""
    constraints = claim.parsed.constraints
    return {item.match_attribute or item.distinct_attribute or "" for item in constraints}


def _path(attribute: str) -> Path:
    domain, _, name = attribute.partition("/")
    return expressions.ATTRIBUTES, domain, name


def group_nodes(
    cluster: ClusterInventory, nodes: Iterable[str], paths: Iterable[Path]
) -> list[EquivalenceClass]:
    """Group nodes whose devices agree in all `paths`. Keeps the order of `nodes`."""
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
    """Yield the holders of those devices of `other` that are equivalent to `devices` of `one`."""
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
    """Return for each node the first one on which the allocator has the same result.

    The allocator visits devices in order, so the order of devices matters here. Constraints compare
    values with each other, so it matters which devices have equal values, not which values.
    """
    compared = sorted(set().union(*map(_constrained_attributes, claims)))
    representative_of: dict[str, str] = {}
    for members in groups:
        first: dict[Hashable, str] = {}
        for member in members:
            key = (tuple(member.device_keys), *(_pattern(member, name) for name in compared))
            representative_of[member.node] = first.setdefault(key, member.node)
    return representative_of


def _pattern(member: EquivalentNode, attribute: str) -> Hashable:
    """Return for each device the type of an attribute and the first device with an equal value."""
    pattern: list[tuple[str, int]] = []
    first: dict[Value, int] = {}
    for resource_slice, device in member.devices():
        published = attributes.lookup(device, resource_slice.spec.driver, attribute)
        value = attributes.scalar_value(published) if published else attributes.INCOMPARABLE
        pattern.append((value.kind, first.setdefault(value, len(pattern))))
    return tuple(pattern)


class _NodeClassifier:
    """Computes the keys of devices and nodes for some claims."""

    def __init__(self, cluster: ClusterInventory, paths: Iterable[Path]) -> None:
        self._cluster = cluster
        self._pools = cluster.pools()
        self._rules = list(cluster.taint_rules())
        self._shared = [shared for shared in cluster.slices() if not shared.spec.node_name]
        self._paths = sorted(paths)
        self._attributes: dict[str, Sequence[str] | None] = {}
        """By driver."""
        self._numbers: dict[Hashable, int] = {}

    def classify(self, entry: NodeEntry) -> tuple[Hashable | None, EquivalentNode]:
        """Return the node's key, or None if it is not compared with others, and its entry."""
        assert entry.node is not None, "only existing nodes are classified"
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
            of_pool = [key for published in pool.slices for key in self._device_keys(published)]
            device_keys += of_pool
            counters = pool.counter_sets and _encode(pool.counter_sets)
            node_key.append((counters or b"", tuple(sorted(of_pool))))
        slices_on_node = [published for pool in pools_on_node for published in pool.slices]
        return tuple(node_key), EquivalentNode(entry.name, device_keys, slices_on_node)

    def _slices_of(self, pool: PoolId) -> Iterable[ResourceSlice]:
        return self._pools[pool].slices.values()

    def _is_comparable(self, pool: PoolOnNode) -> bool:
        """Return whether no other node uses the pool and no partition or share of it is allocated.

        What allocated partitions leave of the counters is hardly ever the same on two nodes.
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
        """Return a number for each device, equal for equivalent devices."""
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
        """Return the attribute values that are read, for each device."""
        driver = resource_slice.spec.driver
        if driver not in self._attributes:
            self._attributes[driver] = _attributes_read(self._paths, driver)
        names = self._attributes[driver]
        if names is None:
            return [tuple(device.attributes.values()) for device in resource_slice.spec.devices]
        return [tuple(map(device.attributes.get, names)) for device in resource_slice.spec.devices]


def _attributes_read(paths: Iterable[Path], driver: str) -> Sequence[str] | None:
    """Return the attributes that `paths` read, as a driver may publish them; None for all.

    Whatever else a path can name is always part of a device's key.
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
    all_taints = taints.with_rules(device.taints, device.name, rules)
    return tuple([(taint.key, taint.value, taint.effect) for taint in all_taints])
