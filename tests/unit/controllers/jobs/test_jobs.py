"""Jobs against the real API server."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api import well_known
from dray.api.types.meta import JsonObject
from dray.controllers.devices.claims import Claims
from dray.controllers.jobs import job_indexes
from dray.controllers.jobs.jobs import Jobs
from tests.unit.controllers import objects
from tests.unit.controllers.kubelet import ENDS_AS, Kubelet
from tests.unit.controllers.world import Clock, World, with_loops

FINALIZER = "batch.kubernetes.io/job-tracking"


def job(name: str = "work", ends_as: str = "Succeeded", **spec: Any) -> JsonObject:
    metadata = {"annotations": {ENDS_AS: ends_as}} if ends_as else {}
    template_spec = spec.pop("pod", objects.pod_spec())
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": metadata,
                "spec": {"restartPolicy": "Never", **template_spec},
            },
            **spec,
        },
    }


async def finished(here: World, name: str = "work") -> JsonObject:
    async def check() -> Any:
        found = await here.get("jobs", name)
        states = {each["type"]: each["status"] for each in found["status"].get("conditions", [])}
        return found if "True" in (states.get("Complete"), states.get("Failed")) else None

    found: JsonObject = await here.until(check, "the end of the job")
    await here.settle()
    return found


def condition(found: JsonObject, type_: str) -> JsonObject:
    return next(each for each in found["status"]["conditions"] if each["type"] == type_)


@with_loops(Jobs, Kubelet)
async def test_a_job_ends_with_its_completions_and_never_runs_more_at_once(here: World) -> None:
    most = 0

    def count(_: Any) -> None:
        nonlocal most
        pods = here.context.caches.pods
        most = max(most, sum(pod.status.phase in ("Pending", "Running") for pod in pods))

    here.context.caches.pods.subscribe(count)
    await here.create(job(completions=10, parallelism=2))
    found = await finished(here)
    status = found["status"]
    assert most == 2
    assert status["succeeded"] == 10
    assert status["uncountedTerminatedPods"] == {}
    assert (status["ready"], status["terminating"]) == (0, 0)
    assert "active" not in status
    assert status["completionTime"] == condition(found, "Complete")["lastTransitionTime"]
    assert [each["type"] for each in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert condition(found, "Complete")["reason"] == "CompletionsReached"
    pods = await here.list("pods")
    assert len(pods) == 10
    assert not any(pod["metadata"].get("finalizers") for pod in pods)


@with_loops(Jobs, Claims, Kubelet)
async def test_pods_of_a_job_bring_and_give_back_their_claims(here: World) -> None:
    await here.create(objects.claim_template())
    sources = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    await here.create(job(completions=3, pod=objects.pod_spec(resourceClaims=sources)))
    await finished(here)
    assert await here.list("resourceclaims") == []
    made = [
        pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
        for pod in await here.list("pods")
    ]
    assert len(set(made)) == 3


@with_loops(Jobs, Kubelet, clock=Clock)
async def test_a_job_that_keeps_failing_backs_off_and_gives_up(here: World, clock: Clock) -> None:
    await here.create(job(ends_as="Failed", backoffLimit=1))
    await here.settle()
    assert len(await here.list("pods")) == 1
    clock.advance(11)
    await here.patch("jobs", "work", {"metadata": {"labels": {"look": "again"}}})
    found = await finished(here)
    assert len(await here.list("pods")) == 2
    failed = condition(found, "Failed")
    assert failed["reason"] == "BackoffLimitExceeded"
    assert failed["message"] == "Job has reached the specified backoff limit"
    assert found["status"]["failed"] == 2


@with_loops(Jobs, Kubelet)
async def test_every_index_is_completed_once(here: World) -> None:
    await here.create(job(completions=4, parallelism=3, completionMode="Indexed"))
    found = await finished(here)
    assert found["status"]["completedIndexes"] == "0-3"
    assert found["status"]["succeeded"] == 4
    pods = sorted(await here.list("pods"), key=lambda pod: str(pod["metadata"]["name"]))
    for index, pod in enumerate(pods):
        assert pod["metadata"]["name"].startswith(f"work-{index}-")
        assert pod["metadata"]["labels"][well_known.COMPLETION_INDEX] == str(index)
        assert pod["spec"]["hostname"] == f"work-{index}"
        (variable,) = pod["spec"]["containers"][0]["env"]
        assert variable["name"] == "JOB_COMPLETION_INDEX"


@with_loops(Jobs, Kubelet, clock=Clock)
async def test_failures_are_counted_per_index(here: World, clock: Clock) -> None:
    await here.create(
        job(
            ends_as="Failed",
            completions=2,
            parallelism=2,
            completionMode="Indexed",
            backoffLimitPerIndex=1,
        )
    )
    await here.settle()
    clock.advance(11)
    await here.patch("jobs", "work", {"metadata": {"labels": {"look": "again"}}})
    found = await finished(here)
    assert found["status"]["failedIndexes"] == "0,1"
    assert condition(found, "Failed")["reason"] == "FailedIndexes"


@with_loops(Jobs, Kubelet)
async def test_a_suspended_job_runs_nothing_until_it_is_resumed(here: World) -> None:
    await here.create(job(ends_as="", suspend=True))
    await here.settle()
    assert await here.list("pods") == []
    found = await here.get("jobs", "work")
    assert condition(found, "Suspended")["status"] == "True"
    assert "startTime" not in found["status"]
    await here.patch("jobs", "work", {"spec": {"suspend": False}})
    await here.settle()
    assert len(await here.list("pods")) == 1
    await here.patch("jobs", "work", {"spec": {"suspend": True}})
    await here.settle()
    found = await here.get("jobs", "work")
    assert await here.list("pods") == []
    assert "failed" not in found["status"]


@with_loops(Jobs, Kubelet, clock=Clock)
async def test_a_job_past_its_deadline_fails_and_its_pods_go(here: World, clock: Clock) -> None:
    await here.create(job(ends_as="", activeDeadlineSeconds=60))
    await here.settle()
    clock.advance(61)
    await here.patch("jobs", "work", {"metadata": {"labels": {"look": "again"}}})
    found = await finished(here)
    assert condition(found, "Failed")["reason"] == "DeadlineExceeded"
    assert await here.list("pods") == []


@with_loops(Jobs, Kubelet, clock=Clock)
async def test_a_finished_job_goes_when_its_time_to_live_is_over(here: World, clock: Clock) -> None:
    await here.create(job(ttlSecondsAfterFinished=30))
    await finished(here)
    clock.advance(31)
    await here.patch("jobs", "work", {"metadata": {"labels": {"look": "again"}}})
    await here.settle()
    found = await here.get("jobs", "work")
    assert found["metadata"]["deletionTimestamp"]
    assert found["metadata"]["finalizers"] == ["foregroundDeletion"]


@with_loops(Jobs, Kubelet)
async def test_a_deleted_pod_counts_as_failed_and_is_let_go(here: World) -> None:
    await here.create(job(ends_as=""))
    await here.settle()
    (pod,) = await here.list("pods")
    assert pod["metadata"]["finalizers"] == [FINALIZER]
    await here.delete("pods", pod["metadata"]["name"])

    async def gone() -> Any:
        return await here.find("pods", pod["metadata"]["name"]) is None

    await here.until(gone)
    await here.settle()
    assert (await here.get("jobs", "work"))["status"]["failed"] == 1


@with_loops(Jobs, Kubelet)
async def test_pods_of_a_job_that_is_gone_lose_their_finalizer(here: World) -> None:
    await here.create(job(ends_as=""))
    await here.settle()
    await here.delete("jobs", "work", propagationPolicy="Background")
    await here.settle()
    (pod,) = await here.list("pods")
    assert "finalizers" not in pod["metadata"]


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        ((), ""),
        ((3,), "3"),
        ((0, 1), "0,1"),
        ((0, 1, 2, 5, 7, 8), "0-2,5,7,8"),
    ],
)
def test_indexes_as_text(indexes: tuple[int, ...], text: str) -> None:
    assert job_indexes.render(indexes) == text
    assert job_indexes.parse(text, 100) == frozenset(indexes)


def test_indexes_beyond_the_completions_do_not_count() -> None:
    assert job_indexes.parse("0-9,12,x", 5) == frozenset(range(5))
