"""Builds the pods of a job, and chooses those to delete."""

from __future__ import annotations

import datetime
from typing import Any

from dray.api import kinds
from dray.api.semantics import pod_status
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.controllers.jobs import job_indexes, job_policies, job_progress
from dray.controllers.jobs.job_progress import Progress
from dray.controllers.slim_types import Job
from dray.controllers.workloads import deletion_order, pod_control

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
LONGEST_PREFIX = 58


def surplus(job: Job, progress: Progress, at_least: int, now: datetime.datetime) -> list[Pod]:
    """Return the pods to delete, those with a duplicate or invalid index first."""
    order = deletion_order.by_deletion_order(progress.active, now)
    invalid: list[Pod] = []
    if job_progress.is_indexed(job):
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


def body(job: Job) -> JsonObject:
    pod = pod_control.pod_from(job.spec.template, kinds.JOB, job.metadata)
    finalizers = pod["metadata"].get("finalizers") or []
    pod["metadata"]["finalizers"] = [*finalizers, job_progress.FINALIZER]
    return pod


def indexed_body(job: Job, index: int, replaced: Pod | None) -> JsonObject:
    """Return the body of a pod with its index as annotation, label, variable and name."""
    pod = body(job)
    metadata, spec = pod["metadata"], pod["spec"]
    for place in ("annotations", "labels"):
        metadata[place] = {**metadata.get(place, {}), job_indexes.COMPLETION_INDEX: str(index)}
    if job_progress.counts_per_index(job):
        metadata["annotations"] |= _failure_counts(job, replaced)
    suffix = f"-{index}-"
    metadata["generateName"] = job.metadata.name[: LONGEST_PREFIX - len(suffix)] + suffix
    spec["hostname"] = f"{job.metadata.name}-{index}"
    for place in ("initContainers", "containers"):
        if spec.get(place):
            spec[place] = [_with_index_variable(container) for container in spec[place]]
    return pod


def _failure_counts(job: Job, replaced: Pod | None) -> dict[str, str]:
    if replaced is None:
        return {job_indexes.FAILURE_COUNT: "0"}
    counts = job_policies.failure_action(job, replaced).counts
    ignored = job_indexes.ignored_failures(replaced) + (not counts)
    annotations = {job_indexes.FAILURE_COUNT: str(job_indexes.failures(replaced) + counts)}
    if ignored:
        annotations[job_indexes.IGNORED_FAILURE_COUNT] = str(ignored)
    return annotations


def _with_index_variable(container: dict[str, Any]) -> dict[str, Any]:
    variables = container.get("env") or []
    if any(item.get("name") == INDEX_VARIABLE for item in variables):
        return container
    path = f"metadata.labels['{job_indexes.COMPLETION_INDEX}']"
    variable = {"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}}
    return {**container, "env": [*variables, variable]}
