"""The devices that a pod needs: for its claims and for extended resources."""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model import requests
from dray.api.features import Features
from dray.api.ids import ClaimKey
from dray.api.selectors import label_selectors, node_selectors
from dray.api.semantics import owner_references, pod_claims
from dray.api.types import dra
from dray.api.types.dra import AllocationResult, ResourceClaim
from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup
from dray.scheduling import wake_events
from dray.scheduling.claims import claim_readiness
from dray.scheduling.claims.claim_index import ClaimIndex
from dray.scheduling.claims.claim_readiness import PodClaim
from dray.scheduling.claims.extended_resources import Classes
from dray.scheduling.nodes import pod_requirements
from dray.scheduling.nodes.pod_requirements import PodRequirements
from dray.scheduling.unschedulable import Unschedulable
from dray.scheduling.wake_events import WakeEvent


class AllocatedClaim(NamedTuple):
    """A claim whose devices are chosen already."""

    used: PodClaim
    allocation: AllocationResult
    selects: node_selectors.NodeTest | None
    """Test whether the devices can be used on a node; None if they can on all."""
    is_written: bool
    """False if the allocation is that of another pod of the group, decided but not written."""


class PodDemand(NamedTuple):
    """The devices that a pod needs, and its other requirements."""

    pod: Pod
    requirements: PodRequirements
    unallocated: tuple[PodClaim, ...]
    allocated: tuple[AllocatedClaim, ...]
    extended: frozenset[str]
    """The extended resources that devices may provide."""
    now: datetime.datetime
    """The time of the decision."""

    @property
    def claims(self) -> list[ResourceClaim]:
        """Return the claims that need devices."""
        return [used.claim for used in self.unallocated]

    def signature(self) -> Hashable:
        """Return a key that is equal for pods with the same result on every node."""
        if self.allocated:
            return self.pod.metadata.uid
        return self.requirements, requests.signature(self.claims), self.extended

    def shared_claims(self) -> tuple[ClaimKey, ...]:
        """Return the claims without devices that were not created for this pod alone."""
        uid = self.pod.metadata.uid
        owned = (
            (used.claim, owner_references.controller_of(used.claim.metadata))
            for used in self.unallocated
        )
        return tuple(claim.key for claim, owner in owned if owner is None or owner.uid != uid)

    def named_nodes(self) -> frozenset[str] | None:
        """Return the only nodes where the allocated claims can be used; None if not named."""
        nodes: frozenset[str] | None = None
        for claim in self.allocated:
            names = pod_requirements.named_nodes(claim.allocation.node_selector)
            if names is not None:
                nodes = names if nodes is None else nodes & names
        return nodes


