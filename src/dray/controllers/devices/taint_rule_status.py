"""The status of a DeviceTaintRule: the progress of its evictions, in Kubernetes' words.

As pkg/controller/devicetainteviction, maybeUpdateRuleStatus.
"""

from __future__ import annotations

from typing import NamedTuple

from dray.api import well_known
from dray.api.semantics.conditions import find_condition
from dray.api.types.dra import DeviceTaintRule
from dray.api.types.meta import Condition

EVICTION_IN_PROGRESS = "EvictionInProgress"


class Effects(NamedTuple):
    """The effects of a rule, or those it would have with the effect NoExecute."""

    pending_pods: int = 0
    pending_namespaces: int = 0
    evicted_pods: int = 0
    published_devices: int = 0
    allocated_devices: int = 0


def condition_of(rule: DeviceTaintRule) -> Condition | None:
    return find_condition(rule.status.conditions, EVICTION_IN_PROGRESS)


def condition(rule: DeviceTaintRule, effects: Effects) -> Condition:
    """Return the condition without its transition time."""
    status, reason, message = _state(rule.spec.taint.effect, effects)
    if effects.evicted_pods:
        evicted = f"{_count(effects.evicted_pods, 'pod')} evicted since starting the controller."
        message = f"{message} {evicted}" if message else evicted
    return Condition(
        type=EVICTION_IN_PROGRESS,
        status=status,
        reason=reason,
        message=message,
        observed_generation=rule.metadata.generation,
    )


def _state(effect: str, effects: Effects) -> tuple[str, str, str]:
    if effect == well_known.NO_EXECUTE:
        if effects.pending_pods:
            return "True", "PodsPendingEviction", _pending(effects)
        return "False", "Completed" if effects.evicted_pods else "NotStarted", ""
    if effect == "None":
        return "False", "NoEffect", _simulated(effects)
    return "False", "OtherEffect", "Eviction only happens for the NoExecute effect."


def _pending(effects: Effects) -> str:
    verb = "needs" if effects.pending_pods == 1 else "need"
    pods = _count(effects.pending_pods, "pod")
    return f"{pods} {verb} to be evicted in {_namespaces(effects)}."


def _simulated(effects: Effects) -> str:
    return (
        f"{_count(effects.published_devices, 'published device')} selected. "
        f"{_count(effects.allocated_devices, 'allocated device')} selected. "
        f"{_count(effects.pending_pods, 'pod')} would be evicted in {_namespaces(effects)} "
        "if the effect was NoExecute. This information will not be updated again. "
        "Recreate the DeviceTaintRule to trigger an update."
    )


def _namespaces(effects: Effects) -> str:
    if effects.pending_namespaces == 1:
        return "1 namespace"
    return f"{effects.pending_namespaces} different namespaces"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
