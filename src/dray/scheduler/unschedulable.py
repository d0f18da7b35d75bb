"""Why a pod has no node: upstream's sentence, what could help, what to say about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import msgspec

from dray.api.ids import ClaimKey, ObjectKey
from dray.api.types.dra import ResourceClaim
from dray.scheduler import queue
from dray.scheduler.queue import WakeEvent
from dray.scheduling.nodes.node_fit import FilterReason, ReasonKind

UNSCHEDULABLE, SCHEDULER_ERROR = "Unschedulable", "SchedulerError"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"

_HELPS: dict[ReasonKind, tuple[WakeEvent, ...]] = {
    ReasonKind.NODE: (queue.NODES,),
    ReasonKind.ROOM: (queue.NODES, queue.ROOM, queue.CLASSES),
    ReasonKind.DEVICES: (queue.NODES, queue.DEVICES, queue.CLASSES),
    ReasonKind.CLAIM: (queue.NODES,),
    ReasonKind.NEIGHBOURS: (queue.NODES, queue.ROOM, queue.NEIGHBOURS),
}


class Unschedulable(msgspec.Struct, frozen=True, kw_only=True):
    """No node for a pod."""

    reasons: dict[FilterReason, int] = {}
    """How many nodes cannot be used for which reason."""
    nodes: int | None = None
    """How many nodes there were."""
    before_nodes: str = ""
    """Why no node was even looked at."""
    error: str = ""
    """What went wrong, where that is the reason."""
    of_group: str = ""
    """Why the pod's group cannot be scheduled, where that is the reason."""
    causes: frozenset[WakeEvent] = frozenset()
    claims: Sequence[ResourceClaim] = ()
    """The claims that need devices, if that is what the pod waits for."""
    in_the_way: frozenset[ClaimKey] = frozenset()
    """Allocated claims that are of no use on some node."""
    template: str = ""
    """The template from which a claim has not been made."""
    is_passing: bool = False
    """Likely to be over in a moment, and then not worth a word."""
    is_retried: bool = False
    """Worth another try although nothing changes."""

    @property
    def category(self) -> str:
        """The reason as a metric has it: few different values."""
        if self.error:
            return "error"
        if self.of_group:
            return "group"
        if self.before_nodes:
            return "class" if queue.CLASSES in self.causes else "claim"
        sorts = {reason.sort for reason in self.reasons}
        for sort in (
            ReasonKind.DEVICES,
            ReasonKind.CLAIM,
            ReasonKind.ROOM,
            ReasonKind.NEIGHBOURS,
            ReasonKind.NODE,
        ):
            if sort in sorts:
                return str(sort.value)
        return "no nodes"

    @property
    def condition_reason(self) -> str:
        return SCHEDULER_ERROR if self.error else UNSCHEDULABLE


def no_fit(
    reasons: Counter[FilterReason],
    nodes: int,
    claims: Sequence[ResourceClaim] = (),
    in_the_way: Collection[ClaimKey] = (),
    shared: Collection[ClaimKey] = (),
) -> Unschedulable:
    """No node fits. Without any node, one has to come.

    `shared` are claims that another pod may get allocated, which helps this one as well.
    """
    helpful = {cause for reason in reasons for cause in _HELPS[reason.sort]} or {queue.NODES}
    helpful |= {queue.claim_changes(ObjectKey(*key)) for key in (*in_the_way, *shared)}
    needs_devices = any(reason.sort is ReasonKind.DEVICES for reason in reasons)
    return Unschedulable(
        reasons=dict(reasons),
        nodes=nodes,
        causes=frozenset(helpful),
        claims=claims if needs_devices else (),
        in_the_way=frozenset(in_the_way),
    )


def sentence(refusal: Unschedulable, nodes: int, preemption: str = "") -> str:
    """What kube-scheduler says (framework/types.go FitError.Error)."""
    if refusal.error or refusal.of_group:
        return refusal.error or refusal.of_group
    text = f"0/{nodes} nodes are available:"
    if refusal.before_nodes:
        text += f" {refusal.before_nodes}."
    elif refusal.reasons:
        text += f" {_histogram((reason.text, count) for reason, count in refusal.reasons.items())}."
    elif not nodes:
        return "no nodes available to schedule pods"
    return f"{text} preemption: {preemption or no_preemption(refusal, nodes)}"


def no_preemption(refusal: Unschedulable, nodes: int) -> str:
    """Why nobody is evicted for the pod (framework/preemption/preemption.go evaluate)."""
    resolvable = 0
    if not refusal.before_nodes:
        resolvable = max(
            (count for reason, count in refusal.reasons.items() if reason.is_resolvable), default=0
        )
    counts = ((NO_VICTIMS, resolvable), (NOT_HELPFUL, nodes - resolvable))
    return f"0/{nodes} nodes are available: {_histogram(each for each in counts if each[1])}."


def _histogram(counts: Iterable[tuple[str, int]]) -> str:
    merged: Counter[str] = Counter()
    for text, count in counts:
        merged[text] += count
    return ", ".join(sorted(f"{count} {text}" for text, count in merged.items()))