class DemandResolver:
    """Finds the claims of pods and what has to be allocated for them."""

    def __init__(
        self, inventory: ClusterInventory, claims: ClaimIndex, classes: Classes, features: Features
    ) -> None:
        self._inventory, self._claims, self._classes = inventory, claims, classes
        self._features = features

    def demand_of(
        self,
        pod: Pod,
        group: PodGroup | None,
        now: datetime.datetime,
        shared: Mapping[ClaimKey, AllocationResult] = {},
    ) -> PodDemand | Unschedulable:
        """Return what has to be found for a pod, or why it has to wait.

        `group` is the pod's PodGroup. `shared` are allocations that are decided for other pods of
        that group.
        """
        if self._claims.hidden and pod.spec.resource_claims:
            hidden = self._claims.hidden[0]
            return Unschedulable(
                before_nodes=f"a claim cannot be read, so its devices are not known: {hidden}",
                wake_events=frozenset({wake_events.DEVICES}),
            )
        accepts_group = self._features.workload_resource_claims
        claims = claim_readiness.resolve(
            pod, self._claims.get, group if accepts_group else None, accepts_group
        )
        if isinstance(claims, claim_readiness.ClaimsNotReady):
            return _not_ready(claims)
        try:
            demand = self._demand(pod, claims, now, shared)
        except label_selectors.SelectorError as error:
            return Unschedulable(error=str(error))
        if isinstance(demand, PodDemand) and demand.extended:
            return self._without_stale_claims(demand)
        return demand

    def _demand(
        self,
        pod: Pod,
        claims: Sequence[PodClaim],
        now: datetime.datetime,
        shared: Mapping[ClaimKey, AllocationResult],
    ) -> PodDemand | Unschedulable:
        requirements = pod_requirements.requirements_of(pod)
        unallocated: list[PodClaim] = []
        allocated: list[AllocatedClaim] = []
        for used in claims:
            key = used.claim.key
            allocation = used.claim.status.allocation or shared.get(key)
            if allocation is not None:
                if _is_at_limit(used):
                    return _wait_for(key, "resourceclaim in use")
                allocated.append(allocated_claim(used, allocation))
            elif self._claims.reserved(key) is not None:
                message = f"resource claim {key} is in the process of being allocated"
                return _wait_for(key, message)
            else:
                unallocated.append(used)
        missing = self._missing_class(unallocated)
        if missing is not None:
            return missing
        extended: frozenset[str] = frozenset()
        if self._features.extended_resource:
            extended = self._classes.provided(requirements.usage.amounts)
        return PodDemand(pod, requirements, tuple(unallocated), tuple(allocated), extended, now)

    def _without_stale_claims(self, demand: PodDemand) -> PodDemand | Unschedulable:
        """Wait while a claim exists that an earlier attempt created for extended resources."""
        stale = self._claims.for_extended_resources(demand.pod.metadata.uid)
        if not stale:
            return demand
        return Unschedulable(
            before_nodes="cannot schedule extended resource claim",
            wake_events=frozenset(wake_events.claim_changes(claim.key) for claim in stale),
            stale_claims=tuple(stale),
            is_transient=True,
        )

    def _missing_class(self, unallocated: Sequence[PodClaim]) -> Unschedulable | None:
        for used in unallocated:
            for request in used.claim.spec.devices.requests:
                message = self._class_problem(used.claim, request)
                if message:
                    return Unschedulable(
                        before_nodes=message,
                        wake_events=frozenset({wake_events.CLASSES, wake_events.DEVICES}),
                    )
        return None

    def _class_problem(self, claim: ResourceClaim, request: dra.DeviceRequest) -> str:
        if request.exactly is not None:
            return self._unknown_class(request.name, request.exactly.device_class_name)
        where = f"resource claim {claim.key}, request {request.name}"
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
        if name in self._inventory.classes:
            return ""
        return f"request {request}: device class {name} does not exist"


def allocated_claim(used: PodClaim, allocation: AllocationResult) -> AllocatedClaim:
    """Return the claim with an allocation that is written, or decided."""
    selector = allocation.node_selector
    selects = node_selectors.compile_node_selector(selector) if selector is not None else None
    return AllocatedClaim(used, allocation, selects, used.claim.status.allocation is not None)


def _not_ready(problem: claim_readiness.ClaimsNotReady) -> Unschedulable:
    events: frozenset[WakeEvent] = frozenset()
    if problem.claim is not None:
        events = frozenset({wake_events.claim_changes(problem.claim)})
    return Unschedulable(
        before_nodes=problem.message,
        wake_events=events,
        template=problem.template,
        is_transient=True,
    )


def _wait_for(key: ClaimKey, message: str) -> Unschedulable:
    event = wake_events.claim_changes(key)
    return Unschedulable(before_nodes=message, wake_events=frozenset({event}), is_transient=True)


def _is_at_limit(used: PodClaim) -> bool:
    """Return whether no further consumer can be added to the claim."""
    is_full = len(used.claim.status.reserved_for) >= dra.RESERVED_FOR_MAX_SIZE
    return is_full and not pod_claims.has_consumer(used.claim, used.consumer)
