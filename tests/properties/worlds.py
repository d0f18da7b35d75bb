"""Fleets for property tests, and answers in a form that can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from dray.allocator import placement
from dray.allocator.inventory.cluster_inventory import AllocatedState, ClusterInventory
from dray.allocator.model.rejections import AllocationError
from dray.api.ids import DeviceId, SharedDeviceId
from dray.api.types.dra import ResourceClaim, ResourceClaimStatus
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node
from tests.properties import problems, upstream

SHARE_ID = "share"


def fleet_of(problem: problems.Problem) -> ClusterInventory:
    fleet = ClusterInventory(problem.features)
    fleet.put_node(Node(ObjectMeta(name=problems.NODE)))
    for device_class in problem.classes.values():
        fleet.put_class(device_class)
    for piece in problem.slices:
        fleet.put_slice(piece)
    fleet.record_state(
        AllocatedState(
            [DeviceId(*id) for id in problem.taken],
            [SharedDeviceId(*id, SHARE_ID) for id in problem.shared],
        )
    )
    return fleet


def placement_on(fleet: ClusterInventory) -> placement.Allocator:
    return placement.Allocator(fleet, new_share_id=lambda: SHARE_ID)


def answer_of(fleet: ClusterInventory, claims: Sequence[ResourceClaim], node: str) -> Any:
    """Devices, a failure's text, or None."""
    try:
        answer = placement_on(fleet).allocate_on(claims, node)
    except AllocationError as failure:
        return failure.text(claims)
    return described(answer, claims)


def described(answer: placement.FitResult, claims: Sequence[ResourceClaim]) -> Any:
    if isinstance(answer, placement.NoFit):
        return answer.failure.text(claims) if answer.failure else None
    return [
        [
            (
                result.request,
                (result.driver, result.pool, result.device),
                dict(result.consumed_capacity),
            )
            for result in allocation.devices.results
        ]
        for allocation in answer.allocations
    ]


def upstream_answer(problem: problems.Problem) -> Any:
    state = upstream.State(set(problem.taken), {id: {} for id in problem.shared})
    search = upstream.Upstream(problem.slices, problem.classes, state, problem.features)
    try:
        return search.allocate(problem.claims)
    except upstream.UpstreamError as error:
        return str(error)


def allocated(claims: Sequence[ResourceClaim], answer: placement.FitResult) -> list[ResourceClaim]:
    """The claims with what the answer gives them."""
    assert isinstance(answer, placement.Fit)
    return [
        msgspec.structs.replace(claim, status=ResourceClaimStatus(allocation=allocation))
        for claim, allocation in zip(claims, answer.allocations, strict=True)
    ]
