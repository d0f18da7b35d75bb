"""Predicates on a pod's status: ended, active, ready, available."""

from __future__ import annotations

import datetime

from dray.api.formats import gotime
from dray.api.semantics.conditions import find_condition, is_condition_true
from dray.api.types.pods import Pod

PENDING, RUNNING, SUCCEEDED, FAILED, UNKNOWN = (
    "Pending",
    "Running",
    "Succeeded",
    "Failed",
    "Unknown",
)


def has_ended(pod: Pod) -> bool:
    """Return whether no container runs or will run."""
    return pod.status.phase in (SUCCEEDED, FAILED)


def is_done(pod: Pod) -> bool:
    """Return whether a pod has ended, or was deleted before it had a node and never starts."""
    return has_ended(pod) or (is_deleted(pod) and not pod.spec.node_name)


def is_deleted(pod: Pod) -> bool:
    """Return whether a pod is marked for deletion; its containers may still run."""
    return pod.metadata.deletion_timestamp is not None


def is_active(pod: Pod) -> bool:
    return not has_ended(pod) and not is_deleted(pod)


def is_terminating(pod: Pod) -> bool:
    """Return whether a pod is marked for deletion and has not ended."""
    return is_deleted(pod) and not has_ended(pod)


def is_ready(pod: Pod) -> bool:
    return is_condition_true(pod.status.conditions, "Ready")


def ready_since(pod: Pod) -> datetime.datetime | None:
    ready = find_condition(pod.status.conditions, "Ready")
    if ready is None or ready.status != "True" or ready.last_transition_time is None:
        return None
    return gotime.parse(ready.last_transition_time)


def seconds_until_available(
    pod: Pod, min_ready_seconds: int, now: datetime.datetime
) -> float | None:
    """Return 0 if the pod is available, None if it is not ready."""
    if not is_ready(pod):
        return None
    if not min_ready_seconds:
        return 0.0
    since = ready_since(pod)
    if since is None:
        return None
    return max(min_ready_seconds - (now - since).total_seconds(), 0.0)


def is_available(pod: Pod, min_ready_seconds: int, now: datetime.datetime) -> bool:
    return seconds_until_available(pod, min_ready_seconds, now) == 0.0


def restarts(pod: Pod) -> int:
    """Return the highest restart count of the pod's containers."""
    return max((status.restart_count for status in pod.status.container_statuses), default=0)
