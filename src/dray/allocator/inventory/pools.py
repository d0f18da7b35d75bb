"""The pools that one node sees: generation, completeness, validity, node selection.

Follows structured/internal/incubating/pools_incubating.go GatherPools. The order of pools, slices
and devices is the order in which the search visits devices.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.model.rejections import AllocationError
from dray.api.features import Features
from dray.api.ids import PoolId
from dray.api.selectors import label_selectors, node_selectors
from dray.api.types.dra import CounterSet, Device, ResourceSlice
from dray.api.types.meta import NodeSelector, NodeSelectorRequirement
from dray.api.types.nodes import Node

SlicesOfPool = Callable[[PoolId], Iterable[ResourceSlice]]
"""Returns every slice of a pool in the cluster, of any generation and for any node."""


class PoolOnNode(NamedTuple):
    """A pool as seen by one node; an incomplete or invalid one has no slices."""

    id: PoolId
    slices: Sequence[ResourceSlice] = ()
    """Slices with devices for this node, sorted by name."""
    slices_elsewhere: Sequence[ResourceSlice] = ()
    """Slices with devices for other nodes, which draw from the same counters."""
    counter_sets: Mapping[str, CounterSet] = {}
    is_incomplete: bool = False
    invalid_reason: str = ""

    @property
    def is_usable(self) -> bool:
        return not (self.is_incomplete or self.invalid_reason)

    @property
    def is_local(self) -> bool:
        """Return whether no other node can use its devices or counters."""
        return not self.slices_elsewhere and all(
            resource_slice.spec.node_name for resource_slice in self.slices
        )


class _Invalid(Exception):
    """A pool is invalid; the text is the reason."""


def pools_of_node(
    node: Node, slices: Iterable[ResourceSlice], of_pool: SlicesOfPool, features: Features
) -> list[PoolOnNode]:
    """Return the pools with devices for `node`, in the order of the search.

    `slices` are those that the node may be able to reach: first the ones that name it, then the
    ones that name no node. Raises AllocationError if a node selector is invalid.
    """
    pools: list[PoolOnNode] = []
    with_binding_conditions: list[PoolOnNode] = []
    for pool_id, relevant in sorted(_newest_generations(node, slices, features).items()):
        pool = _pool(pool_id, relevant, of_pool, features)
        if pool is None:
            continue
        # Pools whose devices need binding conditions come last: such devices may become ready late
        # or never. GatherPools sorts them so.
        is_last = any(traits_of(resource_slice).needs_binding for resource_slice in pool.slices)
        (with_binding_conditions if is_last else pools).append(pool)
    return pools + with_binding_conditions


def serves_node(device: Device, node: Node) -> bool:
    """Return whether a device with its own node selection is for `node`.

    Raises AllocationError if its node selector is invalid.
    """
    return _matches_node(node, device.node_name, device.all_nodes, device.node_selector)


def knows_node_operations(features: Features) -> bool:
    """Return whether skipNodeOperations is evaluated.

    Only upstream's experimental allocator does so, which runs if an alpha feature is on.
    """
    return (
        features.optional_node_operations
        or features.list_type_attributes
        or features.derived_attributes
        or features.device_compatibility_groups
    )


def has_binding_conditions(features: Features) -> bool:
    return features.device_binding_conditions and features.resource_claim_device_status


def _newest_generations(
    node: Node, slices: Iterable[ResourceSlice], features: Features
) -> dict[PoolId, list[ResourceSlice]]:
    # Not `api.semantics.pools.current_slices`: slices that the node cannot use are left out before
    # generations are compared, so an old generation that is complete on this node still counts
    # while the slices of the new one are for other nodes only.
    # GatherPools in https://github.com/kubernetes/kubernetes/blob/release-1.37/staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/pools_incubating.go
    newest: dict[PoolId, list[ResourceSlice]] = {}
    for resource_slice in slices:
        if not (_is_understood(resource_slice, features) and _is_relevant(resource_slice, node)):
            continue
        pool = resource_slice.pool_id
        current = newest.get(pool)
        if current is None:
            newest[pool] = [resource_slice]
            continue
        generation = resource_slice.spec.pool.generation
        if current[0].spec.pool.generation != generation:
            if generation < current[0].spec.pool.generation:
                continue
            current.clear()
        current.append(resource_slice)
    return newest


def _is_understood(resource_slice: ResourceSlice, features: Features) -> bool:
    spec = resource_slice.spec
    if not features.partitionable_devices and (
        spec.per_device_node_selection is not None or spec.shared_counters
    ):
        return False
    return features.device_compatibility_groups or not uses_groups(resource_slice)


def uses_groups(resource_slice: ResourceSlice) -> bool:
    """Return whether a device of the slice has compatibility groups."""
    return traits_of(resource_slice).uses_groups


class DeviceTraits(NamedTuple):
    """The devices of a slice by what matters for a node, as sets: its first device is bit 0."""

    tainted: int
    shareable: int
    """Devices that allow several allocations."""
    consumes_counters: int
    needs_binding: bool
    uses_groups: bool
    uses_node_resources: bool
    has_capacity: bool
    has_unique_names: bool
    is_plain: bool
    """Devices are only ever taken as a whole, by whoever asks."""


_TRAITS_LIMIT = 1 << 10
_traits: dict[int, tuple[Sequence[Device], DeviceTraits]] = {}
"""By the identity of the devices, which are kept with their traits."""


def traits_of(resource_slice: ResourceSlice) -> DeviceTraits:
    """Return the traits of the devices of a slice."""
    # Slices with equal devices share the tuple of them (`interning`).
    devices = resource_slice.spec.devices
    known = _traits.get(id(devices))
    if known is None:
        if len(_traits) >= _TRAITS_LIMIT:
            _traits.clear()
        known = _traits[id(devices)] = devices, _find_traits(devices)
    return known[1]


def _find_traits(devices: Sequence[Device]) -> DeviceTraits:
    # Runs once for every slice whose devices no other has: one look at each of them.
    tainted = shareable = consumes_counters = 0
    needs_binding = uses_groups = uses_node_resources = has_capacity = False
    bit = 1
    for device in devices:
        if device.taints:
            tainted |= bit
        if device.allow_multiple_allocations:
            shareable |= bit
        if device.consumes_counters:
            consumes_counters |= bit
            uses_groups = uses_groups or any(
                consumption.compatibility_groups for consumption in device.consumes_counters
            )
        if device.binding_conditions:
            needs_binding = True
        if device.node_allocatable_resources:
            uses_node_resources = True
        if device.capacity:
            has_capacity = True
        bit <<= 1
    names = {device.name for device in devices}
    return DeviceTraits(
        tainted,
        shareable,
        consumes_counters,
        needs_binding,
        uses_groups,
        uses_node_resources,
        has_capacity,
        len(names) == len(devices),
        not (tainted or shareable or consumes_counters or uses_node_resources),
    )


def _is_relevant(resource_slice: ResourceSlice, node: Node) -> bool:
    spec = resource_slice.spec
    if spec.node_name:
        return spec.node_name == node.metadata.name
    if spec.all_nodes or spec.node_selector is not None:
        try:
            return _matches_node(node, None, spec.all_nodes, spec.node_selector)
        except AllocationError as failure:
            raise _gathering_failed(f"slice {resource_slice.metadata.name}", failure) from None
    if not spec.per_device_node_selection:
        return False
    for device in spec.devices:
        try:
            if serves_node(device, node):
                return True
        except AllocationError as failure:
            where = f"device {device.name} in slice {resource_slice.metadata.name}"
            raise _gathering_failed(where, failure) from None
    return False


def _gathering_failed(where: str, failure: AllocationError) -> AllocationError:
    return AllocationError(
        f"gather pool information: failed to perform node selection for {where}: {failure.detail}"
    )


def _matches_node(
    node: Node, node_name: str | None, all_nodes: bool | None, selector: NodeSelector | None
) -> bool:
    if node_name:
        return node.metadata.name == node_name
    if all_nodes:
        return True
    if selector is None:
        return False
    return _compiled(selector)(node.metadata.labels, node.metadata.name)


@functools.lru_cache(maxsize=4096)
def _compiled(selector: NodeSelector) -> node_selectors.NodeTest:
    try:
        return node_selectors.compile_node_selector(selector)
    except label_selectors.SelectorError as error:
        raise AllocationError(
            f"failed to parse node selector {_printed(selector)}: {error}"
        ) from None


def _printed(selector: NodeSelector) -> str:
    """Return the selector as Go prints it."""
    terms = "".join(
        f"NodeSelectorTerm{{MatchExpressions:{_printed_list(term.match_expressions)},"
        f"MatchFields:{_printed_list(term.match_fields)},}},"
        for term in selector.node_selector_terms
    )
    return f"&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{terms}}},}}"


def _printed_list(requirements: Iterable[NodeSelectorRequirement]) -> str:
    entries = "".join(
        f"NodeSelectorRequirement{{Key:{requirement.key},Operator:{requirement.operator},"
        f"Values:[{' '.join(requirement.values)}],}},"
        for requirement in requirements
    )
    return f"[]NodeSelectorRequirement{{{entries}}}"


def _pool(
    pool_id: PoolId, relevant: list[ResourceSlice], of_pool: SlicesOfPool, features: Features
) -> PoolOnNode | None:
    """Return the pool of these slices, or None if a newer generation exists on other nodes."""
    expected_count = relevant[0].spec.pool.resource_slice_count
    all_slices = relevant
    if len(relevant) != expected_count:
        generation = relevant[0].spec.pool.generation
        all_slices = list(of_pool(pool_id))
        if any(resource_slice.spec.pool.generation > generation for resource_slice in all_slices):
            return None
        all_slices = [
            resource_slice
            for resource_slice in all_slices
            if resource_slice.spec.pool.generation == generation
            and (features.device_compatibility_groups or not uses_groups(resource_slice))
        ]
        if len(all_slices) != expected_count:
            return PoolOnNode(pool_id, is_incomplete=True)
    try:
        return _complete_pool(pool_id, relevant, all_slices, features)
    except _Invalid as reason:
        return PoolOnNode(pool_id, invalid_reason=str(reason))


def _complete_pool(
    pool_id: PoolId,
    relevant: list[ResourceSlice],
    all_slices: list[ResourceSlice],
    features: Features,
) -> PoolOnNode:
    if len(relevant) == 1 and all_slices is relevant and _is_plain(relevant[0]):
        return PoolOnNode(pool_id, relevant)
    ordered = sorted(relevant, key=lambda resource_slice: resource_slice.metadata.name)
    if not features.partitionable_devices:
        _require_unique_names(ordered)
        return PoolOnNode(pool_id, ordered)
    elsewhere: list[ResourceSlice] = []
    if all_slices is not relevant:
        names = {resource_slice.metadata.name for resource_slice in ordered}
        elsewhere = [other for other in all_slices if other.metadata.name not in names]
    with_devices, devices_elsewhere = _with_devices(ordered), _with_devices(elsewhere)
    _require_unique_names(with_devices)
    counter_sets = _counter_sets([*ordered, *elsewhere])
    for resource_slice in itertools.chain(with_devices, devices_elsewhere):
        if traits_of(resource_slice).consumes_counters:
            _require_counters(resource_slice.spec.devices, counter_sets)
    return PoolOnNode(pool_id, with_devices, devices_elsewhere, counter_sets)


def _is_plain(resource_slice: ResourceSlice) -> bool:
    """Return whether a slice is a valid pool by itself, without counters."""
    traits = traits_of(resource_slice)
    return (
        traits.has_unique_names
        and not traits.consumes_counters
        and not resource_slice.spec.shared_counters
    )


def _with_devices(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Return the slices with devices; the others of a pool have its shared counters."""
    return [resource_slice for resource_slice in slices if not resource_slice.spec.shared_counters]


