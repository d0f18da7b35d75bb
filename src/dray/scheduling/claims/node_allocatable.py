"""Node resources that allocated devices use: cpu and memory.

A device may represent node resources (`mapping`) or need some in addition (`overhead`). The usage
of a pod's devices counts like requests of its containers and is recorded in the pod's status.
https://github.com/kubernetes/kubernetes/blob/release-1.37/pkg/scheduler/framework/plugins/dynamicresources/nodeallocatabledynamicresources.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from dray.allocator.inventory.node_inventory import NodeInventory
from dray.api.formats import quantity
from dray.api.formats.quantity import Quantity
from dray.api.semantics import pod_resources
from dray.api.types import dra
from dray.api.types.dra import AllocationResult, Device, ResourceClaim
from dray.api.types.pods import (
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
    Pod,
)
from dray.scheduling.nodes import pod_requirements
from dray.scheduling.nodes.pod_requirements import PodUsage

COUNTING = pod_resources.ResourceCountOptions(node_allocatable_claims=True)

FindDevice = Callable[[dra.DeviceRequestAllocationResult], Device | None]


class Use(NamedTuple):
    """A claim of a pod with its allocation. `names` are those in the pod's spec."""

    names: tuple[str, ...]
    claim: ResourceClaim
    allocation: AllocationResult


class UnusableMapping(Exception):
    """A device refers to a capacity that its allocation does not have."""


def finder(inventory: NodeInventory) -> FindDevice:
    """Return a function that finds the devices of allocations on one node."""

    def find(result: dra.DeviceRequestAllocationResult) -> Device | None:
        pool = result.pool_id
        for node_pool in inventory.node_pools:
            number = node_pool.indexes.get(result.device) if node_pool.pool.id == pool else None
            if number is not None:
                return inventory.devices[number].device
        return None

    return find


def statuses(
    pod: Pod, uses: Iterable[Use], find: FindDevice
) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
    """Return the node resources of every claim that uses some. Raises Unusable."""
    used = [status for use in uses if (status := _status(pod, use, find)) is not None]
    return tuple(sorted(used, key=lambda status: status.resource_claim_name))


def has_mapped_device(allocation: AllocationResult, find: FindDevice) -> bool:
    """Return whether a device represents node resources: then only one pod may use the claim."""
    return any(
        resource.mapping is not None
        for result in allocation.devices.results
        if (device := find(result)) is not None
        for resource in device.node_allocatable_resources.values()
    )


def _status(pod: Pod, use: Use, find: FindDevice) -> NodeAllocatableResourceClaimStatus | None:
    mapped: dict[str, Quantity] = {}
    overheads: dict[str, NodeAllocatableOverheadResources] = {}
    for result in use.allocation.devices.results:
        device = find(result)
        for name, resource in (device.node_allocatable_resources if device else {}).items():
            if resource.mapping is not None:
                amount = _mapped_amount(name, resource.mapping, result, use.claim)
                if amount is not None:
                    pod_resources.add(mapped, {name: amount})
            if resource.overhead is not None:
                before = overheads.get(name, NodeAllocatableOverheadResources(name))
                overheads[name] = _with_overhead(before, resource.overhead)
    if not mapped and not overheads:
        return None
    return NodeAllocatableResourceClaimStatus(
        use.claim.metadata.name,
        tuple(_users(pod, use.names)),
        tuple(
            NodeAllocatableMappedResources(name, str(amount))
            for name, amount in sorted(mapped.items())
        ),
        tuple(overhead for _, overhead in sorted(overheads.items())),
    )


def _mapped_amount(
    name: str,
    mapping: dra.NodeAllocatableMapping,
    result: dra.DeviceRequestAllocationResult,
    claim: ResourceClaim,
) -> Quantity | None:
    if not mapping.capacity_key:
        multiplier = mapping.device_multiplier
        return quantity.parse(multiplier) if multiplier is not None else None
    if not result.consumed_capacity:
        raise UnusableMapping(
            f"claim {claim.metadata.namespace}/{claim.metadata.name}, device {result.device}: "
            f"ConsumedCapacity is nil, but Capacity key '{mapping.capacity_key}' is set in "
            f"NodeAllocatableResources for resource {name}"
        )
    consumed = result.consumed_capacity.get(mapping.capacity_key)
    if consumed is None:
        return None
    return _times(quantity.parse(consumed), quantity.parse(mapping.capacity_multiplier or "1"))


def _times(amount: Quantity, multiplier: Quantity) -> Quantity:
    unit = quantity.parse("1").nano
    if multiplier.nano == unit:
        return amount
    return Quantity(-(-amount.nano * multiplier.nano // unit), amount.format)


def _with_overhead(
    total: NodeAllocatableOverheadResources, more: dra.NodeAllocatableOverhead
) -> NodeAllocatableOverheadResources:
    return NodeAllocatableOverheadResources(
        total.name,
        _sum(total.per_pod, more.per_pod),
        _sum(total.per_container, more.per_container),
    )


def _sum(one: str | None, other: str | None) -> str | None:
    if one is None or other is None:
        return one if other is None else other
    return str(quantity.parse(one) + quantity.parse(other))


def _users(pod: Pod, names: Iterable[str]) -> Iterator[str]:
    """Yield the containers that use a claim, once per reference."""
    claim_names = set(names)
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for used in container.resources.claims:
            if used.name in claim_names:
                yield container.name


def with_statuses(pod: Pod, statuses: tuple[NodeAllocatableResourceClaimStatus, ...]) -> Pod:
    """Return the pod with these node resources in its status."""
    status = msgspec.structs.replace(pod.status, node_allocatable_resource_claim_statuses=statuses)
    return msgspec.structs.replace(pod, status=status)


def usage_of(pod: Pod) -> PodUsage:
    """Return what a pod uses of its node, including the node resources in its status."""
    return pod_requirements.usage_of(pod, COUNTING)


def shortfall_of_pod(pod: Pod) -> str:
    """Return which pod-level resource does not cover the pod's devices; empty if all do."""
    if pod.spec.resources is None:
        return ""
    requested = pod_resources.parse_amounts(pod.spec.resources.requests)
    needed = pod_resources.container_requests(pod, COUNTING)
    for name, amount in sorted(requested.items()):
        if pod_resources.is_pod_level_resource(name) and needed.get(name, quantity.ZERO) > amount:
            return (
                f"pod level request for {name} is insufficient to cover the aggregated container "
                "and node-allocatable DRA requests"
            )
    return _limit_shortfall(pod, pod_resources.parse_amounts(pod.spec.resources.limits))


def _limit_shortfall(pod: Pod, limits: pod_resources.Amounts) -> str:
    for name, amount in sorted(pod_resources.container_limits(pod, COUNTING).items()):
        if pod_resources.is_huge_page_resource(name) and name in limits and amount > limits[name]:
            return (
                f"pod level limit for {name} is insufficient to cover the aggregated container and "
                "node-allocatable DRA limits"
            )
    for container in pod.spec.containers:
        for name, amount in pod_resources.parse_amounts(container.resources.limits).items():
            if pod_resources.is_huge_page_resource(name) or name not in limits:
                continue
            if amount + _used_by(pod, container.name, name) > limits[name]:
                return (
                    f"pod level limit for {name} is insufficient to cover the limit and DRA "
                    f"overhead for container {container.name}"
                )
    return ""


def _used_by(pod: Pod, container: str, name: str) -> Quantity:
    total = quantity.ZERO
    for status in pod.status.node_allocatable_resource_claim_statuses:
        if container in status.containers:
            total += pod_resources.node_allocatable_amounts(status, 1).get(name, quantity.ZERO)
    return total
