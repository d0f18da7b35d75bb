"""The status of a Deployment: counts and conditions of its rollout, in Kubernetes' words.

As pkg/controller/deployment, progress.go and sync.go, calculateStatus.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import msgspec

from dray.api.formats import gotime
from dray.api.semantics.conditions import find_condition
from dray.api.types.workloads import DeploymentStatus, WorkloadCondition
from dray.controllers import conditions
from dray.controllers.conditions import Conditions
from dray.controllers.slim_types import Deployment, ReplicaSet
from dray.controllers.workloads import rollouts

PROGRESSING, AVAILABLE, FAILURE = "Progressing", "Available", "ReplicaFailure"

CREATED, CREATE_FAILED, FOUND = (
    "NewReplicaSetCreated",
    "ReplicaSetCreateError",
    "FoundNewReplicaSet",
)
UPDATED, COMPLETE, TIMED_OUT = (
    "ReplicaSetUpdated",
    "NewReplicaSetAvailable",
    "ProgressDeadlineExceeded",
)
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
    least = rollouts.replicas(deployment) - rollouts.budget(deployment).unavailable
    if available >= least:
        condition = conditions.make_updated(
            AVAILABLE,
            conditions.TRUE,
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
            now,
        )
    else:
        condition = conditions.make_updated(
            AVAILABLE,
            conditions.FALSE,
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
            now,
        )
    return _with_conditions(status, conditions.changed(status.conditions, condition))


def _with_conditions(status: DeploymentStatus, changed: Conditions) -> DeploymentStatus:
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
    if not has_deadline(deployment):
        changed = conditions.without(changed, PROGRESSING)
    current = find_condition(deployment.status.conditions, PROGRESSING)
    was_complete = (
        status.replicas == status.updated_replicas
        and current is not None
        and current.reason == COMPLETE
    )
    if has_deadline(deployment) and not was_complete:
        changed = _with_progress(deployment, status, new, now)
    failures = _failures(old, new)
    if failures:
        changed = conditions.changed(changed, failures[0])
    else:
        changed = conditions.without(changed, FAILURE)
    return _with_conditions(status, changed)


def _with_progress(
    deployment: Deployment, status: DeploymentStatus, new: ReplicaSet | None, now: datetime.datetime
) -> Conditions:
    name = (
        f'ReplicaSet "{new.metadata.name}"' if new else f'Deployment "{deployment.metadata.name}"'
    )
    if is_complete(deployment, status):
        text = f"{name} has successfully progressed."
        condition = conditions.make_updated(PROGRESSING, conditions.TRUE, COMPLETE, text, now)
        return conditions.changed(status.conditions, condition)
    if _has_progressed(deployment.status, status):
        text = f"{name} is progressing."
        condition = conditions.make_updated(PROGRESSING, conditions.TRUE, UPDATED, text, now)
        return _progressed(status.conditions, condition)
    if _is_overdue(deployment, status, now):
        text = f"{name} has timed out progressing."
        condition = conditions.make_updated(PROGRESSING, conditions.FALSE, TIMED_OUT, text, now)
        return conditions.changed(status.conditions, condition)
    return status.conditions


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    desired = rollouts.replicas(deployment)
    return (
        status.updated_replicas == desired
        and status.replicas == desired
        and status.available_replicas == desired
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


def _failures(old: Sequence[ReplicaSet], new: ReplicaSet | None) -> list[WorkloadCondition]:
    """Return the ReplicaFailure conditions, that of the new ReplicaSet first."""
    replica_sets = [new, *old] if new else list(old)
    return [
        msgspec.structs.replace(condition, last_update_time=condition.last_transition_time)
        for replica_set in replica_sets
        for condition in replica_set.status.conditions
        if condition.type == FAILURE
    ]
