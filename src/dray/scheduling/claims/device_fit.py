"""The claims of a pod on one node: allocated ones, and devices for the others."""

from __future__ import annotations

from collections.abc import Sequence

from dray.allocator import placement
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.inventory.selector_failures import SelectorSequence
from dray.allocator.model import rejections
from dray.allocator.placement import Allocator, FitResult, NoFit
from dray.allocator.problem.node_problem import NodeProblem
from dray.api import well_known
from dray.api.features import Features
from dray.api.ids import ClaimKey
from dray.api.semantics import pod_claims
from dray.api.types.dra import AllocationResult, ResourceClaim
from dray.scheduling.claims import binding_conditions, extended_resources, node_allocatable
from dray.scheduling.claims.assignments import ClaimAssignment, NodeFit
from dray.scheduling.claims.extended_resources import Classes, ExtendedClaim
from dray.scheduling.claims.pod_demand import AllocatedClaim, PodDemand
from dray.scheduling.nodes import node_fit
from dray.scheduling.nodes.node_fit import FilterReason, NodeState, ReasonKind, Reasons
from dray.scheduling.steps import DeviceSearch, Steps

CANNOT_ALLOCATE = FilterReason("cannot allocate all claims", ReasonKind.DEVICES)
NOT_AVAILABLE = FilterReason("resourceclaim not available on the node", ReasonKind.CLAIM)


class SearchFailed(Exception):
    """The claims cannot be allocated on any node; the message is kube-scheduler's."""

    def __init__(self, message: str, *, is_retriable: bool) -> None:
        super().__init__(message)
        self.is_retriable = is_retriable
        """Whether another attempt without any change can help."""


