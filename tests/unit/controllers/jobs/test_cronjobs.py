"""CronJobs: a job at each time of the schedule, minute by minute in virtual time."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import pytest

from dray.api import errors
from dray.api.formats import gotime
from dray.api.types.meta import JsonObject
from dray.controllers.garbage_collector import Garbage
from dray.controllers.jobs.cronjobs import SCHEDULED, CronJobs
from dray.controllers.jobs.jobs import Jobs
from tests.unit.controllers.kubelet import ENDS_AS, Kubelet
from tests.unit.controllers.world import Clock, World, with_loops

START = datetime.datetime(2030, 1, 1, 0, 0, 30, tzinfo=datetime.UTC)


class LoopClock(Clock):
    """The wall clock goes on as virtual time does, from the middle of a minute."""

    def __init__(self) -> None:
        self._began: float | None = None

    def __call__(self) -> datetime.datetime:
        time = asyncio.get_running_loop().time()
        if self._began is None:
            self._began = time
        return START + datetime.timedelta(seconds=time - self._began)


def cron_job(ends_as: str = "", **spec: Any) -> JsonObject:
    metadata = {"annotations": {ENDS_AS: ends_as}} if ends_as else {}
    pod = {"containers": [{"name": "c", "image": "pause:1"}], "restartPolicy": "Never"}
    template = {
        "metadata": {"labels": {"from": "cron"}, "annotations": {"a": "b"}},
        "spec": {"template": {"metadata": metadata, "spec": pod}, "backoffLimit": 0},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick"},
        "spec": {"schedule": "* * * * *", "jobTemplate": template, **spec},
    }


async def start(here: World, body: JsonObject) -> None:
    """Create it as if its last job had been at the start of the clock's minute.

    The server's own clock says when it was created.
    """
    suspend = body["spec"].get("suspend", False)
    body["spec"]["suspend"] = True
    await here.create(body)
    last = gotime.write(START.replace(second=0))
    await here.set_status("cronjobs", "tick", {"lastScheduleTime": last})
    await here.patch("cronjobs", "tick", {"spec": {"suspend": suspend}})


async def minutes(count: int) -> None:
    """Let virtual time pass, a little more than whole minutes: jobs come a moment late."""
    await asyncio.sleep(60 * count + 5)


def condition(job: JsonObject) -> str:
    held = [each["type"] for each in job.get("status", {}).get("conditions", ())]
    return "Complete" if "Complete" in held else "Failed" if "Failed" in held else ""


@with_loops(CronJobs, Jobs, Kubelet, clock=LoopClock)
async def test_a_job_each_minute_and_a_short_history(here: World, clock: Clock) -> None:
    await start(here, cron_job("Succeeded", successfulJobsHistoryLimit=2))
    await minutes(5)
    jobs = await here.list("jobs")
    assert [condition(job) for job in jobs] == ["Complete", "Complete"]
    found = await here.get("cronjobs", "tick")
    last = gotime.parse(found["status"]["lastScheduleTime"])
    newest = max(jobs, key=lambda job: str(job["metadata"]["name"]))
    assert newest["metadata"]["name"] == f"tick-{int(last.timestamp()) // 60}"
    assert newest["metadata"]["labels"]["from"] == "cron"
    assert newest["metadata"]["annotations"]["a"] == "b"
    assert newest["metadata"]["annotations"][SCHEDULED] == gotime.write(last)
    owner = newest["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("CronJob", "tick", True)
    assert found["status"]["lastSuccessfulTime"]
    assert not found["status"].get("active")


@with_loops(CronJobs, Jobs, Kubelet, clock=LoopClock)
async def test_failed_jobs_have_a_history_of_their_own(here: World, clock: Clock) -> None:
    await start(here, cron_job("Failed"))
    await minutes(4)
    assert [condition(job) for job in await here.list("jobs")] == ["Failed"]
    assert "lastSuccessfulTime" not in (await here.get("cronjobs", "tick"))["status"]


@with_loops(CronJobs, Jobs, Kubelet, clock=LoopClock)
async def test_jobs_may_run_beside_each_other(here: World, clock: Clock) -> None:
    await start(here, cron_job())
    await minutes(3)
    active = (await here.get("cronjobs", "tick"))["status"]["active"]
    jobs = await here.list("jobs")
    assert len(active) == len(jobs) == 3
    assert {each["uid"] for each in active} == {job["metadata"]["uid"] for job in jobs}


@with_loops(CronJobs, Jobs, Kubelet, clock=LoopClock)
async def test_forbid_waits_for_the_last_job(here: World, clock: Clock) -> None:
    await start(here, cron_job(concurrencyPolicy="Forbid"))
    await minutes(3)
    (job,) = await here.list("jobs")
    await here.delete("jobs", job["metadata"]["name"], propagationPolicy="Background")
    await minutes(1)
    (later,) = await here.list("jobs")
    assert later["metadata"]["name"] != job["metadata"]["name"]


@with_loops(CronJobs, Jobs, Kubelet, Garbage, clock=LoopClock)
async def test_replace_ends_the_last_job(here: World, clock: Clock) -> None:
    await start(here, cron_job(concurrencyPolicy="Replace"))
    await minutes(1)
    (first,) = await here.list("jobs")
    await minutes(1)
    (second,) = await here.list("jobs")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    active = (await here.get("cronjobs", "tick"))["status"]["active"]
    assert [each["uid"] for each in active] == [second["metadata"]["uid"]]


@with_loops(CronJobs, Jobs, Kubelet, clock=LoopClock)
async def test_a_suspended_one_starts_none_until_it_goes_on(here: World, clock: Clock) -> None:
    await start(here, cron_job("Succeeded", suspend=True))
    await minutes(3)
    assert await here.list("jobs") == []
    await here.patch("cronjobs", "tick", {"spec": {"suspend": False}})
    await minutes(1)
    assert await here.list("jobs")


@with_loops(CronJobs, Jobs, Kubelet, clock=LoopClock)
async def test_a_job_that_is_there_already_is_not_made_twice(here: World, clock: Clock) -> None:
    await start(here, cron_job())
    await minutes(1)
    (job,) = await here.list("jobs")
    # As after a crash between the job and the status.
    lost = {"active": None, "lastScheduleTime": gotime.write(START.replace(second=0))}
    await here.set_status("cronjobs", "tick", lost)
    await asyncio.sleep(10)
    assert [each["metadata"]["uid"] for each in await here.list("jobs")] == [job["metadata"]["uid"]]
    active = (await here.get("cronjobs", "tick"))["status"]["active"]
    assert [each["uid"] for each in active] == [job["metadata"]["uid"]]


@with_loops()
async def test_what_is_refused(here: World) -> None:
    for spec, field in (
        ({"schedule": "every day"}, "spec.schedule"),
        ({"schedule": "TZ=UTC * * * * *"}, "spec.schedule"),
        ({"timeZone": "Nowhere"}, "spec.timeZone"),
        ({"timeZone": "Local"}, "spec.timeZone"),
        ({"concurrencyPolicy": "Maybe"}, "spec.concurrencyPolicy"),
        ({"startingDeadlineSeconds": -1}, "spec.startingDeadlineSeconds"),
        ({"failedJobsHistoryLimit": -1}, "spec.failedJobsHistoryLimit"),
    ):
        with pytest.raises(errors.Invalid) as refusal:
            await here.create(cron_job(**spec))
        assert refusal.value.details is not None
        assert [cause.field for cause in refusal.value.details.causes] == [field], spec
    body = cron_job()
    job = body["spec"]["jobTemplate"]["spec"]
    job["template"]["spec"]["restartPolicy"] = "Always"
    job["selector"] = {"matchLabels": {"a": "b"}}
    body["metadata"]["name"] = "a" * 53
    with pytest.raises(errors.Invalid) as refusal:
        await here.create(body)
    assert refusal.value.details is not None
    assert {cause.field for cause in refusal.value.details.causes} == {
        "metadata.name",
        "spec.jobTemplate.spec.selector",
        "spec.jobTemplate.spec.template.spec.restartPolicy",
    }
