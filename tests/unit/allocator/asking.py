"""Asking the allocator in tests, with answers that are easy to read."""

from __future__ import annotations

from dray.allocator import placement
from dray.allocator.inventory.cluster_inventory import Fleet
from dray.allocator.model.rejections import Failure, Verdict
from dray.allocator.placement import Fit, Placement, Refused
from dray.allocator.search.device_order import Order
from dray.api.types.dra import AllocationResult, ResourceClaim


def placement_on(fleet: Fleet, order: Order | None = None) -> Placement:
    return placement.Placement(fleet, new_share_id=lambda: "share", order=order)


def allocations(
    fleet: Fleet, *claims: ResourceClaim, node: str = "n1", order: Order | None = None
) -> list[AllocationResult]:
    answer = placement_on(fleet, order).ask(claims, node)
    assert isinstance(answer, Fit), answer
    return list(answer.allocations)


def devices(
    fleet: Fleet, *claims: ResourceClaim, node: str = "n1", order: Order | None = None
) -> list[str]:
    """The devices that all claims get, in order."""
    return [
        result.device
        for allocation in allocations(fleet, *claims, node=node, order=order)
        for result in allocation.devices.results
    ]


def refusal(fleet: Fleet, *claims: ResourceClaim, node: str = "n1") -> Verdict:
    answer = placement_on(fleet).ask(claims, node)
    assert isinstance(answer, Refused), answer
    return answer.reason


def failure(fleet: Fleet, *claims: ResourceClaim, node: str = "n1") -> str:
    """Upstream's words for what is wrong."""
    try:
        answer = placement_on(fleet).ask(claims, node)
    except Failure as found:
        return found.text(claims)
    assert isinstance(answer, Refused)
    assert answer.failure is not None
    return answer.failure.text(claims)