class DeviceMatcher:
    """Finds what pods get on a node. Nodes pass the other filters already."""

    def __init__(
        self,
        inventory: ClusterInventory,
        classes: Classes,
        features: Features,
        allocator: Allocator,
    ) -> None:
        self._inventory, self._classes, self._features = inventory, classes, features
        self._allocator = allocator

    def fit_on(self, demand: PodDemand, state: NodeState) -> Steps[NodeFit | Reasons]:
        """Return what the pod gets on a node, or why it does not fit. Raises SearchFailed."""
        if demand.allocated and not self.are_usable(demand, state):
            return (NOT_AVAILABLE,)
        claims, extended = self.claims_on(demand, state)
        allocations: Sequence[AllocationResult] = ()
        if claims:
            result = yield from self._search(claims, state.name)
            if isinstance(result, NoFit):
                return (_reason(result, claims),)
            allocations = result.allocations
        return self.fit_with(demand, state, allocations, extended)

    def fit_with(
        self,
        demand: PodDemand,
        state: NodeState,
        allocations: Sequence[AllocationResult],
        extended: ExtendedClaim | None,
    ) -> NodeFit | Reasons:
        """Return what the pod gets on a node with these allocations of its claims there.

        Raises SearchFailed if the node resources of the devices cannot be determined.
        """
        # The allocator answers in the order of the claims it was given; the extended one is last.
        remaining = iter(allocations)
        claims = [
            ClaimAssignment(used.claim, used.consumer, next(remaining))
            for used in demand.unallocated
        ]
        for claim in demand.allocated:
            unwritten = None if claim.is_written else claim.allocation
            claims.append(ClaimAssignment(claim.used.claim, claim.used.consumer, unwritten))
        if extended is not None:
            consumer = pod_claims.pod_consumer(demand.pod)
            claims.append(ClaimAssignment(extended.claim, consumer, next(remaining)))
        fit = NodeFit(tuple(claims), demand.requirements.usage, extended)
        if self._features.node_allocatable_resources and claims:
            return self._with_node_resources(demand, state, fit)
        return fit

    def selectors_for(self, demand: PodDemand) -> Sequence[SelectorSequence]:
        """Return the selectors of the devices that the pod needs on any node."""
        claims = demand.claims
        if demand.extended:
            of_pod = extended_resources.claim_for(demand.pod, demand.extended, self._classes)
            claims.append(of_pod.claim)
        return self._allocator.selectors_of(claims) if claims else ()

    def failure_on(self, demand: PodDemand, state: NodeState) -> Steps[SearchFailed | None]:
        """Return the error with which the search for devices on a node ends, if it does."""
        claims, _ = self.claims_on(demand, state)
        if not claims:
            return None
        try:
            yield from self._search(claims, state.name)
        except SearchFailed as failed:
            return failed
        return None

    def claims_on(
        self, demand: PodDemand, state: NodeState
    ) -> tuple[list[ResourceClaim], ExtendedClaim | None]:
        """Return the claims that need devices on a node, and the one for extended resources."""
        claims = demand.claims
        missing = [name for name in demand.extended if not state.allocatable.get(name)]
        if not missing:
            return claims, None
        extended = extended_resources.claim_for(demand.pod, missing, self._classes)
        return [*claims, extended.claim], extended

    def problem_on(self, demand: PodDemand, state: NodeState) -> NodeProblem | None:
        """Return what the pod's claims could get on a node; None without claims.

        Raises AllocationError if they cannot be evaluated there.
        """
        claims, _ = self.claims_on(demand, state)
        return self._allocator.problem(claims, state.name) if claims else None

    def are_usable(self, demand: PodDemand, state: NodeState) -> bool:
        """Return whether the devices of all allocated claims can be used on a node."""
        return all(self.is_usable(demand, claim, state) for claim in demand.allocated)

    def is_usable(self, demand: PodDemand, claim: AllocatedClaim, state: NodeState) -> bool:
        """Return whether the devices of an allocated claim can be used on a node."""
        assert state.node is not None
        if claim.selects is not None and not claim.selects(state.labels, state.name):
            return False
        if any(result.skip_node_operations for result in claim.allocation.devices.results) and (
            well_known.OPTIONAL_NODE_OPERATIONS not in state.node.status.declared_features
        ):
            return False
        if not (claim.is_written and self._features.device_binding_conditions):
            return True
        readiness = binding_conditions.state_of(claim.used.claim, demand.now)
        return not isinstance(readiness, binding_conditions.Failed)

    def unusable_claims(self, demand: PodDemand, states: Sequence[NodeState]) -> list[ClaimKey]:
        """Return the allocated claims that cannot be used on some of the nodes."""
        return [
            claim.used.claim.key
            for claim in demand.allocated
            if claim.is_written and not all(self.is_usable(demand, claim, node) for node in states)
        ]

    def _search(self, claims: Sequence[ResourceClaim], node: str) -> Steps[FitResult]:
        outcome = yield DeviceSearch(self._allocator, claims, node)
        assert outcome is not None, "a DeviceSearch has to be answered with its outcome"
        if not isinstance(outcome, rejections.AllocationError):
            return outcome
        if isinstance(outcome, rejections.SearchTimeout):
            message = f"node {node}: timed out trying to allocate devices"
            raise SearchFailed(message, is_retriable=True) from outcome
        if outcome.on_node_only:
            return NoFit(rejections.NoDevices(), outcome)
        raise SearchFailed(outcome.text(claims), is_retriable=False) from outcome

    def _with_node_resources(
        self, demand: PodDemand, state: NodeState, fit: NodeFit
    ) -> NodeFit | Reasons:
        """Add the node resources that the devices use, or return why there are too few."""
        on_node = self._inventory.inventory(self._inventory.nodes[state.name])
        find = node_allocatable.finder(on_node)
        for claim in demand.allocated:
            is_shared = _is_used_by_others(claim)
            if is_shared and node_allocatable.has_mapped_device(claim.allocation, find):
                name = claim.used.claim.metadata.name
                text = (
                    f"node allocatable resource claim {name} has a mapped device and cannot be "
                    "shared across pods"
                )
                return (FilterReason(text, ReasonKind.CLAIM),)
        used_claims = (*demand.unallocated, *(claim.used for claim in demand.allocated))
        names = {used.claim.key: used.names for used in used_claims}
        uses = [
            node_allocatable.Use(names.get(claim.key, ()), claim, allocation)
            for claim, allocation in fit.allocations()
        ]
        try:
            statuses = node_allocatable.statuses(demand.pod, uses, find)
        except node_allocatable.UnusableMapping as unusable:
            raise SearchFailed(str(unusable), is_retriable=False) from unusable
        if not statuses:
            return fit
        pod = node_allocatable.with_statuses(demand.pod, statuses)
        shortfall = node_allocatable.shortfall_of_pod(pod)
        if shortfall:
            return (FilterReason(shortfall, ReasonKind.DEVICES),)
        usage = node_allocatable.usage_of(pod)
        amounts = {
            name: amount for name, amount in usage.amounts.items() if name not in demand.extended
        }
        reasons = node_fit.short_of(state, amounts)
        return reasons or fit._replace(usage=usage, node_resources=statuses)


def _is_used_by_others(claim: AllocatedClaim) -> bool:
    reserved = claim.used.claim.status.reserved_for
    if not claim.is_written:
        return True
    return bool(reserved) and not pod_claims.has_consumer(claim.used.claim, claim.used.consumer)


def _reason(result: placement.NoFit, claims: Sequence[ResourceClaim]) -> FilterReason:
    if result.failure is None:
        return CANNOT_ALLOCATE
    return FilterReason(result.failure.text(claims), ReasonKind.DEVICES)
