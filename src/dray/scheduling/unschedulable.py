"""Unschedulable pods: the reasons, kube-scheduler's message, the events that could help."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

import msgspec

from dray.api.ids import ClaimKey, ObjectKey
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.scheduling import wake_events
from dray.scheduling.nodes.node_fit import FilterReason, ReasonKind
from dray.scheduling.wake_events import WakeEvent

UNSCHEDULABLE, SCHEDULER_ERROR = "Unschedulable", "SchedulerError"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"

_WAKE_EVENTS: dict[ReasonKind, tuple[WakeEvent, ...]] = {
    ReasonKind.DEVICES: (wake_events.NODES, wake_events.DEVICES, wake_events.CLASSES),
    ReasonKind.CLAIM: (wake_events.NODES,),
    ReasonKind.NODE_RESOURCES: (wake_events.NODES, wake_events.POD_REMOVED, wake_events.CLASSES),
    ReasonKind.POD_AFFINITY: (wake_events.NODES, wake_events.POD_REMOVED, wake_events.POD_PLACED),
    ReasonKind.NODE: (wake_events.NODES,),
}
"""The events that could remove a reason, in the order in which kinds become a category."""


class PreemptionPlan(msgspec.Struct, frozen=True):
    """A node, and the pods to evict so that another pod fits there.

    Some of them may be on other nodes, or be leaving already.
    """

    node: str
    victims: Sequence[Pod]
    violated_budgets: Sequence[ObjectKey] = ()
    """The disruption budgets that do not allow all of this."""
    is_exhaustive: bool = True
    """No better victims exist. False if the search ended before that was known."""
    nodes: Mapping[ObjectKey, str] = {}
    """For a gang: the node of each of its pods; `node` is that of the first one."""

    def __str__(self) -> str:
        if self.nodes:
            return f"found a placement for podgroup, preempting {len(self.victims)} victims"
        return (
            f"found a potential placement for pod on node {self.node}, "
            f"preempting {len(self.victims)} victims"
        )


class NodeRefusal(enum.Enum):
    """A reason why no eviction makes room for a pod on a node."""

    NOT_RESOLVABLE = "not resolvable"
    """Other pods are not the reason why the node is ruled out."""
    NO_VICTIMS = "no victims"
    """No pod of lower priority uses what is missing."""
    NOT_ENOUGH = "not enough"
    """Without all of these pods, the pod still does not fit."""


class PreemptionRefusal(msgspec.Struct, frozen=True):
    """The reason why preemption does not help a pod."""

    message: str = ""
    """kube-scheduler's message if the pod may not preempt others at all."""
    nodes: Mapping[NodeRefusal, int] = {}
    """Otherwise the number of nodes by reason."""
    is_exhaustive: bool = True
    """No victims help. False if the search ended before that was known."""


class Unschedulable(msgspec.Struct, frozen=True, kw_only=True):
    """The decision that a pod gets no node, with the reasons.

    One of the first four fields describes it; all are empty in a cluster without nodes.
    """

    error: str = ""
    """The scheduler failed, for example at a selector that cannot be evaluated."""
    group_message: str = ""
    """The pod's group cannot be placed."""
    before_nodes: str = ""
    """No node was looked at: a claim or device class is missing or not ready."""
    reasons: dict[FilterReason, int] = {}
    """The number of nodes that are ruled out, by reason."""
    nodes: int | None = None
    """The number of nodes that were checked; None if none was."""
    wake_events: frozenset[WakeEvent] = frozenset()
    """The changes after which another attempt is worth while."""
    claims: Sequence[ResourceClaim] = ()
    """The claims that need devices, if the pod waits for devices."""
    unusable_claims: frozenset[ClaimKey] = frozenset()
    """Allocated claims that cannot be used on some node."""
    stale_claims: Sequence[ResourceClaim] = ()
    """Claims of an earlier attempt that have to be deleted before the next one."""
    template: str = ""
    """The template from which a claim has not been created yet."""
    placement_key: Hashable = None
    """Equal for pods that fit on the same nodes; None for this pod alone."""
    preemption: PreemptionPlan | None = None
    """The pods to evict, if preemption helps."""
    preemption_refusal: PreemptionRefusal | None = None
    """The reason why preemption does not help; None if it does, or if it is switched off."""
    is_gated: bool = False
    """The pod has scheduling gates: it waits for its owner, and that is no failure."""
    is_transient: bool = False
    """Likely to resolve itself within a moment, before it is worth a report."""
    is_retried: bool = False
    """Worth another attempt although nothing changes."""
    is_ended: bool = False
    """The search for a group was ended before it was known whether it fits."""

    @property
    def category(self) -> str:
        """Return the reason as a label of metrics: one of few values."""
        if self.is_gated:
            return "gates"
        if self.error:
            return "error"
        if self.group_message:
            return "group"
        if self.before_nodes:
            return "class" if wake_events.CLASSES in self.wake_events else "claim"
        kinds = {reason.kind for reason in self.reasons}
        return next((str(kind.value) for kind in _WAKE_EVENTS if kind in kinds), "no nodes")

    @property
    def condition_reason(self) -> str:
        return SCHEDULER_ERROR if self.error else UNSCHEDULABLE


