"""Asking the allocator in tests, with answers that are easy to read."""

from __future__ import annotations

from dray.allocator import placement
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model.rejections import AllocationError, Rejection
from dray.allocator.placement import Allocator, Fit, NoFit
from dray.allocator.search.device_order import Order
from dray.api.types.dra import AllocationResult, ResourceClaim


def placement_on(fleet: ClusterInventory, order: Order | None = None) -> Allocator:
    return placement.Allocator(fleet, new_share_id=lambda: "share", order=order)


def allocations(
    fleet: ClusterInventory, *claims: ResourceClaim, node: str = "n1", order: Order | None = None
) -> list[AllocationResult]:
    answer = placement_on(fleet, order).allocate_on(claims, node)
    assert isinstance(answer, Fit), answer
    return list(answer.allocations)


def devices(
    fleet: ClusterInventory, *claims: ResourceClaim, node: str = "n1", order: Order | None = None
) -> list[str]:
    """The devices that all claims get, in order."""
    return [
        result.device
        for allocation in allocations(fleet, *claims, node=node, order=order)
        for result in allocation.devices.results
    ]


def refusal(fleet: ClusterInventory, *claims: ResourceClaim, node: str = "n1") -> Rejection:
    answer = placement_on(fleet).allocate_on(claims, node)
    assert isinstance(answer, NoFit), answer
    return answer.reason


def failure(fleet: ClusterInventory, *claims: ResourceClaim, node: str = "n1") -> str:
    """Upstream's words for what is wrong."""
    try:
        answer = placement_on(fleet).allocate_on(claims, node)
    except AllocationError as found:
        return found.text(claims)
    assert isinstance(answer, NoFit)
    assert answer.failure is not None
    return answer.failure.text(claims)
