"""Which pods a job makes, and which it gives up."""

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
    """Pods to delete: of an indexed job first those with a double or impossible index."""
    order = deletion_order.first_to_go(progress.active, now)
    unwanted: list[Pod] = []
    if job_progress.is_indexed(job):
        kept: dict[int, Pod] = {}
        for pod in reversed(order):
            index = job_indexes.of_pod(pod)
            if index is None or index >= (job.spec.completions or 0) or index in kept:
                unwanted.append(pod)
            else:
                kept[index] = pod
        order = [pod for pod in order if pod not in unwanted]
    return unwanted + order[: max(at_least - len(unwanted), 0)]


def pending_indexes(job: Job, progress: Progress, count: int) -> list[int]:
    taken = (
        progress.succeeded_indexes | progress.failed_indexes | job_indexes.of_pods(progress.active)
    )
    if job_progress.waits_for_the_end(job):
        leaving = [pod for pod in progress.pods if pod_status.is_terminating(pod)]
        taken |= job_indexes.of_pods(leaving)
    return job_indexes.first_pending(taken, count, job.spec.completions or 0)


def index_delay(replaced: Pod | None, now: datetime.datetime) -> float:
    if replaced is None:
        return 0.0
    failures = job_indexes.failures(replaced) + job_indexes.ignored_failures(replaced) + 1
    return job_progress.delay_left(failures, job_progress.finished_at(replaced), now)


def body(job: Job) -> JsonObject:
    made = pod_control.pod_from(job.spec.template, kinds.JOB, job.metadata)
    finalizers = made["metadata"].get("finalizers") or []
    made["metadata"]["finalizers"] = [*finalizers, job_progress.FINALIZER]
    return made


def indexed_body(job: Job, index: int, replaced: Pod | None) -> JsonObject:
    """A pod that knows its index: by annotation, label, variable, name and host name."""
    made = body(job)
    metadata, spec = made["metadata"], made["spec"]
    for place in ("annotations", "labels"):
        metadata[place] = {**metadata.get(place, {}), job_indexes.COMPLETION_INDEX: str(index)}
    if job_progress.counts_per_index(job):
        metadata["annotations"] |= _failure_counts(job, replaced)
    suffix = f"-{index}-"
    metadata["generateName"] = job.metadata.name[: LONGEST_PREFIX - len(suffix)] + suffix
    spec["hostname"] = f"{job.metadata.name}-{index}"
    for place in ("initContainers", "containers"):
        if spec.get(place):
            spec[place] = [_with_index_variable(each) for each in spec[place]]
    return made


def _failure_counts(job: Job, replaced: Pod | None) -> dict[str, str]:
    if replaced is None:
        return {job_indexes.FAILURE_COUNT: "0"}
    counts = job_policies.judge_failure(job, replaced).counts
    ignored = job_indexes.ignored_failures(replaced) + (not counts)
    made = {job_indexes.FAILURE_COUNT: str(job_indexes.failures(replaced) + counts)}
    return {**made, job_indexes.IGNORED_FAILURE_COUNT: str(ignored)} if ignored else made


def _with_index_variable(container: dict[str, Any]) -> dict[str, Any]:
    variables = container.get("env") or []
    if any(each.get("name") == INDEX_VARIABLE for each in variables):
        return container
    path = f"metadata.labels['{job_indexes.COMPLETION_INDEX}']"
    variable = {"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}}
    return {**container, "env": [*variables, variable]}
