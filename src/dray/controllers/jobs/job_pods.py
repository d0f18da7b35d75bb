"""Builds the pods of a job, and chooses those to delete."""

from __future__ import annotations

import datetime

from dray.api.semantics import pod_status
from dray.api.templates import job_bodies
from dray.api.templates.workload_types import Job
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.controllers.jobs import job_indexes, job_policies, job_progress
from dray.controllers.jobs.job_progress import Progress
from dray.controllers.workloads import deletion_order


def surplus(job: Job, progress: Progress, at_least: int, now: datetime.datetime) -> list[Pod]:
    """Return the pods to delete, those with a duplicate or invalid index first."""
    order = deletion_order.by_deletion_order(progress.active, now)
    invalid: list[Pod] = []
    if job_bodies.is_indexed(job):
        kept: dict[int, Pod] = {}
        for pod in reversed(order):
            index = job_indexes.of_pod(pod)
            if index is None or index >= (job.spec.completions or 0) or index in kept:
                invalid.append(pod)
            else:
                kept[index] = pod
        order = [pod for pod in order if pod not in invalid]
    return invalid + order[: max(at_least - len(invalid), 0)]


def pending_indexes(job: Job, progress: Progress, count: int) -> list[int]:
    taken = progress.taken_indexes
    if job_progress.replaces_only_failed(job):
        leaving = [pod for pod in progress.pods if pod_status.is_terminating(pod)]
        taken |= job_indexes.of_pods(leaving)
    return job_indexes.first_pending(taken, count, job.spec.completions or 0)


def index_delay(replaced: Pod | None, now: datetime.datetime) -> float:
    if replaced is None:
        return 0.0
    failures = job_indexes.failures(replaced) + job_indexes.ignored_failures(replaced) + 1
    return job_progress.delay_left(failures, job_progress.finished_at(replaced), now)


def indexed_body(job: Job, index: int, replaced: Pod | None) -> JsonObject:
    """Return the body of the pod of an index, with the failures of those that it replaces."""
    counts = _failure_counts(job, replaced) if job_progress.counts_per_index(job) else {}
    return job_bodies.indexed_body(job, index, counts)


def _failure_counts(job: Job, replaced: Pod | None) -> dict[str, str]:
    if replaced is None:
        return {job_indexes.FAILURE_COUNT: "0"}
    counts = job_policies.failure_action(job, replaced).counts
    ignored = job_indexes.ignored_failures(replaced) + (not counts)
    annotations = {job_indexes.FAILURE_COUNT: str(job_indexes.failures(replaced) + counts)}
    if ignored:
        annotations[job_indexes.IGNORED_FAILURE_COUNT] = str(ignored)
    return annotations
