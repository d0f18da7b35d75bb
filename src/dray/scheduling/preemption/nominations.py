"""Nominations: what is freed for pods is kept for them until they are placed or give up.

While others are decided, the pods count as if they were on their nodes: node resources are in use
there, and their claims hold the devices that the plan found for them, also while victims still have
them. Pods of a higher priority do not count with them if they do not fit otherwise. So does
kube-scheduler for node resources, but pods of a higher priority never count with them there:
https://github.com/kubernetes/kubernetes/blob/release-1.37/pkg/scheduler/framework/runtime/framework.go
(RunFilterPluginsWithNominatedPods)
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from dray.api.ids import ClaimKey, DeviceId, ObjectKey
from dray.api.semantics import pod_claims
from dray.api.types.dra import AllocationResult
from dray.api.types.pods import Pod
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.preemption.leaving import Leaving
from dray.scheduling.preemption.preemptor import GangKey, Preemptor, PreemptorKey
from dray.scheduling.preemption.priorities import effective_priority
from dray.scheduling.state import SchedulingState

NOTHING = Leaving()
_MARK = "(nominated)"
"""Tells what is kept for a pod from what it has."""


class Nomination(NamedTuple):
    """The nodes and devices that are kept for a preemptor."""

    preemptor: Preemptor
    assignments: Sequence[NodeAssignment]
    """What each pod gets: all of a gang that need a node, or the only one."""
    leaving: Leaving
    violated_budgets: Collection[ObjectKey] = ()
    """The disruption budgets that the plan exceeds, because nothing else helps."""

    def allocations(self) -> Iterator[tuple[ClaimKey, AllocationResult]]:
        """Yield the devices to keep, with keys that no claims have."""
        for assignment in self.assignments:
            for assigned in assignment.fit.claims:
                if assigned.allocation is not None:
                    key = assigned.claim.key
                    yield ClaimKey(key.namespace, f"{key.name} {_MARK}"), assigned.allocation


class Nominations:
    """The nodes and devices that are being cleared for pods."""

    def __init__(self, state: SchedulingState) -> None:
        self._state = state
        self._nominated: dict[PreemptorKey, Nomination] = {}
        """In the order of the plans: each counts with those before it."""
        self._counted: dict[PreemptorKey, Nomination] = {}
        self._dropped: list[PreemptorKey] = []
        self._known: dict[PreemptorKey, str] = {}

    def add(self, nomination: Nomination) -> None:
        """Keep for a preemptor what its pods get without what is leaving."""
        key, uid = nomination.preemptor.key, nomination.preemptor.uid
        self._nominated.pop(key, None)
        self._nominated[key] = nomination
        if len(self._known) > 2 * len(self._state.pods):
            self._known = {other: kept.preemptor.uid for other, kept in self._nominated.items()}
        self._known[key] = uid

    def revise(
        self, key: PreemptorKey, assignments: Sequence[NodeAssignment], leaving: Leaving
    ) -> None:
        """Keep something else for a preemptor, or with less that is leaving."""
        before = self._nominated[key]
        self._nominated[key] = before._replace(assignments=assignments, leaving=leaving)

    def is_known(self, preemptor: Preemptor) -> bool:
        """Return whether something was kept for it before, as far as that is remembered."""
        return self._known.get(preemptor.key) == preemptor.uid

    def remove(self, key: PreemptorKey) -> None:
        """Stop keeping anything for a preemptor that got it; nothing happens without anything."""
        self._nominated.pop(key, None)

    def drop(self, key: PreemptorKey) -> None:
        """Stop keeping anything for a preemptor that did not get it, so that other pods can."""
        if self._nominated.pop(key, None) is not None:
            self._dropped.append(key)

    def drop_invalid(self) -> None:
        """Drop what is kept for pods that do not wait any more, and on nodes that are gone."""
        for key in [key for key in self._nominated if not self._is_valid(key)]:
            self.drop(key)

    def take_dropped(self) -> Sequence[PreemptorKey]:
        """Return the preemptors for which nothing is kept any more since the last call."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def of(self, key: PreemptorKey) -> Nomination | None:
        """Return what is kept for a preemptor; None without anything."""
        return self._nominated.get(key)

    def leaving_for(self, key: PreemptorKey) -> Leaving:
        """Return what has to leave, or has left, for a preemptor."""
        return self._nominated[key].leaving if key in self._nominated else NOTHING

    def evicted_before(self, key: PreemptorKey) -> Iterator[Pod]:
        """Yield the pods that others evict that count and were nominated before a preemptor."""
        for other, nomination in self._nominated.items():
            if other == key:
                return
            if other in self._counted:
                yield from nomination.leaving.pods

    def keeper_of(self, preemptor: Preemptor) -> PreemptorKey | None:
        """Return another preemptor for which a claim of this one gets its devices."""
        claims = {key for pod in preemptor.pods for key in pod_claims.used_claims(pod)}
        for key, nomination in self._nominated.items():
            if key != preemptor.key and any(
                assigned.claim.key in claims and assigned.allocation is not None
                for assignment in nomination.assignments
                for assigned in assignment.fit.claims
            ):
                return key
        return None

    @contextlib.contextmanager
    def counted_for(self, preemptor: Preemptor) -> Iterator[None]:
        """Count with what is kept for others, while pods are decided."""
        self.drop_invalid()
        self._counted = {
            key: nomination
            for key, nomination in self._nominated.items()
            if key != preemptor.key and nomination.preemptor.priority >= preemptor.priority
        }
        for nomination in self._counted.values():
            self._hold(nomination)
        try:
            yield
        finally:
            for nomination in self._counted.values():
                self._release(nomination)
            self._counted = {}

    def have_lower(self, preemptor: Preemptor) -> bool:
        """Return whether something is kept for pods of lower priority than those decided."""
        return any(True for _ in self._lower(preemptor))

    def _lower(self, preemptor: Preemptor) -> Iterator[Nomination]:
        for key, nomination in self._nominated.items():
            if key != preemptor.key and key not in self._counted:
                yield nomination

    @contextlib.contextmanager
    def with_lower(self, preemptor: Preemptor) -> Iterator[None]:
        """Count with what is kept for pods of lower priority as well.

        What can do without that leaves it to them: their victims are evicted already.
        """
        lower = list(self._lower(preemptor))
        for nomination in lower:
            self._hold(nomination)
        try:
            yield
        finally:
            for nomination in lower:
                self._release(nomination)

    @contextlib.contextmanager
    def before(self, key: PreemptorKey) -> Iterator[None]:
        """Count only with what was kept for others before the preemptor was nominated.

        Victims of later plans and what these keep may together be more than there is. They leave
        to this preemptor what is kept for it.
        """
        keys = list(self._nominated)
        later = [
            self._counted[other] for other in keys[keys.index(key) :] if other in self._counted
        ]
        for nomination in later:
            self._release(nomination)
        try:
            yield
        finally:
            for nomination in later:
                self._hold(nomination)

    def displace(self, preemptor: Preemptor, assignments: Sequence[NodeAssignment]) -> None:
        """Drop what is kept for pods of lower priority where others get nodes or are nominated."""
        devices = {device for assignment in assignments for device in _devices_of(assignment)}
        nodes = {assignment.node for assignment in assignments}
        for key, nomination in list(self._nominated.items()):
            if (
                key != preemptor.key
                and nomination.preemptor.priority < preemptor.priority
                and any(
                    kept.node in nodes or not devices.isdisjoint(_devices_of(kept))
                    for kept in nomination.assignments
                )
            ):
                self.drop(key)

    def _is_valid(self, key: PreemptorKey) -> bool:
        nomination = self._nominated[key]
        if isinstance(key, GangKey):
            group = self._state.groups.get(key.group)
            if group is None or group.metadata.uid != nomination.preemptor.uid:
                return False
        for assignment in nomination.assignments:
            metadata = assignment.pod.metadata
            pod = self._state.pods.get(metadata.key)
            if (
                pod is None
                or pod.metadata.uid != metadata.uid
                or effective_priority(pod, self._state) != nomination.preemptor.priority
                or not self._state.is_pending(pod)
                or self._state.nodes.get(assignment.node) is None
            ):
                return False
        return True

    def _hold(self, nomination: Nomination) -> None:
        for assignment in nomination.assignments:
            uid, usage = assignment.pod.metadata.uid, assignment.fit.usage
            self._state.nodes.add_pod(f"{uid} {_MARK}", assignment.node, usage)
        for key, allocation in nomination.allocations():
            self._state.inventory.record_allocation(key, allocation)

    def _release(self, nomination: Nomination) -> None:
        for assignment in nomination.assignments:
            self._state.nodes.remove_pod(f"{assignment.pod.metadata.uid} {_MARK}")
        for key, _ in nomination.allocations():
            self._state.inventory.release(key)


def _devices_of(assignment: NodeAssignment) -> Iterator[DeviceId]:
    for assigned in assignment.fit.claims:
        if assigned.allocation is not None:
            yield from (result.device_id for result in assigned.allocation.devices.results)
