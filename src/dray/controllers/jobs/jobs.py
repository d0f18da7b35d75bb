"""Jobs run pods until enough of them have succeeded. Behaviour of pkg/controller/job.

`job_progress` computes the counts; this module acts on them. Pods have a finalizer until the job
has counted them, so that none is lost if it is deleted early. Finished jobs are deleted when their
time to live is over.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from dray.api import errors, kinds, well_known
from dray.api.formats import gotime
from dray.api.ids import ObjectKey
from dray.api.selectors import label_selectors
from dray.api.semantics import owner_references, pod_status
from dray.api.semantics.conditions import is_condition_true
from dray.api.templates import job_bodies
from dray.api.templates.workload_types import Job
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.api.types.workloads import JobStatus, WorkloadCondition
from dray.client import events, object_writes
from dray.client.cache import ObjectChange
from dray.controllers import caches, conditions, status_patches
from dray.controllers.jobs import job_accounting, job_pods, job_progress
from dray.controllers.jobs.job_progress import Backoff, Progress
from dray.controllers.loops import Context, Loop
from dray.controllers.own_writes import UNSEEN_RETRY_SECONDS, OwnWrites
from dray.controllers.workloads import adoption, pod_control
from dray.controllers.workloads.adoption import Adopter
from dray.controllers.workloads.pod_control import PodControl

COMPONENT = "job-controller"
MAX_AT_ONCE = 500


class JobWork(NamedTuple):
    """A job, or a pod that still has the finalizer of a job that does not count it any more."""

    key: ObjectKey
    is_leftover: bool = False

    def __str__(self) -> str:
        return f"pod {self.key}" if self.is_leftover else str(self.key)


@dataclass(slots=True)
class Step:
    """One reconciliation. The counts change as pods are created and deleted."""

    job: Job
    progress: Progress
    now: datetime.datetime
    active: int
    ready: int
    terminating: int
    end: WorkloadCondition | None = None
    again_seconds: list[float] = field(default_factory=list)
    failure: errors.StatusError | None = None

    def removed(self, pods: Sequence[Pod]) -> None:
        self.active -= len(pods)
        self.terminating += len(pods)
        self.ready -= sum(map(pod_status.is_ready, pods))


class Jobs(Loop[JobWork]):
    def __init__(self, context: Context) -> None:
        super().__init__("jobs", context)
        self._jobs, self._pods = context.caches.jobs, context.caches.pods
        self._written: OwnWrites[ObjectKey] = OwnWrites(self._jobs)
        self._pod_writes: OwnWrites[ObjectKey] = OwnWrites(self._pods)
        self._backoffs: dict[ObjectKey, Backoff] = {}
        self._counted: dict[ObjectKey, set[str]] = {}
        recorder = context.recorder(COMPONENT)
        self._control = PodControl(self.client, kinds.JOB, recorder, self._pod_writes)
        self._adopter: Adopter[Pod] = Adopter(
            self.client, kinds.POD, kinds.JOB, well_known.JOB_TRACKING_FINALIZER
        )
        self.follow(self._jobs, self._job_changed)
        self.follow(self._pods, self._pod_changed)

    def resync(self) -> None:
        for job in self._jobs:
            self.queue.add(JobWork(job.metadata.key))
        for pod in self._pods:
            self._add_leftover(pod)

    def _job_changed(self, change: ObjectChange[Job]) -> None:
        self.queue.add(JobWork(change.key))
        if change.new is None and change.old is not None:
            for pod in self._pods.find(caches.OWNER, change.old.metadata.uid):
                self._add_leftover(pod)

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        for pod in (change.old, change.new):
            owner = owner_references.controlled_by(pod.metadata, kinds.JOB) if pod else None
            if owner is not None:
                self.queue.add(JobWork(ObjectKey(change.key.namespace, owner.name)))
        if change.new is not None:
            self._add_leftover(change.new)
        for key in adoption.possible_owners(change, self._jobs):
            self.queue.add(JobWork(key))

    def _add_leftover(self, pod: Pod) -> None:
        if job_progress.is_tracked(pod) and self._is_leftover(pod):
            self.queue.add(JobWork(pod.metadata.key, is_leftover=True))

    def _is_leftover(self, pod: Pod) -> bool:
        """Return whether no job will count the pod any more."""
        owner = owner_references.controller_of(pod.metadata)
        if owner is None:
            return True
        if owner_references.controlled_by(pod.metadata, kinds.JOB) is None:
            return False
        key = ObjectKey(pod.metadata.namespace, owner.name)
        job = self._jobs.get(key.name, key.namespace)
        if job is None:
            return caches.is_gone(self._jobs, key)
        if job.metadata.uid != owner.uid:
            return True
        return _is_ours(job) and job_progress.finish(job) is not None

    async def reconcile(self, key: JobWork) -> float | None:
        if key.is_leftover:
            await self._free_leftover(key.key)
            return None
        job = self._jobs.get(key.key.name, key.key.namespace)
        if job is None:
            self._forget(key.key)
            return None
        if not _is_ours(job):
            return None
        if not (self._written.are_seen(key.key) and self._pod_writes.are_seen(key.key)):
            return UNSEEN_RETRY_SECONDS
        finish = job_progress.finish(job)
        return await self._advance(job) if finish is None else await self._finish(job, finish)

    def _forget(self, key: ObjectKey) -> None:
        self._written.forget(key)
        self._pod_writes.forget(key)
        self._backoffs.pop(key, None)
        self._counted.pop(key, None)

    async def _free_leftover(self, key: ObjectKey) -> None:
        pod = self._pods.get(key.name, key.namespace)
        if pod is not None and job_progress.is_tracked(pod) and self._is_leftover(pod):
            await self._untrack(pod)

    async def _untrack(self, pod: Pod) -> JsonObject | None:
        with contextlib.suppress(errors.NotFound):
            return await object_writes.remove_finalizer(
                self.client, kinds.POD, pod.metadata, well_known.JOB_TRACKING_FINALIZER
            )
        return None

    async def _finish(self, job: Job, finish: WorkloadCondition) -> float | None:
        """Release the last pods, and delete the job when its time to live is over."""
        self._backoffs.pop(job.metadata.key, None)
        self._counted.pop(job.metadata.key, None)
        for pod in self._pods.find(caches.OWNER, job.metadata.uid):
            self._add_leftover(pod)
        ttl = job.spec.ttl_seconds_after_finished
        if ttl is None or job.metadata.deletion_timestamp:
            return None
        finished = gotime.parse(finish.last_transition_time or "")
        left = ttl - (self.now() - finished).total_seconds()
        if left > 0:
            return left
        exact = {"uid": job.metadata.uid, "resourceVersion": job.metadata.resource_version}
        options = {"propagationPolicy": "Foreground", "preconditions": exact}
        with contextlib.suppress(errors.NotFound):
            await object_writes.delete(self.client, kinds.JOB, job.metadata, **options)
        return None

    async def _advance(self, job: Job) -> float | None:
        owned = self._pods.find(caches.OWNER, job.metadata.uid)
        orphans = self._pods.find(caches.ORPHAN, job.metadata.namespace)
        selector = label_selectors.label_selector(job.spec.selector)
        pods = await self._adopter.claim(job.metadata, selector, owned, orphans)
        progress, now = job_progress.read(job, self._without_counted(job, pods)), self.now()
        step = Step(job, progress, now, len(progress.active), progress.ready, progress.terminating)
        step.end = job_progress.ending(job, progress, now)
        backoff = self._backoffs.get(job.metadata.key, Backoff()).after(progress)
        status = _started(job, now)
        if step.end is not None:
            await self._stop(step)
        else:
            if not job.metadata.deletion_timestamp:
                await self._manage(step, backoff)
                status = self._with_suspension(step, status)
            if job_progress.is_complete(job, progress, step.active):
                step.end = job_progress.completion(now)
        await self._record(step, status, backoff)
        if step.failure is not None and not pod_control.is_namespace_ending(step.failure):
            raise step.failure
        deadline = job_progress.seconds_to_deadline(job, now)
        return min([*step.again_seconds, *([] if deadline is None else [deadline])], default=None)

    def _without_counted(self, job: Job, pods: Sequence[Pod]) -> list[Pod]:
        """Return the pods without those that are counted already but still in the cache."""
        tracked = {pod.metadata.uid for pod in pods if job_progress.is_tracked(pod)}
        counted = self._counted.get(job.metadata.key, set()) & tracked
        if counted:
            self._counted[job.metadata.key] = counted
        else:
            self._counted.pop(job.metadata.key, None)
        return [pod for pod in pods if pod.metadata.uid not in counted]

    async def _stop(self, step: Step) -> None:
        """Delete running pods. The job is finished when they are gone."""
        outcome = await self._control.delete_all(step.job.metadata, step.progress.active)
        if outcome.failure is not None:
            step.failure, step.end = outcome.failure, None
            return
        step.removed(step.progress.active)

    async def _manage(self, step: Step, backoff: Backoff) -> None:
        """Bring the number of running pods to the desired number."""
        job, progress = step.job, step.progress
        if job_progress.is_suspended(job):
            await self._remove(step, progress.active)
            return
        desired = job_progress.desired_active(job, progress)
        surplus = job_pods.surplus(job, progress, max(step.active - desired, 0), step.now)
        if surplus:
            await self._remove(step, surplus[:MAX_AT_ONCE])
            return
        leaving = step.terminating if job_progress.replaces_only_failed(job) else 0
        missing = min(desired - leaving - step.active, MAX_AT_ONCE)
        if missing > 0:
            await self._make(step, missing, backoff)

    async def _remove(self, step: Step, pods: Sequence[Pod]) -> None:
        """Delete surplus pods. They count neither as failed nor as succeeded."""
        for pod in pods:
            if job_progress.is_tracked(pod):
                written = await self._untrack(pod)
                if written:
                    self._pod_writes.record(step.job.metadata.key, written)
        outcome = await self._control.delete_all(step.job.metadata, pods)
        step.failure = outcome.failure
        if outcome.failure is None:
            step.removed(pods)

    async def _make(self, step: Step, count: int, backoff: Backoff) -> None:
        job = step.job
        if not job_progress.counts_per_index(job):
            wait = backoff.seconds_left(step.now)
            if wait:
                step.again_seconds.append(wait)
                return
        outcome = await self._control.create_all(job.metadata, self._bodies(step, count))
        step.active += outcome.done
        step.failure = outcome.failure

    def _bodies(self, step: Step, count: int) -> list[JsonObject]:
        job = step.job
        if not job_bodies.is_indexed(job):
            return [job_bodies.body(job)] * count
        waiting = job_progress.awaiting_replacement(step.progress)
        bodies = []
        for index in job_pods.pending_indexes(job, step.progress, count):
            replaced = waiting.get(index) if job_progress.counts_per_index(job) else None
            wait = job_pods.index_delay(replaced, step.now)
            if wait:
                step.again_seconds.append(wait)
            else:
                bodies.append(job_pods.indexed_body(job, index, replaced))
        return bodies

    def _with_suspension(self, step: Step, status: JobStatus) -> JobStatus:
        """Return the status with the Suspended condition, and a new start time after it."""
        job, now = step.job, step.now
        was = is_condition_true(status.conditions, job_progress.SUSPENDED)
        suspended = job_progress.is_suspended(job)
        if suspended == was:
            return status
        word = "suspended" if suspended else "resumed"
        value = conditions.TRUE if suspended else conditions.FALSE
        condition = conditions.make_probed(
            job_progress.SUSPENDED, value, f"Job{word.capitalize()}", f"Job {word}", now
        )
        self._control.record_event(job.metadata, events.NORMAL, word.capitalize(), f"Job {word}")
        others = conditions.without(status.conditions, job_progress.SUSPENDED)
        return msgspec.structs.replace(
            status,
            conditions=(*others, condition),
            start_time=None if suspended else gotime.write(now),
        )

    async def _record(self, step: Step, status: JobStatus, backoff: Backoff) -> None:
        """Record ended pods, release and count them, and finish the job if all is done."""
        job, key = step.job, step.job.metadata.key
        status = msgspec.structs.replace(
            status, active=step.active, ready=step.ready, terminating=step.terminating
        )
        release = job_accounting.account(job, status, step.progress, step.end)
        announced = job_accounting.announced(release.status.conditions, step.end)
        recorded = msgspec.structs.replace(release.status, conditions=announced)
        job = await self._write(job, recorded)
        self._backoffs[key] = backoff
        tracked = await self._untrack_all(step, release.pods)
        status = job_accounting.settle(recorded, tracked)
        is_over = not release.is_partial and job_accounting.is_settled(status)
        if step.end is None or not is_over:
            await self._write(job, status)
            return
        await self._write(job, job_accounting.finished(status, step.end, step.now))
        type_, reason, note = events.NORMAL, "Completed", "Job completed"
        if step.end.type == job_progress.FAILURE_TARGET:
            type_, reason, note = events.WARNING, step.end.reason, step.end.message
        self._control.record_event(job.metadata, type_, reason, note)

    async def _untrack_all(self, step: Step, pods: Sequence[Pod]) -> set[str]:
        """Remove the finalizer. Returns the uids of the pods that still have it."""
        tracked = {pod.metadata.uid for pod in step.progress.pods if job_progress.is_tracked(pod)}
        for pod in pods:
            try:
                written = await self._untrack(pod)
            except errors.StatusError as error:
                step.failure = error
                continue
            if written:
                self._pod_writes.record(step.job.metadata.key, written)
            tracked.discard(pod.metadata.uid)
            self._counted.setdefault(step.job.metadata.key, set()).add(pod.metadata.uid)
        return tracked

    async def _write(self, job: Job, status: JobStatus) -> Job:
        written = await status_patches.patch_status(
            self.client, kinds.JOB, job.metadata, job.status, status
        )
        if written is None:
            return job
        self._written.record(job.metadata.key, written)
        return status_patches.decode(written, Job)


def _is_ours(job: Job) -> bool:
    return job.spec.managed_by in (None, job_progress.CONTROLLER)


def _started(job: Job, now: datetime.datetime) -> JobStatus:
    if job.status.start_time is not None or job_progress.is_suspended(job):
        return job.status
    return msgspec.structs.replace(job.status, start_time=gotime.write(now))
