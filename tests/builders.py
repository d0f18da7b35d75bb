"""Small builders for tests, so that a case fits on a screen.

The default fleet is of GPUs: driver `gpu.example.com`, class `gpu`, a pool for each node.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.features import DEFAULT, Features
from dray.api.ids import ClaimKey
from dray.api.types.dra import (
    AllocationResult,
    CapacityRequestPolicy,
    CapacityRequirements,
    CELDeviceSelector,
    Counter,
    CounterSet,
    Device,
    DeviceAllocationResult,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceCounterConsumption,
    DeviceDerivedAttribute,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from dray.api.types.meta import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectMeta
from dray.api.types.nodes import Node, NodeStatus

DRIVER = "gpu.example.com"
NAMESPACE = "default"

Scalar = str | int | bool | DeviceAttribute


def version(text: str) -> DeviceAttribute:
    return DeviceAttribute(version_value=text)


def strings(*values: str) -> DeviceAttribute:
    return DeviceAttribute(string_values=values)


def device(
    name: str,
    *,
    attributes: Mapping[str, Scalar] | None = None,
    capacity: Mapping[str, str | DeviceCapacity] | None = None,
    taints: Iterable[DeviceTaint] = (),
    consumes: Mapping[str, Mapping[str, str]] | None = None,
    groups: Sequence[str] = (),
    shareable: bool = False,
    node: str | None = None,
    binding_conditions: Sequence[str] = (),
) -> Device:
    return Device(
        name,
        attributes={key: _attribute(value) for key, value in (attributes or {}).items()},
        capacity={
            key: DeviceCapacity(value) if isinstance(value, str) else value
            for key, value in (capacity or {}).items()
        },
        consumes_counters=tuple(
            DeviceCounterConsumption(counter_set, _counters(amounts), tuple(groups))
            for counter_set, amounts in (consumes or {}).items()
        ),
        node_name=node,
        taints=tuple(taints),
        binding_conditions=tuple(binding_conditions),
        allow_multiple_allocations=True if shareable else None,
    )


def _attribute(value: Scalar) -> DeviceAttribute:
    if isinstance(value, DeviceAttribute):
        return value
    if isinstance(value, bool):
        return DeviceAttribute(bool_value=value)
    if isinstance(value, int):
        return DeviceAttribute(int_value=value)
    return DeviceAttribute(string_value=value)


def _counters(amounts: Mapping[str, str]) -> dict[str, Counter]:
    return {name: Counter(value) for name, value in amounts.items()}


def gpu(
    name: str,
    *,
    product: str = "H100",
    memory: str | DeviceCapacity = "80Gi",
    taints: Iterable[DeviceTaint] = (),
    shareable: bool = False,
    attributes: Mapping[str, Scalar] | None = None,
) -> Device:
    named: dict[str, Scalar] = {"productName": product, "driverVersion": version("550.54.15")}
    return device(
        name,
        attributes={**named, **(attributes or {})},
        capacity={"memory": memory},
        taints=taints,
        shareable=shareable,
    )


def resource_slice(
    *devices: Device,
    node: str | None = "n1",
    pool: str | None = None,
    driver: str = DRIVER,
    name: str | None = None,
    slices: int = 1,
    generation: int = 1,
    all_nodes: bool = False,
    node_selector: NodeSelector | None = None,
    counters: Mapping[str, Mapping[str, str]] | None = None,
    per_device: bool = False,
    skip_node_operations: Sequence[str] = (),
) -> ResourceSlice:
    pool = pool or node or "network"
    sets = tuple(CounterSet(key, _counters(each)) for key, each in (counters or {}).items())
    is_local = not (all_nodes or node_selector or per_device)
    return ResourceSlice(
        ObjectMeta(name=name or f"{pool}-{driver.partition('.')[0]}"),
        ResourceSliceSpec(
            driver,
            ResourcePool(pool, generation, slices),
            node if is_local else None,
            node_selector,
            True if all_nodes else None,
            devices,
            True if per_device else None,
            sets,
            skip_node_operations=tuple(skip_node_operations),
        ),
    )


def gpu_slice(node: str = "n1", count: int = 4, **fields: object) -> ResourceSlice:
    """The GPUs of a node, all alike; `fields` are those of `gpu`."""
    devices = [gpu(f"gpu-{number}", **fields) for number in range(count)]  # type: ignore[arg-type]
    return resource_slice(*devices, node=node)


def mig_slices(node: str = "n1", gpus: int = 1) -> list[ResourceSlice]:
    """Each GPU as a whole, as two halves (3g) or as four quarters (1g), on shared counters."""
    counters = {f"gpu-{number}": {"memory": "40Gi"} for number in range(gpus)}
    sizes = {"whole": ("40Gi", 1), "half": ("20Gi", 2), "quarter": ("10Gi", 4)}
    partitions = [
        device(
            f"gpu-{number}-{size}-{part}" if parts > 1 else f"gpu-{number}",
            attributes={"type": "gpu" if size == "whole" else "mig", "size": size},
            capacity={"memory": memory},
            consumes={f"gpu-{number}": {"memory": memory}},
        )
        for number in range(gpus)
        for size, (memory, parts) in sizes.items()
        for part in range(parts)
    ]
    return [
        resource_slice(*partitions, node=node, slices=2),
        resource_slice(node=node, name=f"{node}-counters", slices=2, counters=counters),
    ]


def device_class(name: str = "gpu", *expressions: str) -> DeviceClass:
    texts = expressions or (f'device.driver == "{DRIVER}"',)
    return DeviceClass(ObjectMeta(name=name), DeviceClassSpec(_selectors(texts)))


def _selectors(expressions: Iterable[str]) -> tuple[DeviceSelector, ...]:
    return tuple(DeviceSelector(CELDeviceSelector(expression)) for expression in expressions)


def request(
    name: str = "gpu",
    *selectors: str,
    cls: str = "gpu",
    count: int = 1,
    mode: str = "ExactCount",
    admin: bool = False,
    tolerations: Iterable[DeviceToleration] = (),
    capacity: Mapping[str, str] | None = None,
    derived: Mapping[str, str] | None = None,
) -> DeviceRequest:
    exactly = ExactDeviceRequest(
        cls,
        _selectors(selectors),
        mode,
        0 if mode == "All" else count,
        True if admin else None,
        tuple(tolerations),
        _capacity_requirements(capacity),
        tuple(DeviceDerivedAttribute(*each) for each in (derived or {}).items()),
    )
    return DeviceRequest(name, exactly)


def alternatives(name: str, *options: DeviceSubRequest) -> DeviceRequest:
    """A request that takes the first option which fits."""
    return DeviceRequest(name, first_available=options)


def option(
    name: str,
    *selectors: str,
    cls: str = "gpu",
    count: int = 1,
    capacity: Mapping[str, str] | None = None,
) -> DeviceSubRequest:
    return DeviceSubRequest(
        name,
        cls,
        _selectors(selectors),
        "ExactCount",
        count,
        capacity=_capacity_requirements(capacity),
    )


def _capacity_requirements(capacity: Mapping[str, str] | None) -> CapacityRequirements | None:
    return CapacityRequirements(dict(capacity)) if capacity else None


def claim(
    *requests: DeviceRequest,
    name: str = "train",
    match: str | None = None,
    distinct: str | None = None,
    constraints: Iterable[DeviceConstraint] = (),
) -> ResourceClaim:
    found = list(constraints)
    if match:
        found.append(DeviceConstraint(match_attribute=match))
    if distinct:
        found.append(DeviceConstraint(distinct_attribute=distinct))
    return ResourceClaim(
        ObjectMeta(name=name, namespace=NAMESPACE),
        ResourceClaimSpec(DeviceClaim(requests, tuple(found))),
    )


def node(
    name: str, *, labels: Mapping[str, str] | None = None, features: Sequence[str] = ()
) -> Node:
    return Node(
        ObjectMeta(name=name, labels=dict(labels or {})),
        status=NodeStatus(declared_features=tuple(features)),
    )


def nodes_labelled(key: str, *values: str) -> NodeSelector:
    requirement = NodeSelectorRequirement(key, "In", values)
    return NodeSelector((NodeSelectorTerm((requirement,)),))


def fleet(
    *slices: ResourceSlice,
    classes: Iterable[DeviceClass] | None = None,
    nodes: Iterable[Node] = (),
    features: Features = DEFAULT,
) -> ClusterInventory:
    """A fleet of these slices; the nodes that they name are there."""
    built = ClusterInventory(features)
    for each in nodes:
        built.put_node(each)
    for piece in slices:
        if piece.spec.node_name and piece.spec.node_name not in built.nodes:
            built.put_node(node(piece.spec.node_name))
    for device_class_ in (device_class(),) if classes is None else classes:
        built.put_class(device_class_)
    for piece in slices:
        built.put_slice(piece)
    return built


_shares = itertools.count(1)


def hold(
    fleet: ClusterInventory,
    owner: str,
    *devices: str,
    pool: str = "n1",
    driver: str = DRIVER,
    share: Mapping[str, str] | None = None,
) -> None:
    """Let claim `owner` hold the devices of a pool; with `share`, only that much of each."""
    results = tuple(
        DeviceRequestAllocationResult(
            "gpu",
            driver,
            pool,
            each,
            share_id=f"share-{next(_shares)}" if share is not None else None,
            consumed_capacity=dict(share or {}),
        )
        for each in devices
    )
    allocation = AllocationResult(DeviceAllocationResult(results))
    fleet.record_allocation(ClaimKey(NAMESPACE, owner), allocation)


def valid_values(value: str, *valid: str, default: str | None = None) -> DeviceCapacity:
    """A capacity of which only some amounts are handed out."""
    policy = CapacityRequestPolicy(default or valid[0], valid)
    return DeviceCapacity(value, policy)
