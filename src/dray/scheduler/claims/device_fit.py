"""The pod's claims on one node: what is allocated already, what `allocator.placement` finds.

A search that takes longer than a moment is taken up again in a worker thread. The caller sees to it
that nobody changes the fleet meanwhile (`state.State.exclusively`).
"""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from dray.allocator import placement
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model import rejections, requests
from dray.allocator.placement import Allocator, FitResult, NoFit
from dray.allocator.search.device_order import Order
from dray.api.features import Features
from dray.api.ids import ClaimKey, ObjectKey
from dray.api.selectors import node_selectors
from dray.api.semantics import owner_references, pod_claims
from dray.api.types.dra import (
    RESERVED_FOR_MAX_SIZE,
    AllocationResult,
    DeviceRequest,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from dray.api.types.pods import NodeAllocatableResourceClaimStatus, Pod
from dray.scheduler import queue
from dray.scheduler.claims.in_flight import Inflight
from dray.scheduler.unschedulable import Unschedulable
from dray.scheduling import (
    binding_conditions,
    extended_resources,
    node_allocatable,
    node_fit,
    pod_requirements,
)
from dray.scheduling.claim_readiness import PodClaim
from dray.scheduling.extended_resources import Classes, ExtendedClaim
from dray.scheduling.node_fit import FilterReason, NodeState, ReasonKind, Reasons
from dray.scheduling.pod_requirements import PodRequirements, PodUsage

INLINE_SECONDS = 0.005
NODE_SECONDS = 10.0
"""How long one node may be searched: DynamicResourcesFilterTimeoutDefault."""

CANNOT_ALLOCATE = FilterReason("cannot allocate all claims", ReasonKind.DEVICES)
NOT_AVAILABLE = FilterReason("resourceclaim not available on the node", ReasonKind.CLAIM)
_NODE_OPERATIONS_FEATURE = "DRAOptionalNodeOperations"


class SearchFailed(Exception):
    """The claims cannot be allocated as they are; the text is upstream's."""

    def __init__(self, message: str, *, may_pass: bool) -> None:
        super().__init__(message)
        self.may_pass = may_pass
        """Whether trying again without any change can help."""


class ClaimAssignment(NamedTuple):
    """A claim of the pod. `allocation` is what has to be written; None if the claim has one."""

    claim: ResourceClaim
    consumer: ResourceClaimConsumerReference
    allocation: AllocationResult | None


class NodeFit(NamedTuple):
    """What the pod would get on a node."""

    grants: tuple[ClaimAssignment, ...]
    charge: PodUsage
    extended: ExtendedClaim | None = None
    noted: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
    """What devices use of the node itself, for the pod's status."""

    def chosen(self) -> list[tuple[ResourceClaim, AllocationResult]]:
        pairs = (
            (grant.claim, grant.allocation or grant.claim.status.allocation)
            for grant in self.grants
        )
        return [(claim, allocation) for claim, allocation in pairs if allocation is not None]


class AllocatedClaim(NamedTuple):
    """A claim whose devices are chosen already."""

    used: PodClaim
    allocation: AllocationResult
    selects: node_selectors.NodeTest | None
    """On which nodes they can be used; None for all."""
    is_written: bool
    """Otherwise the pod shares an allocation that its group is about to get."""


class PodDemand(NamedTuple):
    """What the claims and extended resources of one pod ask for."""

    pod: Pod
    wanted: PodRequirements
    open: tuple[PodClaim, ...]
    """The claims that need devices."""
    fixed: tuple[AllocatedClaim, ...]
    extended: frozenset[str]
    """Resources for which devices may stand in."""

    @property
    def claims(self) -> list[ResourceClaim]:
        return [used.claim for used in self.open]

    def question(self) -> Hashable:
        """Equal for pods that every node answers alike."""
        if self.fixed:
            return self.pod.metadata.uid
        return self.wanted, requests.signature(self.claims), self.extended

    def shared_claims(self) -> tuple[ClaimKey, ...]:
        """The claims without devices that were not made for this pod alone."""
        uid = self.pod.metadata.uid
        owned = (
            (used.claim, owner_references.controller_of(used.claim.metadata)) for used in self.open
        )
        return tuple(
            pod_claims.key_of(claim) for claim, owner in owned if owner is None or owner.uid != uid
        )

    def named_nodes(self) -> frozenset[str] | None:
        """The only nodes on which the allocated claims can be used, where they are named."""
        found: frozenset[str] | None = None
        for fixed in self.fixed:
            names = pod_requirements.named_nodes(fixed.allocation.node_selector)
            if names is not None:
                found = names if found is None else found & names
        return found


class _Deadline:
    """When a search has to stop. Asked at every step of a search."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> bool:
        return time.perf_counter() > self.at

    def set(self, seconds: float) -> None:
        self.at = time.perf_counter() + seconds


class DeviceMatcher:
    """Answers for pods what `Placement` answers for claims."""

    def __init__(
        self,
        fleet: ClusterInventory,
        inflight: Inflight,
        classes: Classes,
        features: Features,
        *,
        new_share_id: Callable[[], str],
        now: Callable[[], datetime.datetime],
        order: Order | None = None,
    ) -> None:
        self._fleet, self._inflight, self._classes = fleet, inflight, classes
        self._features, self._now = features, now
        self._deadline = _Deadline()
        self.placement = Allocator(
            fleet, new_share_id=new_share_id, order=order, should_stop=self._deadline
        )

    def demand(
        self,
        pod: Pod,
        wanted: PodRequirements,
        claims: Sequence[PodClaim],
        shared: Mapping[ClaimKey, AllocationResult] = {},
    ) -> PodDemand | Unschedulable:
        """What has to be found for a pod. `shared` are allocations its group is about to get."""
        opened: list[PodClaim] = []
        fixed: list[AllocatedClaim] = []
        for used in claims:
            key = pod_claims.key_of(used.claim)
            allocation = used.claim.status.allocation or shared.get(key)
            if allocation is not None:
                if _is_crowded(used):
                    return _wait_for(key, "resourceclaim in use")
                fixed.append(_fix(used, allocation))
            elif self._inflight.pending(key) is not None:
                message = f"resource claim {key} is in the process of being allocated"
                return _wait_for(key, message)
            else:
                opened.append(used)
        missing = self._missing_class(opened)
        if missing is not None:
            return missing
        behind: frozenset[str] = frozenset()
        if self._features.extended_resource:
            behind = self._classes.behind(wanted.charge.amounts)
        return PodDemand(pod, wanted, tuple(opened), tuple(fixed), behind)

    async def ask(self, demand: PodDemand, state: NodeState) -> NodeFit | Reasons:
        """What the pod would get on a node, or why it would not; raises SearchFailed."""
        if demand.fixed and not all(self.is_usable(fixed, state) for fixed in demand.fixed):
            return (NOT_AVAILABLE,)
        claims, special = demand.claims, None
        if demand.extended:
            lacking = [name for name in demand.extended if not state.allocatable.get(name)]
            if lacking:
                special = extended_resources.claim_for(demand.pod, lacking, self._classes)
                claims.append(special.claim)
        allocations: Sequence[AllocationResult] = ()
        if claims:
            answer = await self._search(claims, state.name)
            if isinstance(answer, NoFit):
                return (_reason(answer, claims),)
            allocations = answer.allocations
        return self._fitting(demand, state, allocations, special)

    def is_usable(self, fixed: AllocatedClaim, state: NodeState) -> bool:
        """Whether the devices of an allocated claim can be used on a node."""
        assert state.node is not None
        if fixed.selects is not None and not fixed.selects(state.labels, state.name):
            return False
        if any(result.skip_node_operations for result in fixed.allocation.devices.results) and (
            _NODE_OPERATIONS_FEATURE not in state.node.status.declared_features
        ):
            return False
        if not (fixed.is_written and self._features.device_binding_conditions):
            return True
        readiness = binding_conditions.state_of(fixed.used.claim, self._now())
        return not isinstance(readiness, binding_conditions.Failed)

    def in_the_way(self, demand: PodDemand, states: Sequence[NodeState]) -> list[ClaimKey]:
        """The allocated claims that cannot be used on some of the nodes."""
        return [
            pod_claims.key_of(fixed.used.claim)
            for fixed in demand.fixed
            if fixed.is_written and not all(self.is_usable(fixed, state) for state in states)
        ]

    async def _search(self, claims: Sequence[ResourceClaim], node: str) -> FitResult:
        try:
            try:
                self._deadline.set(INLINE_SECONDS)
                return self.placement.allocate_on(claims, node)
            except rejections.SearchTimeout:
                return await self._search_aside(claims, node)
        except rejections.SearchTimeout as stopped:
            message = f"node {node}: timed out trying to allocate devices"
            raise SearchFailed(message, may_pass=True) from stopped
        except rejections.AllocationError as failure:
            if failure.on_node_only:
                return NoFit(rejections.NoDevices(), failure)
            raise SearchFailed(failure.text(claims), may_pass=False) from failure

    async def _search_aside(self, claims: Sequence[ResourceClaim], node: str) -> FitResult:
        """The same search in a thread, so that the loop goes on meanwhile."""
        limit = NODE_SECONDS if self._features.scheduler_filter_timeout else float("inf")
        self._deadline.set(limit)
        loop = asyncio.get_running_loop()
        search = loop.run_in_executor(None, self.placement.allocate_on, claims, node)
        try:
            return await asyncio.shield(search)
        except asyncio.CancelledError:
            # The thread must not outlive us: it reads what its next owner will change.
            self._deadline.at = 0.0
            await asyncio.wait([search])
            raise

    def _fitting(
        self,
        demand: PodDemand,
        state: NodeState,
        allocations: Sequence[AllocationResult],
        special: ExtendedClaim | None,
    ) -> NodeFit | Reasons:
        found = iter(allocations)
        grants = [ClaimAssignment(used.claim, used.consumer, next(found)) for used in demand.open]
        grants += [
            ClaimAssignment(
                each.used.claim, each.used.consumer, None if each.is_written else each.allocation
            )
            for each in demand.fixed
        ]
        if special is not None:
            consumer = pod_claims.pod_consumer(demand.pod)
            grants.append(ClaimAssignment(special.claim, consumer, next(found)))
        fitting = NodeFit(tuple(grants), demand.wanted.charge, special)
        if self._features.node_allocatable_resources and grants:
            return self._with_node_resources(demand, state, fitting)
        return fitting

    def _with_node_resources(
        self, demand: PodDemand, state: NodeState, fitting: NodeFit
    ) -> NodeFit | Reasons:
        """Count what the devices use of the node itself."""
        find = node_allocatable.finder(self._fleet.inventory(self._fleet.nodes[state.name]))
        for fixed in demand.fixed:
            if _is_used_by_others(fixed) and node_allocatable.has_mapped_device(
                fixed.allocation, find
            ):
                name = fixed.used.claim.metadata.name
                text = (
                    f"node allocatable resource claim {name} has a mapped device and cannot be "
                    "shared across pods"
                )
                return (FilterReason(text, ReasonKind.CLAIM),)
        names = {pod_claims.key_of(each.claim): each.names for each in _all_used(demand)}
        uses = [
            node_allocatable.Use(names.get(pod_claims.key_of(claim), ()), claim, allocation)
            for claim, allocation in fitting.chosen()
        ]
        try:
            noted = node_allocatable.statuses(demand.pod, uses, find)
        except node_allocatable.Unusable as unusable:
            raise SearchFailed(str(unusable), may_pass=False) from unusable
        if not noted:
            return fitting
        pod = node_allocatable.with_statuses(demand.pod, noted)
        shortfall = node_allocatable.shortfall_of_pod(pod)
        if shortfall:
            return (FilterReason(shortfall, ReasonKind.DEVICES),)
        charge = node_allocatable.charge_of(pod)
        delegated = demand.extended
        amounts = {name: each for name, each in charge.amounts.items() if name not in delegated}
        lacking = node_fit.short_of(state, amounts)
        return lacking or fitting._replace(charge=charge, noted=noted)

    def _missing_class(self, opened: Sequence[PodClaim]) -> Unschedulable | None:
        for used in opened:
            for request in used.claim.spec.devices.requests:
                message = self._class_problem(used.claim, request)
                if message:
                    return Unschedulable(
                        before_nodes=message, causes=frozenset({queue.CLASSES, queue.DEVICES})
                    )
        return None

    def _class_problem(self, claim: ResourceClaim, request: DeviceRequest) -> str:
        if request.exactly is not None:
            return self._unknown_class(request.name, request.exactly.device_class_name)
        where = f"resource claim {pod_claims.key_of(claim)}, request {request.name}"
        if not request.first_available:
            return f"{where}: unknown request type"
        if not self._features.prioritized_list:
            return f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled"
        for alternative in request.first_available:
            name = f"{request.name}/{alternative.name}"
            message = self._unknown_class(name, alternative.device_class_name)
            if message:
                return message
        return ""

    def _unknown_class(self, request: str, name: str) -> str:
        if name in self._fleet.classes:
            return ""
        return f"request {request}: device class {name} does not exist"


def _fix(used: PodClaim, allocation: AllocationResult) -> AllocatedClaim:
    selector = allocation.node_selector
    selects = node_selectors.compile_node_selector(selector) if selector is not None else None
    return AllocatedClaim(used, allocation, selects, used.claim.status.allocation is not None)


def _wait_for(key: ClaimKey, message: str) -> Unschedulable:
    cause = queue.claim_changes(ObjectKey(*key))
    return Unschedulable(before_nodes=message, causes=frozenset({cause}), is_passing=True)


def _is_crowded(used: PodClaim) -> bool:
    """Whether no further consumer can be noted in the claim."""
    return len(used.claim.status.reserved_for) >= RESERVED_FOR_MAX_SIZE and (
        not pod_claims.has_consumer(used.claim, used.consumer)
    )


def _is_used_by_others(fixed: AllocatedClaim) -> bool:
    reserved = fixed.used.claim.status.reserved_for
    if not fixed.is_written:
        return True
    return bool(reserved) and not pod_claims.has_consumer(fixed.used.claim, fixed.used.consumer)


def _all_used(demand: PodDemand) -> list[PodClaim]:
    return [*demand.open, *(fixed.used for fixed in demand.fixed)]


def _reason(refused: placement.NoFit, claims: Sequence[ResourceClaim]) -> FilterReason:
    if refused.failure is None:
        return CANNOT_ALLOCATE
    return FilterReason(refused.failure.text(claims), ReasonKind.DEVICES)
