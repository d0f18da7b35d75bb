"""Pods on nodes, claims with devices, and evictions, as the cluster stores them."""

from __future__ import annotations

import msgspec

from dray.api.semantics import owner_references, pod_claims
from dray.api.types.dra import ResourceClaim, ResourceClaimStatus
from dray.api.types.pods import Pod, PodExtendedResourceClaimStatus
from dray.scheduling.claims.assignments import ClaimAssignment, NodeAssignment
from dray.scheduling.state import SchedulingState


def bind(state: SchedulingState, assignment: NodeAssignment) -> list[ResourceClaim]:
    """Put a reserved assignment into the state as it is stored, and return its claims.

    Later pods may share its claims, and be preferred to it, only when it is.
    """
    claims = [_assigned(state, assigned) for assigned in assignment.fit.claims]
    for claim in claims:
        state.put(claim)
        state.claims.end_reservation(claim.key)
    pod = _bound(assignment)
    state.put_pod(pod)
    state.nodes.add_pod(pod.metadata.uid, assignment.node, assignment.fit.usage)
    return claims


def _assigned(state: SchedulingState, assigned: ClaimAssignment) -> ResourceClaim:
    # Another pod of the same gang may have got the claim a moment ago.
    claim = state.claims.get(assigned.claim.key) or assigned.claim
    consumers = claim.status.reserved_for
    if not pod_claims.has_consumer(claim, assigned.consumer):
        consumers = (*consumers, assigned.consumer)
    status = msgspec.structs.replace(
        claim.status,
        allocation=claim.status.allocation or assigned.allocation,
        reserved_for=consumers,
    )
    return msgspec.structs.replace(claim, status=status)


def _bound(assignment: NodeAssignment) -> Pod:
    pod, fit = assignment.pod, assignment.fit
    status = msgspec.structs.replace(
        pod.status, node_allocatable_resource_claim_statuses=fit.node_resources
    )
    if fit.extended is not None:
        name = fit.extended.claim.metadata.name
        extended = PodExtendedResourceClaimStatus(fit.extended.mappings, name)
        status = msgspec.structs.replace(status, extended_resource_claim_status=extended)
    spec = msgspec.structs.replace(pod.spec, node_name=assignment.node)
    return msgspec.structs.replace(pod, spec=spec, status=status)


def evict(state: SchedulingState, pod: Pod) -> None:
    """Remove a pod from the state.

    Claims that were made for it go with it; others lose it as a consumer, and their devices with
    the last one.
    """
    uid = pod.metadata.uid
    for key in pod_claims.used_claims(pod):
        claim = state.claims.get(key)
        if claim is None:
            continue
        owner = owner_references.controller_of(claim.metadata)
        if owner is not None and owner.uid == uid:
            state.claims.drop(key)
            continue
        left = tuple(item for item in claim.status.reserved_for if item.uid != uid)
        status = msgspec.structs.replace(claim.status, reserved_for=left)
        state.put(msgspec.structs.replace(claim, status=status if left else ResourceClaimStatus()))
    state.drop_pod(pod.metadata.key)
