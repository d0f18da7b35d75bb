"""The builders of all tests: objects with good defaults, so that a test states only what matters.

There are two forms. `pod`, `claim`, `resource_slice` and so on return structs; `pod_manifest`,
`claim_manifest` and so on return documents as a user would write them. The default devices are
GPUs: driver `gpu.example.com`, class `gpu`, a pool for each node.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

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
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from dray.api.types.meta import (
    JsonObject,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
)
from dray.api.types.nodes import Node, NodeStatus
from dray.api.types.pods import Pod

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
    sets = tuple(CounterSet(key, _counters(totals)) for key, totals in (counters or {}).items())
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
    """Return a slice of equal GPUs; `fields` are those of `gpu`."""
    devices = [gpu(f"gpu-{number}", **fields) for number in range(count)]  # type: ignore[arg-type]
    return resource_slice(*devices, node=node)


def mig_slices(node: str = "n1", gpus: int = 1) -> list[ResourceSlice]:
    """Return GPUs that can be used as a whole, as halves (3g) or as quarters (1g)."""
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
        tuple(DeviceDerivedAttribute(*attribute) for attribute in (derived or {}).items()),
    )
    return DeviceRequest(name, exactly)


def alternatives(name: str, *subrequests: DeviceSubRequest) -> DeviceRequest:
    """Return a firstAvailable request."""
    return DeviceRequest(name, first_available=subrequests)


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
    namespace: str = NAMESPACE,
    match: str | None = None,
    distinct: str | None = None,
    constraints: Iterable[DeviceConstraint] = (),
) -> ResourceClaim:
    all_constraints = list(constraints)
    if match:
        all_constraints.append(DeviceConstraint(match_attribute=match))
    if distinct:
        all_constraints.append(DeviceConstraint(distinct_attribute=distinct))
    return ResourceClaim(
        ObjectMeta(name=name, namespace=namespace),
        ResourceClaimSpec(DeviceClaim(requests, tuple(all_constraints))),
    )


def allocated(
    waiting: ResourceClaim,
    *devices: str,
    request: str = "gpu",
    pool: str = "n1",
    driver: str = DRIVER,
    node_selector: NodeSelector | None = None,
) -> ResourceClaim:
    """Return the claim with devices of a pool; a device may be written as `request=device`."""
    results = []
    for text in devices:
        named, _, device_name = text.rpartition("=")
        results.append(DeviceRequestAllocationResult(named or request, driver, pool, device_name))
    allocation = AllocationResult(DeviceAllocationResult(tuple(results)), node_selector)
    return msgspec.structs.replace(waiting, status=ResourceClaimStatus(allocation))


def pod(
    name: str = "train",
    *,
    namespace: str = NAMESPACE,
    claims: Mapping[str, str] | None = None,
    templates: Mapping[str, str] | None = None,
    uid: str = "",
    status: JsonObject | None = None,
    **spec: Any,
) -> Pod:
    """Return the pod of `pod_manifest`."""
    manifest = pod_manifest(name, namespace=namespace, claims=claims, templates=templates, **spec)
    manifest["metadata"]["uid"] = uid
    return msgspec.convert({**manifest, "status": status or {}}, Pod)


def pod_manifest(
    name: str = "train",
    *,
    namespace: str = "",
    claims: Mapping[str, str] | None = None,
    templates: Mapping[str, str] | None = None,
    **spec: Any,
) -> JsonObject:
    """Return a pod with one container; `claims` and `templates` are by the pod's own names."""
    sources = [
        *({"name": own, "resourceClaimName": used} for own, used in (claims or {}).items()),
        *({"name": own, "resourceClaimTemplateName": t} for own, t in (templates or {}).items()),
    ]
    body: JsonObject = {"containers": [{"name": "main", "image": "pause"}], **spec}
    if sources:
        body["resourceClaims"] = sources
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": body,
    }


def request_manifest(name: str = "gpu", *, cls: str = "gpu", **exactly: Any) -> JsonObject:
    """Return a request for devices of a class; further fields are those of `exactly`."""
    return {"name": name, "exactly": {"deviceClassName": cls, **exactly}}


def claim_manifest(
    name: str = "train", *requests: JsonObject, namespace: str = "", **devices: Any
) -> JsonObject:
    """Return a ResourceClaim, by default with one GPU; further fields are those of `devices`."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {"devices": {"requests": list(requests) or [request_manifest()], **devices}},
    }


def template_manifest(
    name: str = "train", *requests: JsonObject, namespace: str = "", **devices: Any
) -> JsonObject:
    """Return a ResourceClaimTemplate for the claim of `claim_manifest`."""
    claimed = claim_manifest(name, *requests, namespace=namespace, **devices)
    return {**claimed, "kind": "ResourceClaimTemplate", "spec": {"spec": claimed["spec"]}}


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


def cluster_inventory(
    *slices: ResourceSlice,
    classes: Iterable[DeviceClass] | None = None,
    nodes: Iterable[Node] = (),
    features: Features = DEFAULT,
) -> ClusterInventory:
    """Return an inventory of these slices, with the nodes that they name."""
    inventory = ClusterInventory(features)
    for existing in nodes:
        inventory.put_node(existing)
    for published in slices:
        if published.spec.node_name and published.spec.node_name not in inventory.nodes:
            inventory.put_node(node(published.spec.node_name))
    for defined in (device_class(),) if classes is None else classes:
        inventory.put_class(defined)
    for published in slices:
        inventory.put_slice(published)
    return inventory


_shares = itertools.count(1)


def hold(
    cluster: ClusterInventory,
    owner: str,
    *devices: str,
    pool: str = "n1",
    driver: str = DRIVER,
    share: Mapping[str, str] | None = None,
) -> None:
    """Allocate devices of a pool to the claim `owner`; with `share`, only that much of each."""
    results = tuple(
        DeviceRequestAllocationResult(
            "gpu",
            driver,
            pool,
            device_name,
            share_id=f"share-{next(_shares)}" if share is not None else None,
            consumed_capacity=dict(share or {}),
        )
        for device_name in devices
    )
    allocation = AllocationResult(DeviceAllocationResult(results))
    cluster.record_allocation(ClaimKey(NAMESPACE, owner), allocation)


def valid_values(value: str, *valid: str, default: str | None = None) -> DeviceCapacity:
    """Return a capacity that only allows some amounts."""
    policy = CapacityRequestPolicy(default or valid[0], valid)
    return DeviceCapacity(value, policy)
