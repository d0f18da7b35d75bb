"""What a Deployment says of its rollout: counts and conditions, in the words of Kubernetes.

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
    """The deployment's conditions with this one, if it cares about progress."""
    current = deployment.status.conditions
    if not has_deadline(deployment):
        return current
    made = conditions.make_updated(PROGRESSING, status, reason, message, now)
    return conditions.changed(current, made)


def with_pause(deployment: Deployment, now: datetime.datetime) -> Conditions:
    """A pause stops the clock of the deadline; reported failures stay."""
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
    """The status with its counts and its availability."""
    every = [*old, new] if new else list(old)
    available = rollouts.available(every)
    status = DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(each.status.replicas for each in every),
        updated_replicas=new.status.replicas if new else 0,
        ready_replicas=sum(each.status.ready_replicas for each in every),
        available_replicas=available,
        unavailable_replicas=max(rollouts.total(every) - available, 0),
        terminating_replicas=_terminating(every),
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


def _terminating(every: Sequence[ReplicaSet]) -> int | None:
    """Unknown while a ReplicaSet that was looked at does not say."""
    known = 0
    for each in every:
        if each.status.terminating_replicas is not None:
            known += each.status.terminating_replicas
        elif each.status.observed_generation:
            return None
    return known


def rolled(
    deployment: Deployment,
    old: Sequence[ReplicaSet],
    new: ReplicaSet | None,
    now: datetime.datetime,
) -> DeploymentStatus:
    """The status of a rollout: counts, and whether it progresses, is complete or is stuck."""
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
        made = conditions.make_updated(PROGRESSING, conditions.TRUE, COMPLETE, text, now)
        return conditions.changed(status.conditions, made)
    if _has_progressed(deployment.status, status):
        text = f"{name} is progressing."
        made = conditions.make_updated(PROGRESSING, conditions.TRUE, UPDATED, text, now)
        return _progressed(status.conditions, made)
    if _is_overdue(deployment, status, now):
        text = f"{name} has timed out progressing."
        made = conditions.make_updated(PROGRESSING, conditions.FALSE, TIMED_OUT, text, now)
        return conditions.changed(status.conditions, made)
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


def _progressed(current: Conditions, made: WorkloadCondition) -> Conditions:
    """Written anew with each step, because the deadline counts from the last one."""
    before = find_condition(current, PROGRESSING)
    if before is not None and before.status == conditions.TRUE:
        made = msgspec.structs.replace(made, last_transition_time=before.last_transition_time)
    return (*conditions.without(current, PROGRESSING), made)


def _is_overdue(deployment: Deployment, status: DeploymentStatus, now: datetime.datetime) -> bool:
    current = find_condition(status.conditions, PROGRESSING)
    if current is None or current.reason == COMPLETE:
        return False
    return current.reason == TIMED_OUT or seconds_left(deployment, current, now) < 0


def seconds_left(
    deployment: Deployment, current: WorkloadCondition, now: datetime.datetime
) -> float:
    """Until the rollout counts as stuck."""
    assert deployment.spec.progress_deadline_seconds is not None
    last = gotime.parse(current.last_update_time) if current.last_update_time else now
    return deployment.spec.progress_deadline_seconds - (now - last).total_seconds()


def seconds_to_deadline(
    deployment: Deployment, status: DeploymentStatus, now: datetime.datetime
) -> float | None:
    """When to look whether the rollout is stuck; None where that cannot be."""
    current = find_condition(status.conditions, PROGRESSING)
    if not has_deadline(deployment) or current is None:
        return None
    if is_complete(deployment, status) or current.reason == TIMED_OUT:
        return None
    return max(seconds_left(deployment, current, now), 0.0) + 1.0


def _failures(old: Sequence[ReplicaSet], new: ReplicaSet | None) -> list[WorkloadCondition]:
    """What keeps ReplicaSets from making pods, that of the new one first."""
    every = [new, *old] if new else list(old)
    return [
        msgspec.structs.replace(condition, last_update_time=condition.last_transition_time)
        for each in every
        for condition in each.status.conditions
        if condition.type == FAILURE
    ]
