"""The pods for which others make room: one pod, or the pods of a gang together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dray.api.ids import ObjectKey
from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup
from dray.scheduling.preemption.priorities import effective_priority
from dray.scheduling.state import SchedulingState


class GangKey(NamedTuple):
    """The key of a gang; a pod may have the same name."""

    group: ObjectKey

    def __str__(self) -> str:
        return str(self.group)


PreemptorKey = ObjectKey | GangKey


class Preemptor(NamedTuple):
    """A pod, or the pods of a gang that have no node yet."""

    key: PreemptorKey
    uid: str
    """That of the pod, or of the PodGroup."""
    priority: int
    pods: Sequence[Pod]

    @classmethod
    def of_pod(cls, pod: Pod, state: SchedulingState) -> Preemptor:
        metadata = pod.metadata
        return cls(metadata.key, metadata.uid, effective_priority(pod, state), (pod,))

    @classmethod
    def of_gang(cls, group: PodGroup, pods: Sequence[Pod]) -> Preemptor:
        metadata = group.metadata
        return cls(GangKey(metadata.key), metadata.uid, group.spec.priority or 0, tuple(pods))

    @property
    def is_gang(self) -> bool:
        return isinstance(self.key, GangKey)


def needs_others(pod: Pod) -> bool:
    """Return whether a pod may fit on a node only as long as other pods are there."""
    affinity = pod.spec.affinity.pod_affinity if pod.spec.affinity is not None else None
    if affinity is not None and affinity.required_during_scheduling_ignored_during_execution:
        return True
    return bool(pod.spec.topology_spread_constraints)
