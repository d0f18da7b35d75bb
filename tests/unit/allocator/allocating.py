"""Short ways to run the allocator in tests, with results that are easy to compare."""

from __future__ import annotations

from dray.allocator import placement
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model.rejections import AllocationError, Rejection
from dray.allocator.placement import Allocator, Fit, NoFit
from dray.allocator.search.device_order import Order
from dray.api.types.dra import AllocationResult, ResourceClaim


def allocator_on(cluster: ClusterInventory, order: Order | None = None) -> Allocator:
    return placement.Allocator(cluster, new_share_id=lambda: "share", order=order)


def allocations(
    cluster: ClusterInventory, *claims: ResourceClaim, node: str = "n1", order: Order | None = None
) -> list[AllocationResult]:
    result = allocator_on(cluster, order).allocate_on(claims, node)
    assert isinstance(result, Fit), result
    return list(result.allocations)


def devices(
    cluster: ClusterInventory, *claims: ResourceClaim, node: str = "n1", order: Order | None = None
) -> list[str]:
    """Return the devices that all claims get, in order."""
    return [
        result.device
        for allocation in allocations(cluster, *claims, node=node, order=order)
        for result in allocation.devices.results
    ]


def rejection(cluster: ClusterInventory, *claims: ResourceClaim, node: str = "n1") -> Rejection:
    result = allocator_on(cluster).allocate_on(claims, node)
    assert isinstance(result, NoFit), result
    return result.reason


def error_text(cluster: ClusterInventory, *claims: ResourceClaim, node: str = "n1") -> str:
    """Return upstream's text of the error."""
    try:
        result = allocator_on(cluster).allocate_on(claims, node)
    except AllocationError as found:
        return found.text(claims)
    assert isinstance(result, NoFit)
    assert result.failure is not None
    return result.failure.text(claims)
