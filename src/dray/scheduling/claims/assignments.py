"""What a pod gets on a node: devices for its claims, and its share of the node itself."""

from __future__ import annotations

from typing import NamedTuple

from dray.api.types.dra import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from dray.api.types.pods import NodeAllocatableResourceClaimStatus, Pod
from dray.scheduling.claims.extended_resources import ExtendedClaim
from dray.scheduling.nodes.pod_requirements import PodUsage


class ClaimAssignment(NamedTuple):
    """A claim of the pod. `allocation` has to be written; None if the claim has one already."""

    claim: ResourceClaim
    consumer: ResourceClaimConsumerReference
    allocation: AllocationResult | None


class NodeFit(NamedTuple):
    """What a pod gets on one node."""

    claims: tuple[ClaimAssignment, ...]
    usage: PodUsage
    extended: ExtendedClaim | None = None
    """The claim to create for extended resources; it is among `claims` as well."""
    node_resources: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
    """The node resources that devices use, for the pod's status."""

    def allocations(self) -> list[tuple[ResourceClaim, AllocationResult]]:
        """Return every claim with its allocation, whether that is new or not."""
        pairs = (
            (assigned.claim, assigned.allocation or assigned.claim.status.allocation)
            for assigned in self.claims
        )
        return [(claim, allocation) for claim, allocation in pairs if allocation is not None]


class NodeAssignment(NamedTuple):
    """The node of a pod, and what the pod gets there."""

    pod: Pod
    node: str
    fit: NodeFit
