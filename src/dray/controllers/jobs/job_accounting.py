"""Counts each pod of a job exactly once, even across crashes.

A pod with the tracking finalizer is in none of the job's counters. Its uid is in
`uncountedTerminatedPods` from the moment the job records its end until the finalizer is removed. As
trackJobStatusAndRemoveFinalizers of pkg/controller/job/job_controller.go.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from dray.api.semantics import pod_status
from dray.api.semantics.conditions import is_condition_true
from dray.api.templates import job_bodies
from dray.api.templates.workload_types import Job
from dray.api.types.pods import Pod
from dray.api.types.workloads import JobStatus, UncountedTerminatedPods, WorkloadCondition
from dray.controllers import conditions
from dray.controllers.conditions import Conditions
from dray.controllers.jobs import job_indexes, job_policies, job_progress
from dray.controllers.jobs.job_progress import Progress

MAX_UNCOUNTED = 500


class Release(NamedTuple):
    """Pods whose finalizer may be removed, and the status that must be written before."""

    pods: Sequence[Pod]
    status: JobStatus
    is_partial: bool


def account(
    job: Job, status: JobStatus, progress: Progress, end: WorkloadCondition | None
) -> Release:
    """Record the pods that have ended. Returns which of them can be released after the write."""
    tracked = {pod.metadata.uid for pod in progress.pods if job_progress.is_tracked(pod)}
    status = settle(status, tracked)
    uncounted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    succeeded, failed = list(uncounted.succeeded), list(uncounted.failed)
    new_indexes: set[int] = set()
    held_back: set[str] = set()
    if job_progress.counts_per_index(job):
        waiting = job_progress.awaiting_replacement(progress)
        held_back = {pod.metadata.uid for pod in waiting.values()}
    released: list[Pod] = []
    is_partial = False
    for pod in filter(job_progress.is_tracked, progress.pods):
        if len(succeeded) + len(failed) + len(new_indexes) >= MAX_UNCOUNTED:
            is_partial = True
            break
        if not _may_release(job, pod, end, held_back):
            continue
        released.append(pod)
        uid, index = pod.metadata.uid, job_indexes.of_pod(pod)
        if pod.status.phase == pod_status.SUCCEEDED and uid not in failed:
            if not job_bodies.is_indexed(job):
                succeeded += [uid] if uid not in succeeded else []
            elif job_progress.has_valid_index(job, pod) and index is not None:
                new_indexes.add(index)
        elif _counts_as_failed(job, pod, end) and uid not in failed:
            failed.append(uid)
    uncounted = UncountedTerminatedPods(tuple(succeeded), tuple(failed))
    status = msgspec.structs.replace(status, uncounted_terminated_pods=uncounted)
    return Release(released, _with_indexes(job, status, progress, new_indexes), is_partial)


def _may_release(
    job: Job, pod: Pod, end: WorkloadCondition | None, held_back: Collection[str]
) -> bool:
    if job.metadata.deletion_timestamp or end or pod.status.phase == pod_status.SUCCEEDED:
        return True
    return job_progress.has_failed(job, pod) and pod.metadata.uid not in held_back


def _counts_as_failed(job: Job, pod: Pod, end: WorkloadCondition | None) -> bool:
    """Return whether a pod counts as failed. If the job fails, running pods do too."""
    job_fails = end is not None and end.type == job_progress.FAILURE_TARGET
    return (
        (job_fails or job_progress.has_failed(job, pod))
        and job_progress.has_valid_index(job, pod)
        and job_policies.failure_action(job, pod).counts
    )


def _with_indexes(
    job: Job, status: JobStatus, progress: Progress, new_indexes: Collection[int]
) -> JobStatus:
    if not job_bodies.is_indexed(job):
        return status
    done, failed = progress.counted_indexes | set(new_indexes), None
    if job_progress.counts_per_index(job):
        failed = job_indexes.render(progress.failed_indexes)
    completed = job_indexes.render(done)
    return msgspec.structs.replace(
        status, succeeded=len(done), completed_indexes=completed, failed_indexes=failed
    )


def settle(status: JobStatus, tracked: Collection[str]) -> JobStatus:
    """Move pods without the finalizer from the uncounted ones to the counters."""
    uncounted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    succeeded = tuple(uid for uid in uncounted.succeeded if uid in tracked)
    failed = tuple(uid for uid in uncounted.failed if uid in tracked)
    return msgspec.structs.replace(
        status,
        succeeded=status.succeeded + len(uncounted.succeeded) - len(succeeded),
        failed=status.failed + len(uncounted.failed) - len(failed),
        uncounted_terminated_pods=UncountedTerminatedPods(succeeded, failed),
    )


def announced(current: Conditions, end: WorkloadCondition | None) -> Conditions:
    """Return the conditions with the one that must be visible before pods are released."""
    if end is None or is_condition_true(current, end.type):
        return current
    return (*current, end)


def finished(status: JobStatus, end: WorkloadCondition, now: datetime.datetime) -> JobStatus:
    """Return the status of a finished job."""
    type_ = job_progress.FINAL[end.type]
    final = conditions.make_probed(type_, conditions.TRUE, end.reason, end.message, now)
    changed = msgspec.structs.replace(status, conditions=(*status.conditions, final))
    if type_ == job_progress.COMPLETE:
        changed = msgspec.structs.replace(changed, completion_time=final.last_transition_time)
    return changed


def is_settled(status: JobStatus) -> bool:
    """Return whether nothing can change the counters any more."""
    uncounted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    return not (uncounted.succeeded or uncounted.failed or status.terminating)
