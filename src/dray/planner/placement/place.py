"""Place pods in the order of their submission, as the scheduler would, and say what they get."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from dray.api.ids import DeviceId, ObjectKey
from dray.api.semantics import owner_references, pod_claims
from dray.api.types.dra import AllocationResult, ResourceClaim
from dray.planner.cluster_model import ClusterModel
from dray.planner.submission.submitted_pods import SubmittedPod
from dray.scheduling import steps
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decider, Decision
from dray.scheduling.state import SchedulingState

NOW = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
"""The time of decisions, if the caller has none."""


class PlannedPod(NamedTuple):
    """A submitted pod with the scheduler's decision."""

    submitted: SubmittedPod
    decision: Decision

    @property
    def node(self) -> str:
        """The node that the pod gets; empty if none."""
        return self.decision.node if isinstance(self.decision, NodeAssignment) else ""

    def allocations(self) -> Iterator[tuple[ResourceClaim, AllocationResult]]:
        if isinstance(self.decision, NodeAssignment):
            yield from self.decision.fit.allocations()

    def devices(self) -> list[DeviceId]:
        """Return the devices of all its claims."""
        return [
            DeviceId(result.driver, result.pool, result.device)
            for _, allocation in self.allocations()
            for result in allocation.devices.results
        ]


class Plan(NamedTuple):
    """Decisions in the order of submission, and the state after them."""

    pods: Sequence[PlannedPod]
    state: SchedulingState

    @property
    def fits(self) -> bool:
        """Whether every pod gets a node."""
        return all(planned.node for planned in self.pods)


def place(
    cluster: ClusterModel,
    submitted: Sequence[SubmittedPod],
    *,
    policy: str | None = None,
    now: datetime.datetime = NOW,
) -> Plan:
    """Return what the scheduler decides for each pod; a placed pod counts for the next ones.

    Pods that wait are tried again when all others were, until none of them gets a node: a claim
    that one of the later pods got, or its labels, may be what they waited for.
    """
    state = cluster.state()
    decider = Decider(state, policy=policy)
    for item in submitted:
        for claim in item.claims:
            state.put(claim)
        state.put_pod(item.pod)
    decisions: dict[ObjectKey, Decision] = {}
    waiting = list(submitted)
    while waiting:
        tried: dict[ObjectKey, Decision] = {}
        for item in waiting:
            if item.pod.metadata.key not in tried:
                found = steps.run(decider.steps_for(item.pod, now), lambda: False)
                _write_shared_claims(state, found.values())
                tried |= found
        decisions |= tried
        left = [item for item in waiting if not state.is_placed(item.pod)]
        if len(left) == len(waiting):
            break
        waiting = left
    return Plan([PlannedPod(item, decisions[item.pod.metadata.key]) for item in submitted], state)


def _write_shared_claims(state: SchedulingState, decisions: Iterable[Decision]) -> None:
    """Put the allocations of claims that more pods may use into the state, as if written.

    A pod cannot use a claim whose allocation is only reserved for another one.
    """
    for decision in decisions:
        if not isinstance(decision, NodeAssignment):
            continue
        for assigned in decision.fit.claims:
            claim = state.claims.get(assigned.claim.key)
            owner = owner_references.controller_of(assigned.claim.metadata)
            if claim is None or (owner and owner.uid == decision.pod.metadata.uid):
                continue
            reserved = claim.status.reserved_for
            if not pod_claims.has_consumer(claim, assigned.consumer):
                reserved = (*reserved, assigned.consumer)
            allocation = assigned.allocation or claim.status.allocation
            status = msgspec.structs.replace(
                claim.status, allocation=allocation, reserved_for=reserved
            )
            state.put(msgspec.structs.replace(claim, status=status))
            state.claims.end_reservation(claim.key)