def no_fit(
    reasons: Counter[FilterReason],
    nodes: int,
    claims: Sequence[ResourceClaim] = (),
    unusable_claims: Collection[ClaimKey] = (),
    shared: Collection[ClaimKey] = (),
) -> Unschedulable:
    """Return that no node fits, with the events that could change that.

    `shared` are claims that may be allocated for another pod, which helps this one as well.
    """
    events = {event for reason in reasons for event in _WAKE_EVENTS[reason.kind]}
    if not events:
        # Without any node there is no reason; one has to be added.
        events.add(wake_events.NODES)
    events |= {wake_events.claim_changes(key) for key in (*unusable_claims, *shared)}
    needs_devices = any(reason.kind is ReasonKind.DEVICES for reason in reasons)
    return Unschedulable(
        reasons=dict(reasons),
        nodes=nodes,
        wake_events=frozenset(events),
        claims=claims if needs_devices else (),
        unusable_claims=frozenset(unusable_claims),
    )


def message(result: Unschedulable, nodes: int) -> str:
    """Return kube-scheduler's message. `nodes` is the number of nodes in the cluster.

    https://github.com/kubernetes/kubernetes/blob/release-1.37/pkg/scheduler/framework/types.go
    (FitError.Error)
    """
    if result.error:
        return result.error
    if result.group_message:
        plan = f"; preemption: {result.preemption}" if result.preemption is not None else ""
        return result.group_message + plan
    text = f"0/{nodes} nodes are available:"
    if result.before_nodes:
        text += f" {result.before_nodes}."
    elif result.reasons:
        text += f" {_histogram((reason.text, count) for reason, count in result.reasons.items())}."
    elif not nodes:
        return "no nodes available to schedule pods"
    return f"{text} preemption: {_preemption_message(result, nodes)}"


def _preemption_message(result: Unschedulable, nodes: int) -> str:
    if result.preemption is not None:
        return str(result.preemption)
    refusal = result.preemption_refusal
    return refusal.message if refusal and refusal.message else no_preemption(result, nodes)


def no_preemption(result: Unschedulable, nodes: int) -> str:
    """Return why no pod is evicted.

    https://github.com/kubernetes/kubernetes/blob/release-1.37/pkg/scheduler/framework/preemption/preemption.go
    """
    resolvable = 0
    if not result.before_nodes:
        resolvable = max(
            (count for reason, count in result.reasons.items() if reason.is_resolvable), default=0
        )
    counts = ((NO_VICTIMS, resolvable), (NOT_HELPFUL, nodes - resolvable))
    nonzero = ((text, count) for text, count in counts if count)
    return f"0/{nodes} nodes are available: {_histogram(nonzero)}."


def _histogram(counts: Iterable[tuple[str, int]]) -> str:
    merged: Counter[str] = Counter()
    for text, count in counts:
        merged[text] += count
    return ", ".join(sorted(f"{count} {text}" for text, count in merged.items()))
