"""Conditions of workloads: set, replace or remove one, with its timestamps."""

from __future__ import annotations

import datetime

import msgspec

from dray.api.formats import gotime
from dray.api.semantics.conditions import find_condition
from dray.api.types.workloads import WorkloadCondition

Conditions = tuple[WorkloadCondition, ...]

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"


def without(conditions: Conditions, type_: str) -> Conditions:
    return tuple(condition for condition in conditions if condition.type != type_)


def changed(conditions: Conditions, condition: WorkloadCondition) -> Conditions:
    """Return the conditions with one replaced, unless its status and reason are unchanged."""
    current = find_condition(conditions, condition.type)
    if current is not None and current.status == condition.status:
        if current.reason == condition.reason:
            return conditions
        condition = msgspec.structs.replace(
            condition, last_transition_time=current.last_transition_time
        )
    return (*without(conditions, condition.type), condition)


def make(
    type_: str, status: str, reason: str, message: str, now: datetime.datetime, *times: str
) -> WorkloadCondition:
    """Build a condition. `times` are fields to set as well as the transition time."""
    stamps = dict.fromkeys(("last_transition_time", *times), gotime.write(now))
    return WorkloadCondition(type=type_, status=status, reason=reason, message=message, **stamps)


def make_updated(
    type_: str, status: str, reason: str, message: str, now: datetime.datetime
) -> WorkloadCondition:
    """Build a condition as Deployments write it, with the time of the last update."""
    return make(type_, status, reason, message, now, "last_update_time")


def make_probed(
    type_: str, status: str, reason: str, message: str, now: datetime.datetime
) -> WorkloadCondition:
    """Build a condition as Jobs write it, with the time of the last probe."""
    return make(type_, status, reason, message, now, "last_probe_time")
