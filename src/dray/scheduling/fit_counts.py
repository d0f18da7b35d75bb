"""Count the pods that still fit and ask for devices of one class and nothing else.

They are placed one after the other, as the scheduler would do it, until the next one does not fit.
Quotas are not considered: they belong to namespaces.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

import msgspec

from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model.rejections import AllocationError, SearchTimeout
from dray.allocator.placement import Allocator, Fit
from dray.allocator.problem.node_problem import NodeProblem
from dray.api.ids import ClaimKey
from dray.api.types.dra import (
    AllocationResult,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from dray.api.types.meta import ObjectMeta
from dray.api.types.pods import Pod, PodResourceClaim, PodSpec
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decider
from dray.scheduling.nodes import node_fit, pod_requirements
from dray.scheduling.nodes.node_fit import PODS, NodeState
from dray.scheduling.state import SchedulingState
from dray.scheduling.unschedulable import Unschedulable

__all__ = ["FitCount", "NodeCounter", "count", "room_on"]


_CACHED_KEYS = 4096


class FitCount(NamedTuple):
    """The number of pods that fit."""

    pods: int
    is_complete: bool = True
    """Whether every node was counted; otherwise there may be more."""
    error: str = ""
    """Why the scheduler cannot decide about the next pod, if that is so."""

    def __str__(self) -> str:
        return str(self.pods) if self.is_complete else f"{self.pods}+"


def _never() -> bool:
    return False


def count(
    state: SchedulingState,
    class_name: str,
    should_stop: Callable[[], bool] = _never,
    *,
    devices: int = 1,
) -> FitCount:
    """Return how many more pods fit that ask for this number of devices of the class.

    When `should_stop` returns True, the nodes that are left are not counted. The state is the same
    afterwards.
    """
    counter = NodeCounter(state, class_name, should_stop, devices=devices)
    try:
        return counter.run()
    finally:
        counter.release_all()


class _OrderMatters(Exception):
    """The count depends on the order in which nodes are chosen."""


class NodeCounter:
    """Counts node by node, which is right unless nodes share partitions or a selector fails."""

    def __init__(
        self,
        state: SchedulingState,
        class_name: str,
        should_stop: Callable[[], bool] = _never,
        *,
        devices: int = 1,
    ) -> None:
        self._state, self._should_stop, self._devices = state, should_stop, devices
        self._claims = [_claim_for(class_name, devices)]
        self._allocator = Allocator(
            state.inventory, new_share_id=state.new_share_id, should_stop=should_stop
        )
        self._held: list[ClaimKey] = []
        self._by_key: dict[Hashable, int] = {}

    def run(self) -> FitCount:
        pods = 0
        try:
            for node, room in self._nodes():
                if self._should_stop():
                    return FitCount(pods, is_complete=False)
                pods += self._on_node(node, room)
        except SearchTimeout:
            return FitCount(pods, is_complete=False)
        except (AllocationError, _OrderMatters):
            self.release_all()
            return _decided(self._state, self._claims[0], self._should_stop)
        return FitCount(pods)

    def alone_on(self, node: NodeState) -> int | None:
        """Return how many pods fit on a node; None if that depends on what other nodes get."""
        room = room_on(node)
        if not room:
            return 0
        before = len(self._held)
        try:
            return self._on_node(node.name, room, alone=True)
        except (AllocationError, _OrderMatters):
            self._release(before)
            return None

    def _nodes(self) -> Iterator[tuple[str, int]]:
        """Yield the nodes that a pod without other requirements can run on, and for how many."""
        for node in self._state.nodes:
            if room := room_on(node):
                yield node.name, room

    def _on_node(self, node: str, room: int, alone: bool = False) -> int:
        try:
            problem = self._allocator.problem(self._claims, node)
        except AllocationError as error:
            if error.on_node_only:
                return 0
            raise
        (alternative,) = problem.alternatives()
        if alternative.failing:
            raise _OrderMatters
        inventory = problem.inventory
        free = alternative.eligible & ~inventory.taken
        is_special = free & (inventory.partitions | inventory.shareable)
        if not _is_local(inventory, free):
            if alone or self._devices > 1 or is_special or room < free.bit_count():
                raise _OrderMatters
            return self._placed_on(node, room)
        if not is_special:
            return min(room, free.bit_count() // self._devices)
        key = (room, *_key(problem, free))
        if inventory.features.device_compatibility_groups or key not in self._by_key:
            # What is placed on other nodes does not matter here, nor this there.
            before = len(self._held)
            if len(self._by_key) >= _CACHED_KEYS:
                self._by_key.clear()
            self._by_key[key] = self._placed_on(node, room)
            self._release(before)
        return self._by_key[key]

    def _placed_on(self, node: str, room: int) -> int:
        for number in range(room):
            result = self._allocated(node)
            if result is None:
                return number
            key = ClaimKey("", f"{node}/{number}")
            self._state.inventory.record_allocation(key, result)
            self._held.append(key)
        return room

    def _allocated(self, node: str) -> AllocationResult | None:
        try:
            result = self._allocator.allocate_on(self._claims, node)
        except AllocationError as error:
            if error.on_node_only:
                return None
            raise
        return result.allocations[0] if isinstance(result, Fit) else None

    def _release(self, start: int) -> None:
        for key in self._held[start:]:
            self._state.inventory.release(key)
        del self._held[start:]

    def release_all(self) -> None:
        self._release(0)


def _decided(
    state: SchedulingState, claim: ResourceClaim, should_stop: Callable[[], bool]
) -> FitCount:
    """Let the scheduling decision place pods until one does not fit."""
    decider = Decider(state, should_stop=should_stop)
    placed: list[tuple[Pod, ResourceClaim, NodeAssignment]] = []
    try:
        while not should_stop():
            metadata = ObjectMeta(name=f"fit-{len(placed)}", namespace="", uid=f"fit-{len(placed)}")
            of_pod = msgspec.structs.replace(claim, metadata=metadata)
            used = PodResourceClaim(name="device", resource_claim_name=metadata.name)
            pod = Pod(metadata, PodSpec(resource_claims=(used,)))
            state.put(of_pod)
            (decision,) = decider.decide([pod], _NOW)
            if isinstance(decision, Unschedulable):
                state.claims.drop(of_pod.key)
                state.drop_pod(pod.metadata.key)
                return FitCount(len(placed), not decision.is_retried, decision.error)
            placed.append((pod, of_pod, decision))
        return FitCount(len(placed), is_complete=False)
    finally:
        for pod, of_pod, assignment in placed:
            state.release(assignment)
            state.drop_pod(pod.metadata.key)
            state.claims.drop(of_pod.key)


_NOW = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
"""Any time will do: the claims have no allocation that could have expired."""


def room_on(node: NodeState) -> int:
    """Return for how many pods without other requirements a node has room."""
    if node_fit.reasons_against(node, _NOTHING, lambda _: False):
        return 0
    return node.allocatable.get(PODS, 0) - len(node.usages)


_NOTHING = pod_requirements.requirements_of(Pod())


def _claim_for(class_name: str, devices: int) -> ResourceClaim:
    exactly = ExactDeviceRequest(class_name, allocation_mode="ExactCount", count=devices)
    spec = ResourceClaimSpec(DeviceClaim((DeviceRequest("device", exactly),)))
    return ResourceClaim(ObjectMeta(name="device", namespace="default"), spec)


def _is_local(inventory: NodeInventory, devices: int) -> bool:
    """Return whether no other node can use these devices of a node or their counters."""
    indexes = {device.pool_index for device in inventory.members(devices)}
    pools = [inventory.node_pools[index].pool for index in indexes]
    return all(
        not pool.slices_elsewhere
        and all(resource_slice.spec.node_name for resource_slice in pool.slices)
        for pool in pools
    )


def _key(problem: NodeProblem, free: int) -> Iterator[Hashable]:
    """Yield a key that is equal for nodes on which the same number of pods fits."""
    inventory = problem.inventory
    yield free
    yield inventory.shared
    for node_pool in inventory.node_pools:
        yield (node_pool.counters.left, node_pool.counters.guards) if node_pool.counters else None
    for device in inventory.members(free):
        holders = inventory.device_holders(device)
        capacity = sorted(device.device.capacity.items()) if device.is_shareable else ()
        consumed = sorted(holders.capacity.items()) if holders else ()
        yield device.pool_index, device.need, tuple(map(str, capacity)), tuple(consumed)