def _require_unique_names(slices: Sequence[ResourceSlice]) -> None:
    if len(slices) == 1 and traits_of(slices[0]).has_unique_names:
        return
    names = [device.name for resource_slice in slices for device in resource_slice.spec.devices]
    if len(set(names)) < len(names):
        repeated = next(name for number, name in enumerate(names) if name in names[:number])
        raise _Invalid(f"duplicate device name {repeated}")


def _counter_sets(slices: Iterable[ResourceSlice]) -> dict[str, CounterSet]:
    counter_sets: dict[str, CounterSet] = {}
    for resource_slice in slices:
        for counter_set in resource_slice.spec.shared_counters:
            if counter_set.name in counter_sets:
                raise _Invalid(f"duplicate counter set name {counter_set.name}")
            counter_sets[counter_set.name] = counter_set
    return counter_sets


_CHECKED_LIMIT = 1 << 10
_checked: dict[tuple[int, ...], tuple[Sequence[Device], Sequence[CounterSet], str]] = {}
"""What is wrong with devices and counter sets, by their identities; both are kept."""


def _require_counters(devices: Sequence[Device], counter_sets: Mapping[str, CounterSet]) -> None:
    # Slices with equal devices share the tuple of them, and those with equal counter sets these.
    sets = list(counter_sets.values())
    key = (id(devices), *map(id, sets))
    checked = _checked.get(key)
    if checked is None:
        if len(_checked) >= _CHECKED_LIMIT:
            _checked.clear()
        problem = next(_counter_problems(devices, counter_sets), "")
        checked = _checked[key] = devices, sets, problem
    if problem := checked[2]:
        raise _Invalid(problem)


def _counter_problems(
    devices: Iterable[Device], counter_sets: Mapping[str, CounterSet]
) -> Iterator[str]:
    for device in devices:
        for consumption in device.consumes_counters:
            name = consumption.counter_set
            if name not in counter_sets:
                yield f"counter set {name} not found"
                continue
            known = counter_sets[name].counters
            if not consumption.counters.keys() <= known.keys():
                unknown = next(counter for counter in consumption.counters if counter not in known)
                yield f"counter {unknown} not found in counter set {name}"
