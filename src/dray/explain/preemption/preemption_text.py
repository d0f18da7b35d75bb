"""The effect of preemption on a pod as text and as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from dray.explain.preemption.pod_preemption import (
    EvictedPod,
    PodPreemption,
    PreemptionOutcome,
)
from dray.explain.text import phrases
from dray.scheduling.unschedulable import NodeRefusal

ORDER = "violated budgets, highest priority, sum of priorities, number of pods, latest start"
"""What kube-scheduler compares of two sets of victims, in this order."""
_GATE = "DrayPreemption"
_GATE_OFF = f"With the feature gate {_GATE} the scheduler evicts them; without it, it does not."
_NOT_ELIGIBLE = "not eligible due to "
_NOTHING_FITS = "it fits on no node, and the search for pods to evict was ended before its end"


def lines(found: PodPreemption) -> Iterator[str]:
    """Yield what the explanation of a pod says about preemption, for clusters that have it."""
    outcome = PreemptionOutcome
    if not found.is_on and found.outcome is not outcome.UNDER_WAY:
        # Nobody is evicted there; of a gang, the search for nodes counts all the same.
        if found.group and found.message:
            yield _group_line(found)
        return
    match found.outcome:
        case outcome.EVICTS:
            where = _where(found)
            yield f"preemption: the scheduler evicts {_named(found)}; {where} then"
            yield from _limits(found)
        case outcome.UNDER_WAY:
            yield f"preemption: it gets {found.node} when {_named(found)} {_are(found)} gone"
        case outcome.NEVER | outcome.NOT_HELPFUL:
            why = list(reasons(found))
            yield f"preemption does not help: {why[0]}"
            yield from why[1:]
        case outcome.GROUP:
            yield _group_line(found)
            yield from (f"preemption does not help: {why}" for why in reasons(found))


def _group_line(found: PodPreemption) -> str:
    return f"its group cannot be placed: {found.message}"


def title(found: PodPreemption) -> str:
    """Return in one line whether evictions help the pod."""
    pod, outcome = f"pod {found.pod} (priority {found.priority})", PreemptionOutcome
    if found.group_nodes and found.outcome is outcome.EVICTS:
        where = phrases.listed(found.group_nodes)
        group = f"PodGroup {found.group} (priority {found.priority})"
        return f"{group} fits on {where} if {_count(found)} {_are(found)} evicted:"
    match found.outcome:
        case outcome.FITS:
            return f"{pod} fits on {found.node}, and no pod has to be evicted"
        case outcome.EVICTS:
            return f"{pod} fits on {found.node} if {_count(found)} {_are(found)} evicted:"
        case outcome.UNDER_WAY:
            return f"{pod} gets {found.node} when {_count(found)} {_are(found)} gone:"
        case outcome.GROUP:
            return f"{pod}: its group cannot be placed: {found.message}"
        case outcome.UNDECIDED:
            return f"{pod} cannot be decided: {found.message}"
    return f"{pod}: preemption does not help"


def notes(found: PodPreemption) -> Iterator[str]:
    """Yield what there is to say below the title and the victims."""
    yield from reasons(found)
    yield from _limits(found)
    if found.outcome is PreemptionOutcome.EVICTS:
        if found.is_exhaustive:
            yield f"No other pods are better, compared by: {ORDER}."
        if not found.is_on:
            yield _GATE_OFF


def reasons(found: PodPreemption) -> Iterator[str]:
    """Yield why preemption does not help; nothing where it does."""
    if found.outcome is PreemptionOutcome.NEVER:
        yield "its preemptionPolicy is Never"
    if found.outcome is PreemptionOutcome.GROUP:
        yield from _group_reasons(found)
    if found.outcome is not PreemptionOutcome.NOT_HELPFUL:
        return
    if found.message:
        yield found.message.removeprefix(_NOT_ELIGIBLE).removesuffix(".")
        return
    if not found.is_exhaustive:
        yield _NOTHING_FITS
    if found.is_exhaustive and not found.nodes:
        yield "there is no node on which pods could be evicted"
    for reason in NodeRefusal:
        if count := found.nodes.get(reason, 0):
            yield _reason(reason, phrases.counted(count, "node"), found.priority)


def _group_reasons(found: PodPreemption) -> Iterator[str]:
    if NodeRefusal.NO_VICTIMS in found.nodes:
        yield f"there is no pod of lower priority than its {found.priority}"
    elif NodeRefusal.NOT_ENOUGH in found.nodes and found.is_exhaustive:
        yield "it does not fit without all pods of lower priority either"
    elif NodeRefusal.NOT_ENOUGH in found.nodes:
        yield "the search was ended before it was known whether it fits without other pods"


def _where(found: PodPreemption) -> str:
    if found.group_nodes:
        return f"its group fits on {phrases.listed(found.group_nodes)}"
    return f"it fits on {found.node}"


def _reason(reason: NodeRefusal, nodes: str, priority: int) -> str:
    match reason:
        case NodeRefusal.NO_VICTIMS:
            return f"on {nodes} no pod of lower priority than its {priority} has what is missing"
        case NodeRefusal.NOT_ENOUGH:
            return f"on {nodes} it does not fit without all pods of lower priority either"
        case NodeRefusal.NOT_RESOLVABLE:
            return f"on {nodes} other pods are not why it does not fit"


def _limits(found: PodPreemption) -> Iterator[str]:
    if budgets := found.violated_budgets:
        noun = "PodDisruptionBudget" if len(budgets) == 1 else "PodDisruptionBudgets"
        yield f"This is more than {noun} {phrases.listed(budgets)} {_allow(len(budgets))}."
    if not found.has_budgets:
        yield "PodDisruptionBudgets could not be read, so they do not count."
    if found.outcome is PreemptionOutcome.EVICTS and not found.is_exhaustive:
        yield "The search was ended before all was tried: other pods may be better."


def _count(found: PodPreemption) -> str:
    return phrases.counted(len(found.victims), "pod")


def _are(found: PodPreemption) -> str:
    return "is" if len(found.victims) == 1 else "are"


def _allow(budgets: int) -> str:
    return "allows" if budgets == 1 else "allow"


def _named(found: PodPreemption) -> str:
    words = [_victim(victim) for victim in found.victims]
    noun = "pod" if len(words) == 1 else "pods"
    return f"{noun} {phrases.limited(words, len(words), 'pod')}"


def _victim(victim: EvictedPod) -> str:
    return f"{victim.pod} (priority {victim.priority})"


def as_json(found: PodPreemption) -> dict[str, Any]:
    """Return what preemption does as data."""
    return {
        "isOn": found.is_on,
        "outcome": found.outcome.value,
        "summary": title(found).rstrip(":"),
        "notes": list(notes(found)),
        "priority": found.priority,
        "node": found.node,
        "group": found.group,
        "groupNodes": list(found.group_nodes),
        "victims": [msgspec.to_builtins(victim) for victim in found.victims],
        "violatedBudgets": list(found.violated_budgets),
        "hasBudgets": found.has_budgets,
        "nodesByReason": {reason.value: count for reason, count in found.nodes.items()},
        "isExhaustive": found.is_exhaustive,
    }
