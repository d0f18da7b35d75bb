"""CronJobs make a Job at each time of their schedule. Behaviour of pkg/controller/cronjob."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from dray.api import errors, kinds
from dray.api.formats import cron_schedules, gotime
from dray.api.formats.cron_schedules import Schedule
from dray.api.ids import ObjectKey
from dray.api.semantics import owner_references
from dray.api.templates.workload_types import CronJob, Job
from dray.api.types.core import ObjectReference
from dray.api.types.meta import JsonObject
from dray.api.types.workloads import CronJobStatus
from dray.client import events
from dray.client.cache import ObjectChange
from dray.controllers import caches, status_patches
from dray.controllers.jobs import job_progress
from dray.controllers.loops import Context, ObjectLoop
from dray.controllers.own_writes import UNSEEN_RETRY_SECONDS, OwnWrites
from dray.controllers.workloads import pod_control

COMPONENT = "cronjob-controller"
SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MANY_MISSED = 100
DELAY_SECONDS = 0.1
"""How long after its time a job is made: clocks differ."""
_SECOND = datetime.timedelta(seconds=1)


class CronJobs(ObjectLoop):
    def __init__(self, context: Context) -> None:
        self._cron_jobs, self._jobs = context.caches.cron_jobs, context.caches.jobs
        super().__init__("cronjobs", context, self._cron_jobs)
        self._written: OwnWrites[ObjectKey] = OwnWrites(self._cron_jobs)
        self._job_writes: OwnWrites[ObjectKey] = OwnWrites(self._jobs)
        self._recorder = context.recorder(COMPONENT)
        self.follow(self._jobs, self._job_changed)

    def _job_changed(self, change: ObjectChange[Job]) -> None:
        for job in (change.old, change.new):
            owner = owner_references.controlled_by(job.metadata, kinds.CRON_JOB) if job else None
            if owner is not None:
                self.queue.add(ObjectKey(change.key.namespace, owner.name))

    async def reconcile(self, key: ObjectKey) -> float | None:
        cron_job = self._cron_jobs.get(key.name, key.namespace)
        if cron_job is None:
            self._written.forget(key)
            self._job_writes.forget(key)
            return None
        if not (self._written.are_seen(key) and self._job_writes.are_seen(key)):
            return UNSEEN_RETRY_SECONDS
        jobs = self._jobs.find(caches.OWNER, cron_job.metadata.uid)
        status = self._observed(cron_job, jobs)
        for job in _surplus(cron_job, jobs):
            await self._delete(cron_job, job.metadata.name)
        status, seconds = await self._start_due(cron_job, status)
        written = await status_patches.patch_status(
            self.client, kinds.CRON_JOB, cron_job.metadata, cron_job.status, status
        )
        if written:
            self._written.record(key, written)
        return seconds

    def _observed(self, cron_job: CronJob, jobs: Iterable[Job]) -> CronJobStatus:
        """Return the status as the jobs are now: those that are active, and the last success."""
        by_uid = {job.metadata.uid: job for job in jobs}
        last = cron_job.status.last_successful_time
        active = []
        for reference in cron_job.status.active:
            job = by_uid.get(reference.uid)
            if job is None:
                note = f"Active job went missing: {reference.name}"
                self._record(cron_job, events.NORMAL, "MissingJob", note)
            elif (end := job_progress.finish(job)) is not None:
                note = f"Saw completed job: {reference.name}, condition: {end.type}"
                self._record(cron_job, events.NORMAL, "SawCompletedJob", note)
            else:
                active.append(reference)
        listed = {reference.uid for reference in cron_job.status.active}
        for job in by_uid.values():
            end = job_progress.finish(job)
            if end is None and job.metadata.uid not in listed:
                note = (
                    f"Saw a job that the controller did not create or forgot: {job.metadata.name}"
                )
                self._record(cron_job, events.WARNING, "UnexpectedJob", note)
            completed = job.status.completion_time
            if end is not None and end.type == job_progress.COMPLETE and completed:
                last = max(last, completed) if last else completed
        return msgspec.structs.replace(
            cron_job.status, active=tuple(active), last_successful_time=last
        )

    async def _start_due(
        self, cron_job: CronJob, status: CronJobStatus
    ) -> tuple[CronJobStatus, float | None]:
        """Make the job that is due, if any. Returns the seconds until the next one."""
        if cron_job.metadata.deletion_timestamp or cron_job.spec.suspend:
            return status, None
        schedule = self._schedule(cron_job)
        if schedule is None:
            return status, None
        now = self.now()
        due = _due(cron_job, status, schedule, now, within_deadline=True)
        if due.time is not None:
            if due.missed > MANY_MISSED:
                note = (
                    "too many missed start times. Set or decrease "
                    ".spec.startingDeadlineSeconds or check clock skew"
                )
                self._record(cron_job, events.WARNING, "TooManyMissedTimes", note)
            status = await self._start(cron_job, status, due.time, now)
        return status, _seconds_to_next(cron_job, status, schedule, now)

    def _schedule(self, cron_job: CronJob) -> Schedule | None:
        spec = cron_job.spec
        try:
            zone = cron_schedules.zone(spec.time_zone) if spec.time_zone else datetime.UTC
        except ValueError as error:
            note = f'invalid timeZone: "{spec.time_zone}": {error}'
            self._record(cron_job, events.WARNING, "UnknownTimeZone", note)
            return None
        try:
            return cron_schedules.parse(spec.schedule, zone)
        except cron_schedules.ScheduleError as error:
            note = f'unparseable schedule: "{spec.schedule}" : {error}'
            self._record(cron_job, events.WARNING, "UnparseableSchedule", note)
            return None

    async def _start(
        self,
        cron_job: CronJob,
        status: CronJobStatus,
        due: datetime.datetime,
        now: datetime.datetime,
    ) -> CronJobStatus:
        name = f"{cron_job.metadata.name}-{int(due.timestamp()) // 60}"
        if status.last_schedule_time == gotime.write(due):
            return status
        if any(reference.name == name for reference in status.active):
            return status
        deadline = cron_job.spec.starting_deadline_seconds
        if deadline is not None and due + deadline * _SECOND < now:
            note = f"Missed scheduled time to start a job: {due:%a, %d %b %Y %H:%M:%S +0000}"
            self._record(cron_job, events.WARNING, "MissSchedule", note)
            return status
        policy = cron_job.spec.concurrency_policy
        if policy == "Forbid" and status.active:
            note = (
                "Not starting job because prior execution is running and concurrency policy is "
                "Forbid"
            )
            self._record(cron_job, events.NORMAL, "JobAlreadyActive", note)
            return status
        if policy == "Replace":
            for reference in status.active:
                await self._delete(cron_job, reference.name)
            status = msgspec.structs.replace(status, active=())
        return await self._create(cron_job, status, name, due)

    async def _create(
        self, cron_job: CronJob, status: CronJobStatus, name: str, due: datetime.datetime
    ) -> CronJobStatus:
        metadata = cron_job.metadata
        try:
            made = await self.client.create(
                kinds.JOB, _job_body(cron_job, name, due), metadata.namespace
            )
        except errors.AlreadyExists:
            # Made before a restart, which lost the status; the name is that of the time.
            made = await self.client.get(kinds.JOB, name, metadata.namespace)
            owners = made["metadata"].get("ownerReferences") or ()
            if not any(owner["uid"] == metadata.uid for owner in owners):
                return status
        except errors.StatusError as error:
            if not pod_control.is_namespace_ending(error):
                note = f"Error creating job: {error.message}"
                self._record(cron_job, events.WARNING, "FailedCreate", note)
            raise
        else:
            self._record(cron_job, events.NORMAL, "SuccessfulCreate", f"Created job {name}")
        self._job_writes.record(metadata.key, made)
        reference = ObjectReference(
            kind=kinds.JOB.kind,
            namespace=metadata.namespace,
            name=name,
            uid=made["metadata"]["uid"],
            api_version=kinds.JOB.preferred.api_version,
            resource_version=made["metadata"]["resourceVersion"],
        )
        return msgspec.structs.replace(
            status, active=(*status.active, reference), last_schedule_time=gotime.write(due)
        )

    async def _delete(self, cron_job: CronJob, name: str) -> None:
        options = {"propagationPolicy": "Background"}
        try:
            await self.client.delete(kinds.JOB, name, cron_job.metadata.namespace, options)
        except errors.NotFound:
            return
        self._record(cron_job, events.NORMAL, "SuccessfulDelete", f"Deleted job {name}")

    def _record(self, cron_job: CronJob, type_: str, reason: str, note: str) -> None:
        regarding = events.reference(kinds.CRON_JOB, cron_job.metadata)
        self._recorder.record(regarding, type_, reason, note)


def _job_body(cron_job: CronJob, name: str, due: datetime.datetime) -> JsonObject:
    template = cron_job.spec.job_template
    given = template.get("metadata") or {}
    zone_name = cron_job.spec.time_zone
    local = due.astimezone(cron_schedules.zone(zone_name)) if zone_name else due
    shown = local.isoformat(timespec="seconds").replace("+00:00", "Z")
    metadata = {
        "name": name,
        "labels": dict(given.get("labels") or {}),
        "annotations": {**(given.get("annotations") or {}), SCHEDULED: shown},
        "ownerReferences": [owner_references.reference(kinds.CRON_JOB, cron_job.metadata)],
    }
    return {**kinds.JOB.type_meta, "metadata": metadata, "spec": template.get("spec") or {}}


def _surplus(cron_job: CronJob, jobs: Sequence[Job]) -> list[Job]:
    """Return the finished jobs beyond the limits of the history, the oldest first."""
    surplus = []
    for type_, limit in (
        (job_progress.COMPLETE, cron_job.spec.successful_jobs_history_limit),
        (job_progress.FAILED, cron_job.spec.failed_jobs_history_limit),
    ):
        if limit is None:
            continue
        ended = [job for job in jobs if (end := job_progress.finish(job)) and end.type == type_]
        ended.sort(key=lambda job: (job.status.start_time or "9", job.metadata.name))
        surplus += ended[: max(len(ended) - limit, 0)]
    return [job for job in surplus if not job.metadata.deletion_timestamp]


class Due(NamedTuple):
    """The latest time that has come, if any, and how many have since the last job."""

    since: datetime.datetime
    time: datetime.datetime | None = None
    missed: int = 0


def _due(
    cron_job: CronJob,
    status: CronJobStatus,
    schedule: Schedule,
    now: datetime.datetime,
    *,
    within_deadline: bool,
) -> Due:
    """Return what is due. As mostRecentScheduleTime, which estimates how many were missed."""
    since = gotime.parse(status.last_schedule_time or cron_job.metadata.creation_timestamp or "")
    deadline = cron_job.spec.starting_deadline_seconds
    if within_deadline and deadline is not None:
        since = max(since, now - deadline * _SECOND)
    first = schedule.next(since)
    if first is None or now < first:
        return Due(since)
    second = schedule.next(first)
    if second is None or now < second:
        return Due(since, first, 1)
    interval = second - first
    missed = (now - first) // interval + 1
    latest, time = first, schedule.next(first + (missed - 2) * interval)
    while time is not None and time <= now:
        latest, time = time, schedule.next(time)
    return Due(since, latest, missed)


def _seconds_to_next(
    cron_job: CronJob, status: CronJobStatus, schedule: Schedule, now: datetime.datetime
) -> float | None:
    due = _due(cron_job, status, schedule, now, within_deadline=False)
    time = schedule.next(due.time or due.since)
    return None if time is None else max((time - now).total_seconds(), 0) + DELAY_SECONDS
