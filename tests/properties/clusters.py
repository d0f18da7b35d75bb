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


def cluster_of(problem: problems.Problem) -> ClusterInventory:
    cluster = ClusterInventory(problem.features)
    cluster.put_node(Node(ObjectMeta(name=problems.NODE)))
    for device_class in problem.classes.values():
        cluster.put_class(device_class)
    for resource_slice in problem.slices:
        cluster.put_slice(resource_slice)
    cluster.record_state(
        AllocatedState(
            [DeviceId(*id) for id in problem.taken],
            [SharedDeviceId(*id, SHARE_ID) for id in problem.shared],
        )
    )
    return cluster


def allocator_on(cluster: ClusterInventory) -> placement.Allocator:
    return placement.Allocator(cluster, new_share_id=lambda: SHARE_ID)


def result_of(cluster: ClusterInventory, claims: Sequence[ResourceClaim], node: str) -> Any:
    """Devices, a failure's text, or None."""
    try:
        result = allocator_on(cluster).allocate_on(claims, node)
    except AllocationError as failure:
        return failure.text(claims)
    return described(result, claims)


def described(result: placement.FitResult, claims: Sequence[ResourceClaim]) -> Any:
    if isinstance(result, placement.NoFit):
        return result.failure.text(claims) if result.failure else None
    return [
        [
            (
                result.request,
                (result.driver, result.pool, result.device),
                dict(result.consumed_capacity),
            )
            for result in allocation.devices.results
        ]
        for allocation in result.allocations
    ]


def upstream_result(problem: problems.Problem) -> Any:
    state = upstream.State(set(problem.taken), {id: {} for id in problem.shared})
    search = upstream.Upstream(problem.slices, problem.classes, state, problem.features)
    try:
        return search.allocate(problem.claims)
    except upstream.UpstreamError as error:
        return str(error)


def allocated(claims: Sequence[ResourceClaim], result: placement.FitResult) -> list[ResourceClaim]:
    """The claims with what the answer gives them."""
    assert isinstance(result, placement.Fit)
    return [
        msgspec.structs.replace(claim, status=ResourceClaimStatus(allocation=allocation))
        for claim, allocation in zip(claims, result.allocations, strict=True)
    ]
