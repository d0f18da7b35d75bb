"""The worker of one pod: order of starts, restarts, failures and the end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.api import errors
from dray.api.types.pods import Pod
from dray.node.containers.container_attempts import LOST_REASON
from dray.node.devices.claim_access import NotUsable
from dray.node.devices.drivers import DriverError
from dray.node.pods.worker import PodWorker
from dray.node.runtimes.interface import ContainerConfigError, ImageError
from tests import virtualtime
from tests.unit.node.fakes import FOREVER, KILLED, FakeNode, Program, container, pod

OK, FAILS = Program(1.0), Program(1.0, code=1)


@contextlib.asynccontextmanager
async def running(node: FakeNode, spec: Pod) -> AsyncIterator[PodWorker]:
    worker = node.worker(spec)
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def on_node(
    folder: Path, test: Callable[[FakeNode], Awaitable[None]], **programs: Iterable[Program]
) -> None:
    async def run() -> None:
        await test(FakeNode(folder, programs))

    virtualtime.run(run())


def starts(node: FakeNode) -> list[str]:
    return [text for text in node.journal.texts if text.startswith("start")]


def test_claims_are_prepared_before_the_first_container_starts(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        async with running(node, pod()):
            await node.until(lambda: node.phase == "Running")
        assert node.journal.texts[:2] == ["prepare", "start main"]

    on_node(tmp_path, test)


def test_init_containers_run_in_order_before_the_containers(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        spec = pod(container(), initContainers=[container("a"), container("b")])
        async with running(node, spec):
            await node.until(lambda: node.phase == "Running")
        assert node.journal.times("start a") == [0]
        assert node.journal.times("start b") == [1]
        assert node.journal.times("start main") == [3]

    on_node(tmp_path, test, a=[OK], b=[Program(2.0)])


def test_all_containers_start_together(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        async with running(node, pod(container("a"), container("b"))):
            await node.until(lambda: len(starts(node)) == 2)
        assert node.journal.times("start a") == node.journal.times("start b") == [0]

    on_node(tmp_path, test)


def test_a_sidecar_keeps_running_beside_what_starts_after_it(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        sidecar = container("sidecar", restartPolicy="Always")
        spec = pod(container(), initContainers=[sidecar, container("b")], restartPolicy="Never")
        async with running(node, spec):
            await node.until(lambda: node.phase == "Succeeded")
        order = [
            "start sidecar",
            "start b",
            "end b",
            "start main",
            "end main",
            "terminate sidecar",
        ]
        assert [text for text in node.journal.texts if text in order] == order

    on_node(tmp_path, test, b=[OK], main=[OK])


def test_what_follows_a_sidecar_waits_for_its_startup_probe(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        # Nothing can be executed, so the probe never succeeds.
        probe = {"exec": {"command": ["true"]}, "failureThreshold": 1000}
        sidecar = container("sidecar", restartPolicy="Always", startupProbe=probe)
        async with running(node, pod(container(), initContainers=[sidecar])):
            await asyncio.sleep(600)
        assert starts(node) == ["start sidecar"]
        assert node.phase == "Pending"

    on_node(tmp_path, test)


def test_sidecars_are_stopped_after_the_containers_the_last_first(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        sidecars = [container(name, restartPolicy="Always") for name in ("s1", "s2")]
        async with running(node, pod(container(), initContainers=sidecars)) as worker:
            await node.until(lambda: node.phase == "Running")
            worker.update(pod(container(), initContainers=sidecars, deleted=True))
            await node.until(lambda: bool(node.client.deletions))
        ends = [text for text in node.journal.texts if text.startswith("end")]
        assert ends == ["end main", "end s2", "end s1"]

    on_node(tmp_path, test)


def test_a_failed_init_container_fails_a_pod_that_is_never_restarted(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        spec = pod(container(), initContainers=[container("a")], restartPolicy="Never")
        async with running(node, spec):
            await node.until(lambda: node.phase == "Failed")
        assert starts(node) == ["start a"]
        assert node.container_state()["waiting"]["reason"] == "PodInitializing"

    on_node(tmp_path, test, a=[FAILS])


def test_a_failed_init_container_is_restarted_until_it_succeeds(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        async with running(node, pod(container(), initContainers=[container("a")])):
            await node.until(lambda: node.phase == "Running")
        assert starts(node) == ["start a", "start a", "start a", "start main"]

    on_node(tmp_path, test, a=[FAILS, FAILS, OK])


@pytest.mark.parametrize(
    ("policy", "program", "restarted", "phase"),
    [
        pytest.param("Always", OK, True, "Running", id="always-success"),
        pytest.param("Always", FAILS, True, "Running", id="always-failure"),
        pytest.param("OnFailure", OK, False, "Succeeded", id="on-failure-success"),
        pytest.param("OnFailure", FAILS, True, "Running", id="on-failure-failure"),
        pytest.param("Never", OK, False, "Succeeded", id="never-success"),
        pytest.param("Never", FAILS, False, "Failed", id="never-failure"),
    ],
)
def test_restart_policies(
    tmp_path: Path, policy: str, program: Program, restarted: bool, phase: str
) -> None:
    async def test(node: FakeNode) -> None:
        async with running(node, pod(restartPolicy=policy)):
            await asyncio.sleep(100)
        assert (len(starts(node)) > 1) is restarted
        assert node.phase == phase

    on_node(tmp_path, test, main=[program, FOREVER])


def test_back_off_doubles_up_to_five_minutes(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        async with running(node, pod()):
            await node.until(lambda: len(starts(node)) == 9)
            times = node.journal.times("start main")
        # Each run takes one second.
        waits = [after - before - 1 for before, after in itertools.pairwise(times)]
        assert waits == [0, 10, 20, 40, 80, 160, 300, 300]

    on_node(tmp_path, test, main=[FAILS])


def test_a_container_that_waits_for_its_restart_says_so(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        async with running(node, pod()):
            await asyncio.sleep(5)
        waiting = node.container_state()["waiting"]
        assert waiting == {
            "reason": "CrashLoopBackOff",
            "message": "back-off 10s restarting failed container=main pod=p_ns(u)",
        }
        (entry,) = node.status["containerStatuses"]
        assert entry["restartCount"] == 2
        assert entry["lastState"]["terminated"]["exitCode"] == 1
        assert node.recorder.notes("BackOff") == [waiting["message"]]

    on_node(tmp_path, test, main=[FAILS])


def test_a_container_that_ran_long_is_restarted_at_once(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        async with running(node, pod()):
            await node.until(lambda: len(starts(node)) == 4)
        # The second run is too short, so the third start comes after 10 seconds.
        assert node.journal.times("start main") == [0, 1, 12, 613]

    on_node(tmp_path, test, main=[OK, OK, Program(601.0), FOREVER])


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(ImageError("ErrImagePull", "no image"), "ErrImagePull", id="image"),
        pytest.param(ContainerConfigError("no key"), "CreateContainerConfigError", id="config"),
        pytest.param(errors.NotFound("no secret"), "CreateContainerConfigError", id="api"),
    ],
)
def test_a_failed_start_is_reported_and_retried(
    tmp_path: Path, error: Exception, reason: str
) -> None:
    async def test(node: FakeNode) -> None:
        node.runtime.failures = [error] * 3
        async with running(node, pod()):
            await asyncio.sleep(0.1)
            assert node.container_state()["waiting"]["reason"] == reason
            assert node.phase == "Pending"
            await node.until(lambda: node.phase == "Running")
        assert node.journal.times("start main") == [pytest.approx(0.2 + 0.4 + 0.8)]
        assert [note.rpartition("; ")[2] for note in node.recorder.notes("Failed")] == [
            "next try in 0.2 s",
            "next try in 0.4 s",
            "next try in 0.8 s",
        ]

    on_node(tmp_path, test)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(DriverError("driver d: no"), id="driver"),
        pytest.param(NotUsable("claim c is not allocated"), id="claim"),
        pytest.param(errors.ServiceUnavailable("down"), id="api"),
    ],
)
def test_a_failed_prepare_is_retried(tmp_path: Path, error: Exception) -> None:
    async def test(node: FakeNode) -> None:
        node.preparation.failures = [error] * 2
        async with running(node, pod()):
            await node.until(lambda: node.phase == "Running")
        assert node.journal.times("prepare") == [0, 0.2, pytest.approx(0.6)]
        notes = node.recorder.notes("FailedPrepareDynamicResources")
        assert notes == [f"{error}; next try in 0.2 s", f"{error}; next try in 0.4 s"]

    on_node(tmp_path, test)


def test_a_driver_that_registers_ends_the_wait_for_the_next_try(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        node.preparation.failures = [DriverError("driver d is not registered")] * 10
        async with running(node, pod()):
            await asyncio.sleep(60)
            node.preparation.failures.clear()
            node.drivers.change()
            await asyncio.sleep(0.1)
            assert node.phase == "Running"

    on_node(tmp_path, test)


def test_a_slow_driver_is_named_in_an_event(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        node.preparation.seconds = 6.0
        async with running(node, pod()):
            await node.until(lambda: node.phase == "Running")
        (note,) = node.recorder.notes("SlowPrepareDynamicResources")
        assert note.startswith("driver d: no answer after 5 s")

    on_node(tmp_path, test)


def test_a_pod_that_is_deleted_before_its_claims_are_prepared_never_starts(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        node.preparation.failures = [NotUsable("claim c is not allocated")] * 1000
        async with running(node, pod()) as worker:
            await asyncio.sleep(10)
            worker.update(pod(deleted=True))
            await node.until(lambda: bool(node.client.deletions))
        assert starts(node) == []
        assert node.journal.texts[-3:] == ["unprepare", "report Failed", "delete p"]

    on_node(tmp_path, test)


def test_a_pod_that_is_deleted_while_a_container_starts_stops_it(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        node.starter.start_seconds = 5.0
        async with running(node, pod()) as worker:
            await asyncio.sleep(1)
            worker.update(pod(deleted=True))
            await node.until(lambda: bool(node.client.deletions))
        happened = [text for text in node.journal.texts if not text.startswith("report")]
        assert happened == [
            "prepare",
            "start main",
            "terminate main",
            "end main",
            "unprepare",
            "delete p",
        ]

    on_node(tmp_path, test)


@pytest.mark.parametrize(
    ("spec", "deletion_grace", "killed_at"),
    [
        pytest.param({}, 30, 31, id="default"),
        pytest.param({"terminationGracePeriodSeconds": 60}, 5, 6, id="of-the-deletion"),
        pytest.param({}, 0, 1, id="none"),
    ],
)
def test_a_container_that_does_not_stop_is_killed_after_the_grace_period(
    tmp_path: Path, spec: dict[str, Any], deletion_grace: int, killed_at: float
) -> None:
    async def test(node: FakeNode) -> None:
        async with running(node, pod(**spec)) as worker:
            await asyncio.sleep(1)
            worker.update(pod(deleted=True, deletion_grace=deletion_grace, **spec))
            await node.until(lambda: bool(node.client.deletions))
        assert node.journal.times("kill main") == [killed_at]
        assert node.container_state()["terminated"]["exitCode"] == KILLED

    on_node(tmp_path, test, main=[Program(stop_seconds=None)])


def test_a_container_that_stops_in_time_is_not_killed(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        async with running(node, pod()) as worker:
            await asyncio.sleep(1)
            worker.update(pod(deleted=True, deletion_grace=30))
            await node.until(lambda: bool(node.client.deletions))
        assert node.journal.times("end main") == [30]
        assert node.journal.times("kill main") == []

    on_node(tmp_path, test, main=[Program(stop_seconds=29.0)])


def test_a_shorter_time_to_stop_wins_over_the_grace_period(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        async with running(node, pod()) as worker:
            await asyncio.sleep(1)
            await worker.stop(at_most_seconds=2.0)
            assert node.journal.times("kill main") == [3]

    on_node(tmp_path, test, main=[Program(stop_seconds=None)])


def test_the_pre_stop_hook_runs_before_the_signal_and_within_the_grace_period(
    tmp_path: Path,
) -> None:
    async def test(node: FakeNode) -> None:
        hooked = container(lifecycle={"preStop": {"sleep": {"seconds": 3}}})
        async with running(node, pod(hooked)) as worker:
            await asyncio.sleep(1)
            worker.update(pod(hooked, deleted=True, deletion_grace=10))
            await node.until(lambda: bool(node.client.deletions))
        assert node.journal.times("terminate main") == [4]
        assert node.journal.times("kill main") == [11]

    on_node(tmp_path, test, main=[Program(stop_seconds=None)])


def test_a_failed_post_start_hook_restarts_the_container(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        hooked = container(lifecycle={"postStart": {"exec": {"command": ["x"]}}})
        async with running(node, pod(hooked)):
            await node.until(lambda: len(starts(node)) == 2)
        note = "PostStart hook failed: container main will be restarted"
        assert node.recorder.notes("Unhealthy")[0] == note

    on_node(tmp_path, test)


def test_claims_are_given_back_before_the_end_is_reported(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        node.preparation.unprepare_failures = [DriverError("driver d: no")] * 2
        async with running(node, pod(restartPolicy="Never")):
            await node.until(lambda: node.phase == "Succeeded")
        assert node.journal.texts[-4:] == ["unprepare"] * 3 + ["report Succeeded"]
        assert node.journal.times("report Succeeded") == [pytest.approx(1 + 0.2 + 0.4)]

    on_node(tmp_path, test, main=[OK])


def test_a_pod_that_has_ended_is_deleted_when_the_user_says_so(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        (tmp_path / "u" / "containers").mkdir(parents=True)
        async with running(node, pod(restartPolicy="Never")) as worker:
            await asyncio.sleep(1000)
            assert node.client.deletions == []
            worker.update(pod(restartPolicy="Never", deleted=True))
            await node.until(lambda: not (tmp_path / "u").exists())
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}}
        assert node.client.deletions == [options]

    on_node(tmp_path, test, main=[OK])


def test_a_pod_that_was_over_before_the_agent_started_runs_nothing(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        async with running(node, pod(status={"phase": "Succeeded"})):
            await asyncio.sleep(10)
        assert node.journal.texts == ["unprepare"]

    on_node(tmp_path, test)


def test_an_active_deadline_ends_the_pod(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        async with running(node, pod(activeDeadlineSeconds=60)):
            await node.until(lambda: node.phase == "Failed")
        assert node.journal.times("terminate main") == [60]
        assert node.status["reason"] == "DeadlineExceeded"

    on_node(tmp_path, test)


@pytest.mark.parametrize("before", [None, 600])
def test_an_active_deadline_may_come_or_be_shortened_later(
    tmp_path: Path, before: int | None
) -> None:
    async def test(node: FakeNode) -> None:
        async with running(node, pod(activeDeadlineSeconds=before)) as worker:
            await asyncio.sleep(10)
            changed = pod(activeDeadlineSeconds=60)
            metadata = msgspec.structs.replace(changed.metadata, generation=2)
            worker.update(msgspec.structs.replace(changed, metadata=metadata))
            await node.until(lambda: node.phase == "Failed")
        assert node.journal.times("terminate main") == [60]

    on_node(tmp_path, test)


def test_a_changed_spec_is_reported_as_seen(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        async with running(node, pod()) as worker:
            await node.until(lambda: node.phase == "Running")
            metadata = msgspec.structs.replace(worker.pod.metadata, generation=7)
            worker.update(msgspec.structs.replace(worker.pod, metadata=metadata))
            await node.until(lambda: node.status["observedGeneration"] == 7)

    on_node(tmp_path, test)


def test_an_active_deadline_counts_from_the_start_under_another_agent(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        spec = pod(activeDeadlineSeconds=60, status={"startTime": "2025-12-31T23:59:30Z"})
        async with running(node, spec):
            await node.until(lambda: node.phase == "Failed")
        assert node.journal.times("terminate main") == [30]

    on_node(tmp_path, test)


def test_the_next_worker_goes_on_with_the_containers_of_the_last(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        async with running(node, pod()):
            await node.until(lambda: node.phase == "Running")
        async with running(node, pod()):
            await asyncio.sleep(100)
            assert "running" in node.container_state()
        assert starts(node) == ["start main"]
        assert "terminate main" not in node.journal.texts

    on_node(tmp_path, test)


def test_what_is_left_of_a_lost_container_is_discarded_before_its_restart(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        async with running(node, pod()):
            await node.until(lambda: node.phase == "Running")
            (attempt,) = node.starter.attempts.values()
            assert attempt.process is not None
            attempt.process.end(KILLED, LOST_REASON)
            await node.until(lambda: len(starts(node)) == 2)
        assert node.runtime.discarded == [0]

    on_node(tmp_path, test)


def test_a_status_that_cannot_be_written_is_written_later(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        node.client.failures = [errors.ServiceUnavailable("down")] * 4
        async with running(node, pod()):
            await node.until(lambda: node.phase == "Running")
        assert node.journal.times("report Running")[0] == pytest.approx(0.2 + 0.4 + 0.8 + 1.6)

    on_node(tmp_path, test)


def test_nothing_is_reported_of_a_pod_that_was_replaced(tmp_path: Path) -> None:
    async def test(node: FakeNode) -> None:
        async with running(node, pod()) as worker:
            await node.until(lambda: node.phase == "Running")
            before = len(node.client.statuses)
            node.preparation.unprepare_failures = [DriverError("busy")] * 3
            worker.abandon()
            await node.until(lambda: bool(node.client.deletions))
            assert len(node.client.statuses) == before

    on_node(tmp_path, test)


def test_a_report_that_is_refused_is_not_repeated_once_the_pod_was_replaced(
    tmp_path: Path,
) -> None:
    async def test(node: FakeNode) -> None:
        refused = errors.Invalid("metadata.uid: field is immutable")
        node.client.failures = [refused] * 50
        async with running(node, pod()) as worker:
            await node.until(lambda: len(node.client.failures) < 49)
            worker.abandon()
            node.client.failures.clear()
            await node.until(lambda: bool(node.client.deletions))
            assert node.client.statuses == []

    on_node(tmp_path, test)
