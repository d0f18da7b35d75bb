"""Rules for CronJob."""

from __future__ import annotations

import msgspec

from dray.api.formats import cron_schedules
from dray.api.types import workloads
from dray.validation import fields, metadata
from dray.validation.workloads import jobs, replicated

_SPEC = fields.SPEC
_NAME_MAX = 52
"""Jobs add eleven characters to the name, and have at most 63."""
_POLICIES = ("Allow", "Forbid", "Replace")


def cron_job(value: workloads.CronJob) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=True)
    yield from _spec(value.spec)
    yield from _time_zone(value.spec.time_zone)
    if len(value.metadata.name) > _NAME_MAX:
        path = fields.METADATA.child("name")
        yield fields.invalid(path, value.metadata.name, "must be no more than 52 characters")


def cron_job_update(new: workloads.CronJob, old: workloads.CronJob) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from _spec(new.spec)
    if new.spec.time_zone != old.spec.time_zone:
        yield from _time_zone(new.spec.time_zone)


def cron_job_status_update(new: workloads.CronJob, old: workloads.CronJob) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)


def _spec(spec: workloads.CronJobSpec) -> fields.Errors:
    yield from _schedule(spec.schedule, _SPEC.child("schedule"))
    for field, value in (
        ("startingDeadlineSeconds", spec.starting_deadline_seconds),
        ("successfulJobsHistoryLimit", spec.successful_jobs_history_limit),
        ("failedJobsHistoryLimit", spec.failed_jobs_history_limit),
    ):
        yield from replicated.nonnegative_if_set(value, _SPEC.child(field))
    policy = _SPEC.child("concurrencyPolicy")
    if not spec.concurrency_policy:
        yield fields.required(policy)
    elif spec.concurrency_policy not in _POLICIES:
        yield fields.not_supported(policy, spec.concurrency_policy, _POLICIES)
    yield from _job_template(spec.job_template)


def _schedule(text: str, path: fields.Path) -> fields.Errors:
    if not text:
        yield fields.required(path)
        return
    if "TZ" in text:
        yield fields.invalid(
            path, text, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        )
        return
    try:
        cron_schedules.parse(text)
    except cron_schedules.ScheduleError as error:
        yield fields.invalid(path, text, str(error))


def _time_zone(name: str | None) -> fields.Errors:
    path = _SPEC.child("timeZone")
    if name is None:
        return
    if not name:
        yield fields.invalid(path, name, "timeZone must be nil or non-empty string")
    elif name.lower() == "local":
        yield fields.invalid(
            path,
            name,
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        )
    else:
        try:
            cron_schedules.zone(name)
        except ValueError as error:
            yield fields.invalid(path, name, str(error))


def _job_template(template: workloads.JobTemplateSpec) -> fields.Errors:
    """Check the jobs to come: as jobs, but without the selector, which each gets later."""
    path = _SPEC.child("jobTemplate")
    for error in jobs.without_selector(template.spec):
        inside = fields.Path(f"{path}.{error.field}")
        yield msgspec.structs.replace(error, path=inside)
    spec = path.child("spec")
    if template.spec.selector is not None:
        yield fields.invalid(
            spec.child("selector"), template.spec.selector, "`selector` will be auto-generated"
        )
    if template.spec.manual_selector:
        yield fields.not_supported(spec.child("manualSelector"), "true", ("nil", "false"))
