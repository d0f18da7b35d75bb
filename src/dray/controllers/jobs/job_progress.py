"""The progress of a job: computes counts and conditions from its pods.

As pkg/controller/job/job_controller.go.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dray.api import well_known
from dray.api.formats import gotime
from dray.api.semantics import pod_status
from dray.api.semantics.conditions import find_condition, is_condition_true
from dray.api.templates import job_bodies
from dray.api.templates.workload_types import Job
from dray.api.types.pods import Pod
from dray.api.types.workloads import UncountedTerminatedPods, WorkloadCondition
from dray.controllers import conditions
from dray.controllers.jobs import job_indexes, job_policies
from dray.controllers.jobs.job_indexes import Indexes

CONTROLLER = "kubernetes.io/job-controller"

COMPLETE, FAILED, SUSPENDED = "Complete", "Failed", "Suspended"
SUCCESS_CRITERIA_MET, FAILURE_TARGET = "SuccessCriteriaMet", "FailureTarget"
FINAL = {SUCCESS_CRITERIA_MET: COMPLETE, FAILURE_TARGET: FAILED}
"""The final condition of a job with a condition that announces it."""


def finish(job: Job) -> WorkloadCondition | None:
    """Return the condition of a finished job, or None."""
    for condition in job.status.conditions:
        if condition.type in (COMPLETE, FAILED) and condition.status == conditions.TRUE:
            return condition
    return None


def is_suspended(job: Job) -> bool:
    return bool(job.spec.suspend)


def replaces_only_failed(job: Job) -> bool:
    """Return whether pods are replaced only after they failed, not when they are deleted."""
    return job.spec.pod_replacement_policy == "Failed"


def counts_per_index(job: Job) -> bool:
    return job.spec.backoff_limit_per_index is not None


def is_tracked(pod: Pod) -> bool:
    return well_known.JOB_TRACKING_FINALIZER in pod.metadata.finalizers


def has_failed(job: Job, pod: Pod) -> bool:
    """Return whether a pod counts as failed.

    Deleted pods do too: those of lost nodes never report that they failed.
    """
    if pod.status.phase == pod_status.FAILED:
        return True
    if replaces_only_failed(job):
        return False
    return pod_status.is_deleted(pod) and pod.status.phase != pod_status.SUCCEEDED


@dataclass(frozen=True, slots=True)
class Progress:
    """The counts of a job's pods. Indexes are empty for jobs without them."""

    pods: Sequence[Pod]
    active: Sequence[Pod]
    terminating: int
    new_succeeded: Sequence[Pod]
    new_failed: Sequence[Pod]
    succeeded: int
    failed: int
    counted_indexes: Indexes = frozenset()
    succeeded_indexes: Indexes = frozenset()
    failed_indexes: Indexes = frozenset()

    @property
    def ready(self) -> int:
        return sum(map(pod_status.is_ready, self.active))

    @property
    def taken_indexes(self) -> Indexes:
        """The indexes that are over or that an active pod has."""
        return self.succeeded_indexes | self.failed_indexes | job_indexes.of_pods(self.active)


def read(job: Job, pods: Sequence[Pod]) -> Progress:
    uncounted = job.status.uncounted_terminated_pods or UncountedTerminatedPods()
    countable = _countable(job, pods, uncounted.succeeded)
    new_succeeded = [pod for pod in countable if pod.status.phase == pod_status.SUCCEEDED]
    new_failed = [pod for pod in _countable(job, pods, uncounted.failed) if has_failed(job, pod)]
    counted = job_indexes.parse(job.status.completed_indexes, job.spec.completions or 0)
    done = counted | job_indexes.of_pods(new_succeeded) if job_bodies.is_indexed(job) else counted
    succeeded = job.status.succeeded + len(new_succeeded) + len(uncounted.succeeded)
    new_failures = sum(job_policies.failure_action(job, pod).counts for pod in new_failed)
    return Progress(
        pods=pods,
        active=[pod for pod in pods if pod_status.is_active(pod)],
        terminating=sum(map(pod_status.is_terminating, pods)),
        new_succeeded=new_succeeded,
        new_failed=new_failed,
        succeeded=len(done) if job_bodies.is_indexed(job) else succeeded,
        failed=job.status.failed + new_failures + len(uncounted.failed),
        counted_indexes=counted,
        succeeded_indexes=done,
        failed_indexes=_failed_indexes(job, new_failed),
    )


def _countable(job: Job, pods: Iterable[Pod], recorded: Collection[str]) -> list[Pod]:
    """Return the pods that are in no counter yet and, of an indexed job, have a valid index."""
    return [
        pod
        for pod in pods
        if is_tracked(pod) and pod.metadata.uid not in recorded and has_valid_index(job, pod)
    ]


def has_valid_index(job: Job, pod: Pod) -> bool:
    if not job_bodies.is_indexed(job):
        return True
    index = job_indexes.of_pod(pod)
    return index is not None and index < (job.spec.completions or 0)


def _failed_indexes(job: Job, new_failed: Iterable[Pod]) -> Indexes:
    if not counts_per_index(job):
        return frozenset()
    before = job_indexes.parse(job.status.failed_indexes, job.spec.completions or 0)
    return before | job_indexes.of_pods(pod for pod in new_failed if _has_failed_index(job, pod))


def _has_failed_index(job: Job, pod: Pod) -> bool:
    verdict = job_policies.failure_action(job, pod)
    if verdict.action == job_policies.FAIL_INDEX:
        return True
    limit = job.spec.backoff_limit_per_index or 0
    return verdict.counts and job_indexes.failures(pod) >= limit


