"""Nominations: what is freed for a pod is kept for it until it is placed or gives up.

While other pods are decided, the pod counts as if it was on its node: its node resources are in use
there, and its claims hold the devices that the plan found for them, also while victims still have
them. Pods of a higher priority do not count with it. So does kube-scheduler for node resources:
https://github.com/kubernetes/kubernetes/blob/release-1.37/pkg/scheduler/framework/runtime/framework.go
(RunFilterPluginsWithNominatedPods)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dray.api.ids import ClaimKey, DeviceId, ObjectKey
from dray.api.types.dra import AllocationResult
from dray.api.types.pods import Pod
from dray.scheduling.claims.assignments import NodeFit
from dray.scheduling.preemption.leaving import Leaving
from dray.scheduling.preemption.priorities import priority_of
from dray.scheduling.state import SchedulingState

NOTHING = Leaving()
_MARK = "(nominated)"
"""Tells what is kept for a pod from what it has."""


class _Nomination(NamedTuple):
    node: str
    priority: int
    uid: str
    fit: NodeFit
    leaving: Leaving

    def allocations(self) -> Iterator[tuple[ClaimKey, AllocationResult]]:
        """Yield the devices to keep, with keys that no claims have."""
        for assigned in self.fit.claims:
            if assigned.allocation is not None:
                key = assigned.claim.key
                yield ClaimKey(key.namespace, f"{key.name} {_MARK}"), assigned.allocation


class Nominations:
    """The nodes and devices that are being cleared for pods."""

    def __init__(self, state: SchedulingState) -> None:
        self._state = state
        self._nominated: dict[ObjectKey, _Nomination] = {}
        """In the order of the plans: each counts with those before it."""
        self._counted: dict[ObjectKey, _Nomination] = {}
        self._dropped: list[ObjectKey] = []
        self._known: dict[ObjectKey, str] = {}

    def add(self, pod: Pod, node: str, fit: NodeFit, leaving: Leaving = NOTHING) -> None:
        """Keep for a pod what it gets on a node without what is leaving."""
        key, uid = pod.metadata.key, pod.metadata.uid
        self._nominated.pop(key, None)
        self._nominated[key] = _Nomination(node, priority_of(pod), uid, fit, leaving)
        if len(self._known) > 2 * len(self._state.pods):
            self._known = {other: kept.uid for other, kept in self._nominated.items()}
        self._known[key] = uid

    def revise(self, key: ObjectKey, fit: NodeFit, leaving: Leaving) -> None:
        """Keep something else for a pod on its node, or with less that is leaving."""
        self._nominated[key] = self._nominated[key]._replace(fit=fit, leaving=leaving)

    def is_known(self, pod: Pod) -> bool:
        """Return whether something was kept for the pod before, as far as that is remembered."""
        return self._known.get(pod.metadata.key) == pod.metadata.uid

    def remove(self, key: ObjectKey) -> None:
        """Stop keeping anything for a pod, because it got it; nothing happens without anything."""
        self._nominated.pop(key, None)

    def drop(self, key: ObjectKey) -> None:
        """Stop keeping anything for a pod that did not get it, so that other pods can."""
        if self._nominated.pop(key, None) is not None:
            self._dropped.append(key)

    def drop_invalid(self) -> None:
        """Drop what is kept for pods that do not wait any more, and on nodes that are gone."""
        for key in [key for key in self._nominated if not self._is_valid(key)]:
            self.drop(key)

    def take_dropped(self) -> Sequence[ObjectKey]:
        """Return the pods for which nothing is kept any more since the last call."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def node_of(self, key: ObjectKey) -> str:
        """Return the node that is kept for a pod; empty without one."""
        return self._nominated[key].node if key in self._nominated else ""

    def leaving_for(self, key: ObjectKey) -> Leaving:
        """Return what has to leave, or has left, for a pod."""
        return self._nominated[key].leaving if key in self._nominated else NOTHING

    @contextlib.contextmanager
    def counted_for(self, pods: Sequence[Pod]) -> Iterator[None]:
        """Count with what is kept for others, while pods are decided."""
        self.drop_invalid()
        deciding = {pod.metadata.key for pod in pods}
        lowest = min(map(priority_of, pods), default=0)
        self._counted = {
            key: nomination
            for key, nomination in self._nominated.items()
            if key not in deciding and nomination.priority >= lowest
        }
        for nomination in self._counted.values():
            self._hold(nomination)
        try:
            yield
        finally:
            for nomination in self._counted.values():
                self._release(nomination)
            self._counted = {}

    @contextlib.contextmanager
    def before(self, key: ObjectKey) -> Iterator[None]:
        """Count only with what was kept for others before the pod was nominated.

        Victims of later plans and what these keep may together be more than there is. They leave
        to this pod what is kept for it.
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

    def displace(self, pod: Pod, node: str, fit: NodeFit) -> None:
        """Drop what is kept for pods of lower priority where a pod gets a node or is nominated."""
        devices = set(_devices_of(fit))
        for key, nomination in list(self._nominated.items()):
            if (
                key != pod.metadata.key
                and nomination.priority < priority_of(pod)
                and (nomination.node == node or not devices.isdisjoint(_devices_of(nomination.fit)))
            ):
                self.drop(key)

    def _is_valid(self, key: ObjectKey) -> bool:
        pod, nomination = self._state.pods.get(key), self._nominated[key]
        return (
            pod is not None
            and pod.metadata.uid == nomination.uid
            and priority_of(pod) == nomination.priority
            and self._state.is_pending(pod)
            and self._state.nodes.get(nomination.node) is not None
        )

    def _hold(self, nomination: _Nomination) -> None:
        usage = nomination.fit.usage
        self._state.nodes.add_pod(f"{nomination.uid} {_MARK}", nomination.node, usage)
        for key, allocation in nomination.allocations():
            self._state.inventory.record_allocation(key, allocation)

    def _release(self, nomination: _Nomination) -> None:
        self._state.nodes.remove_pod(f"{nomination.uid} {_MARK}")
        for key, _ in nomination.allocations():
            self._state.inventory.release(key)


def _devices_of(fit: NodeFit) -> Iterator[DeviceId]:
    for assigned in fit.claims:
        if assigned.allocation is not None:
            yield from (result.device_id for result in assigned.allocation.devices.results)
