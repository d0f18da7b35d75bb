"""The effect of preemption on a pod that waits for a node."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from dray.api.features import Features
from dray.api.semantics import pod_status
from dray.api.types.core import Namespace, PodDisruptionBudget, PriorityClass
from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup
from dray.scheduling.preemption.priorities import priority_of
from dray.scheduling.unschedulable import NodeRefusal

FURTHER_TYPES: frozenset[type[Any]] = frozenset(
    {Namespace, PodDisruptionBudget, PodGroup, PriorityClass}
)
"""The types that count here and that other explanations do not need."""
NEEDED = frozenset({"DeviceClass", "Node", "Pod", "ResourceClaim", "ResourceSlice"})
"""Kinds without which any answer could be wrong."""


class PreemptionOutcome(enum.StrEnum):
    FITS = "fits"
    """The pod fits without evictions."""
    EVICTS = "evicts"
    UNDER_WAY = "under way"
    """Pods are leaving the node that the pod is nominated for."""
    NEVER = "never"
    """The pod's preemptionPolicy forbids it."""
    NOT_HELPFUL = "not helpful"
    GROUP = "group"
    """The pod's group cannot be placed."""
    UNDECIDED = "undecided"
    """Something else keeps the pod from being decided; `message` says what."""


class EvictedPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that has to go."""

    pod: str
    """NAMESPACE/NAME."""
    priority: int
    node: str
    is_leaving: bool
    """It is being deleted already."""


class PodPreemption(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of preemption on a pod that waits."""

    pod: str
    priority: int
    is_on: bool
    """The cluster is known to have the feature gate DrayPreemption."""
    outcome: PreemptionOutcome
    node: str = ""
    """The node on which the pod fits then."""
    group: str = ""
    """The PodGroup that is placed as a whole, as NAMESPACE/NAME."""
    group_nodes: tuple[str, ...] = ()
    """The nodes on which the group fits then."""
    victims: tuple[EvictedPod, ...] = ()
    violated_budgets: tuple[str, ...] = ()
    """The PodDisruptionBudgets that do not allow all of this, as NAMESPACE/NAME."""
    has_budgets: bool = True
    """PodDisruptionBudgets could be read."""
    nodes: Mapping[NodeRefusal, int] = {}
    """If preemption does not help, the number of nodes by reason; of a group, of all nodes."""
    message: str = ""
    is_exhaustive: bool = True
    """The search has tried everything that could be better."""

    @property
    def helps(self) -> bool:
        """Whether the pod gets a node, with or without evictions."""
        outcomes = PreemptionOutcome
        return self.outcome in (outcomes.FITS, outcomes.EVICTS, outcomes.UNDER_WAY)


def is_explained(features: Features) -> bool:
    """Return whether the scheduler of a cluster evicts pods, or searches nodes for gangs."""
    return features.preemption or features.gang_search


def waits(pod: Pod) -> bool:
    """Return whether a pod waits for a node that the scheduler may give it now."""
    return not pod.spec.node_name and not pod.spec.scheduling_gates and pod_status.is_active(pod)


def under_way(
    pod: Pod,
    pods: Iterable[Pod],
    *,
    is_on: bool,
    priority_of: Callable[[Pod], int] = priority_of,
) -> PodPreemption | None:
    """Return which of some pods a pod waits for until they have left its nominated node.

    Returns None if there are none. The scheduler evicts no others meanwhile. `priority_of` gives
    the priority that counts.
    """
    node = pod.status.nominated_node_name
    if not node or not waits(pod):
        return None
    leaving = tuple(
        evicted(other, priority_of(other))
        for other in pods
        if other.spec.node_name == node
        and pod_status.is_terminating(other)
        and priority_of(other) < priority_of(pod)
    )
    if not leaving:
        return None
    return PodPreemption(
        pod=str(pod.metadata.key),
        priority=priority_of(pod),
        is_on=is_on,
        outcome=PreemptionOutcome.UNDER_WAY,
        node=node,
        victims=leaving,
    )


def evicted(pod: Pod, priority: int) -> EvictedPod:
    metadata = pod.metadata
    is_leaving = metadata.deletion_timestamp is not None
    return EvictedPod(str(metadata.key), priority, pod.spec.node_name or "", is_leaving)