def awaiting_replacement(progress: Progress) -> dict[int, Pod]:
    """Return failed pods by index that stay until a replacement has their failure count."""
    taken = progress.taken_indexes
    return {
        index: pod
        for pod in sorted(progress.new_failed, key=finished_at)
        if (index := job_indexes.of_pod(pod)) is not None and index not in taken
    }


def finished_at(pod: Pod) -> datetime.datetime:
    """Return when the last container ended, or the best estimate of that."""
    ends = [status.state.terminated for status in pod.status.container_statuses]
    times = [end.finished_at for end in ends if end is not None and end.finished_at]
    if times and len(times) == len(ends):
        return max(map(gotime.parse, times))
    ready = find_condition(pod.status.conditions, "Ready")
    if ready is not None and ready.status == conditions.FALSE and ready.last_transition_time:
        return gotime.parse(ready.last_transition_time)
    metadata = pod.metadata
    if metadata.deletion_timestamp:
        grace = datetime.timedelta(seconds=metadata.deletion_grace_period_seconds or 0)
        return gotime.parse(metadata.deletion_timestamp) - grace
    return gotime.parse(metadata.creation_timestamp or "1970-01-01T00:00:00Z")


def ending(job: Job, progress: Progress, now: datetime.datetime) -> WorkloadCondition | None:
    """Return the condition with which the job should end early, or None if it should go on."""
    for type_ in (SUCCESS_CRITERIA_MET, FAILURE_TARGET):
        if is_condition_true(job.status.conditions, type_):
            return find_condition(job.status.conditions, type_)
    reason, message = _failure(job, progress, now)
    if reason:
        return conditions.make_probed(FAILURE_TARGET, conditions.TRUE, reason, message, now)
    met = job_policies.success_message(job, progress.succeeded_indexes)
    return _success("SuccessPolicy", met, now) if met else None


def _success(reason: str, message: str, now: datetime.datetime) -> WorkloadCondition:
    return conditions.make_probed(SUCCESS_CRITERIA_MET, conditions.TRUE, reason, message, now)


def _failure(job: Job, progress: Progress, now: datetime.datetime) -> tuple[str, str]:
    for pod in progress.pods:
        if has_failed(job, pod) and (message := job_policies.failure_action(job, pod).message):
            return "PodFailurePolicy", message
    if progress.failed > _backoff_limit(job) or _restarted_too_often(job, progress.pods):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    left = seconds_to_deadline(job, now)
    if left is not None and left <= 0:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    return _index_failure(job, progress)


def _index_failure(job: Job, progress: Progress) -> tuple[str, str]:
    failed = len(progress.failed_indexes)
    limit = job.spec.max_failed_indexes
    if limit is not None and failed > limit:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return "MaxFailedIndexesExceeded", message
    completions = job.spec.completions or 0
    if failed and failed + len(progress.succeeded_indexes) >= completions:
        return "FailedIndexes", "Job has failed indexes"
    return "", ""


def _backoff_limit(job: Job) -> int:
    return 6 if job.spec.backoff_limit is None else job.spec.backoff_limit


def _restarted_too_often(job: Job, pods: Iterable[Pod]) -> bool:
    if (job.spec.template.get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        status.restart_count
        for pod in pods
        if pod.status.phase in (pod_status.RUNNING, pod_status.PENDING)
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    return restarts >= max(_backoff_limit(job), 1)


def seconds_to_deadline(job: Job, now: datetime.datetime) -> float | None:
    deadline, started = job.spec.active_deadline_seconds, job.status.start_time
    if deadline is None or started is None or is_suspended(job):
        return None
    return deadline - (now - gotime.parse(started)).total_seconds()


def is_complete(job: Job, progress: Progress, active: int) -> bool:
    """Return whether the job has all completions. Without a number, one success is enough."""
    completions = job.spec.completions
    enough = progress.succeeded > 0 if completions is None else progress.succeeded >= completions
    return enough and active == 0


def completion(now: datetime.datetime) -> WorkloadCondition:
    return _success("CompletionsReached", "Reached expected number of succeeded pods", now)


def desired_active(job: Job, progress: Progress) -> int:
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        return len(progress.active) if progress.succeeded else parallelism
    return max(min(job.spec.completions - progress.succeeded, parallelism), 0)


class Backoff(NamedTuple):
    """The number of failures since the last success, and the time of the last one."""

    failures: int = 0
    last: datetime.datetime | None = None

    def after(self, progress: Progress) -> Backoff:
        failed = sorted(map(finished_at, progress.new_failed))
        if progress.new_succeeded:
            last_success = max(map(finished_at, progress.new_succeeded))
            later = [time for time in failed if time > last_success]
            return Backoff(len(later), later[-1] if later else None)
        if not failed:
            return self
        return Backoff(self.failures + len(failed), failed[-1])

    def seconds_left(self, now: datetime.datetime) -> float:
        return delay_left(self.failures, self.last, now)


FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS = 10.0, 600.0


def delay_left(failures: int, last: datetime.datetime | None, now: datetime.datetime) -> float:
    """Return the seconds to wait before the next pod is created."""
    if not failures or last is None:
        return 0.0
    delay = min(FIRST_DELAY_SECONDS * 2.0 ** min(failures - 1, 32), MAX_DELAY_SECONDS)
    return max(delay - (now - last).total_seconds(), 0.0)
