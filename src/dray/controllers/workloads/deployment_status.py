"""The status of a Deployment: counts and conditions of its rollout, in Kubernetes' words.

As pkg/controller/deployment, progress.go and sync.go, calculateStatus.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import msgspec

from dray.api.formats import gotime
from dray.api.semantics.conditions import find_condition
from dray.api.templates import workload_types
from dray.api.templates.workload_types import Deployment, ReplicaSet
from dray.api.types.workloads import DeploymentStatus, WorkloadCondition
from dray.controllers import conditions
from dray.controllers.conditions import Conditions
from dray.controllers.workloads import rollouts

PROGRESSING, AVAILABLE, FAILURE = "Progressing", "Available", "ReplicaFailure"

CREATED, FOUND = "NewReplicaSetCreated", "FoundNewReplicaSet"
CREATE_FAILED, TIMED_OUT = "ReplicaSetCreateError", "ProgressDeadlineExceeded"
UPDATED, COMPLETE = "ReplicaSetUpdated", "NewReplicaSetAvailable"
PAUSED, RESUMED = "DeploymentPaused", "DeploymentResumed"


def has_deadline(deployment: Deployment) -> bool:
    return deployment.spec.progress_deadline_seconds not in (None, rollouts.UNLIMITED)


def progressing(
    deployment: Deployment, status: str, reason: str, message: str, now: datetime.datetime
) -> Conditions:
    """Return the conditions with a Progressing condition, if the deployment has a deadline."""
    current = deployment.status.conditions
    if not has_deadline(deployment):
        return current
    condition = conditions.make_updated(PROGRESSING, status, reason, message, now)
    return conditions.changed(current, condition)


def with_pause(deployment: Deployment, now: datetime.datetime) -> Conditions:
    """Return the conditions of a paused deployment. The deadline stops; failures stay."""
    current = find_condition(deployment.status.conditions, PROGRESSING)
    reason = current.reason if current else ""
    if reason == TIMED_OUT or deployment.spec.paused == (reason == PAUSED):
        return deployment.status.conditions
    word = "paused" if deployment.spec.paused else "resumed"
    reason = PAUSED if deployment.spec.paused else RESUMED
    message = f"Deployment is {word}"
    return progressing(deployment, conditions.UNKNOWN, reason, message, now)


def counted(
    deployment: Deployment,
    old: Sequence[ReplicaSet],
    new: ReplicaSet | None,
    now: datetime.datetime,
) -> DeploymentStatus:
    """Return the status with its counts and its availability."""
    replica_sets = [*old, new] if new else list(old)
    available = rollouts.available(replica_sets)
    status = DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(replica_set.status.replicas for replica_set in replica_sets),
        updated_replicas=new.status.replicas if new else 0,
        ready_replicas=sum(replica_set.status.ready_replicas for replica_set in replica_sets),
        available_replicas=available,
        unavailable_replicas=max(rollouts.total(replica_sets) - available, 0),
        terminating_replicas=_terminating(replica_sets),
        collision_count=deployment.status.collision_count,
        conditions=deployment.status.conditions,
    )
    least = workload_types.replicas(deployment) - rollouts.budget(deployment).unavailable
    if available >= least:
        value, reason, verb = conditions.TRUE, "MinimumReplicasAvailable", "has"
    else:
        value, reason, verb = conditions.FALSE, "MinimumReplicasUnavailable", "does not have"
    message = f"Deployment {verb} minimum availability."
    condition = conditions.make_updated(AVAILABLE, value, reason, message, now)
    changed = conditions.changed(status.conditions, condition)
    return msgspec.structs.replace(status, conditions=changed)


def _terminating(replica_sets: Sequence[ReplicaSet]) -> int | None:
    """Return the number of terminating pods, or None while a ReplicaSet does not report it."""
    terminating = 0
    for replica_set in replica_sets:
        if replica_set.status.terminating_replicas is not None:
            terminating += replica_set.status.terminating_replicas
        elif replica_set.status.observed_generation:
            return None
    return terminating


def rolled(
    deployment: Deployment,
    old: Sequence[ReplicaSet],
    new: ReplicaSet | None,
    now: datetime.datetime,
) -> DeploymentStatus:
    """Return the status of a rollout: counts, and whether it progresses, is complete or stuck."""
    status = counted(deployment, old, new, now)
    changed = status.conditions
    current = find_condition(deployment.status.conditions, PROGRESSING)
    was_complete = current is not None and current.reason == COMPLETE
    if not has_deadline(deployment):
        changed = conditions.without(changed, PROGRESSING)
    elif not (was_complete and status.replicas == status.updated_replicas):
        changed = _with_progress(deployment, status, new, now)
    failure = _failure(old, new)
    if failure is not None:
        changed = conditions.changed(changed, failure)
    else:
        changed = conditions.without(changed, FAILURE)
    return msgspec.structs.replace(status, conditions=changed)


def _with_progress(
    deployment: Deployment, status: DeploymentStatus, new: ReplicaSet | None, now: datetime.datetime
) -> Conditions:
    if is_complete(deployment, status):
        value, reason, text = conditions.TRUE, COMPLETE, "has successfully progressed."
    elif _has_progressed(deployment.status, status):
        value, reason, text = conditions.TRUE, UPDATED, "is progressing."
    elif _is_overdue(deployment, status, now):
        value, reason, text = conditions.FALSE, TIMED_OUT, "has timed out progressing."
    else:
        return status.conditions
    kind, metadata = "Deployment", deployment.metadata
    if new is not None:
        kind, metadata = "ReplicaSet", new.metadata
    message = f'{kind} "{metadata.name}" {text}'
    condition = conditions.make_updated(PROGRESSING, value, reason, message, now)
    change = _progressed if reason == UPDATED else conditions.changed
    return change(status.conditions, condition)


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    desired = workload_types.replicas(deployment)
    return (
        desired == status.updated_replicas == status.replicas == status.available_replicas
        and status.observed_generation >= deployment.metadata.generation
    )


def _has_progressed(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    return (
        after.updated_replicas > before.updated_replicas
        or after.replicas - after.updated_replicas < before.replicas - before.updated_replicas
        or after.ready_replicas > before.ready_replicas
        or after.available_replicas > before.available_replicas
    )


def _progressed(current: Conditions, condition: WorkloadCondition) -> Conditions:
    """Replace the condition at each step, because the deadline counts from the last one."""
    before = find_condition(current, PROGRESSING)
    if before is not None and before.status == conditions.TRUE:
        condition = msgspec.structs.replace(
            condition, last_transition_time=before.last_transition_time
        )
    return (*conditions.without(current, PROGRESSING), condition)


def _is_overdue(deployment: Deployment, status: DeploymentStatus, now: datetime.datetime) -> bool:
    current = find_condition(status.conditions, PROGRESSING)
    if current is None or current.reason == COMPLETE:
        return False
    return current.reason == TIMED_OUT or seconds_left(deployment, current, now) < 0


def seconds_left(
    deployment: Deployment, current: WorkloadCondition, now: datetime.datetime
) -> float:
    """Return the seconds until the rollout counts as stuck."""
    assert deployment.spec.progress_deadline_seconds is not None
    last = gotime.parse(current.last_update_time) if current.last_update_time else now
    return deployment.spec.progress_deadline_seconds - (now - last).total_seconds()


def seconds_to_deadline(
    deployment: Deployment, status: DeploymentStatus, now: datetime.datetime
) -> float | None:
    """Return the seconds until the next check for a stuck rollout, or None."""
    current = find_condition(status.conditions, PROGRESSING)
    if not has_deadline(deployment) or current is None:
        return None
    if is_complete(deployment, status) or current.reason == TIMED_OUT:
        return None
    return max(seconds_left(deployment, current, now), 0.0) + 1.0


def _failure(old: Sequence[ReplicaSet], new: ReplicaSet | None) -> WorkloadCondition | None:
    """Return the first ReplicaFailure condition, that of the new ReplicaSet if any, or None."""
    for replica_set in [new, *old] if new else old:
        failure = find_condition(replica_set.status.conditions, FAILURE)
        if failure is not None:
            since = failure.last_transition_time
            return msgspec.structs.replace(failure, last_update_time=since)
    return None
