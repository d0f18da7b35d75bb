"""The status of a pod, from what is observed of its containers."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.node.containers.container_attempts import Exit
from dray.node.pods import pod_status
from dray.node.pods.pod_status import ObservedContainer, PodFailure
from tests.unit.node.fakes import FakeAttempt, FakeRuntime, container, pod

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
TIME = "2026-01-01T00:00:00Z"
EARLIER = "2025-12-31T00:00:00Z"


class Started(FakeAttempt):
    """A start of a container at a known time."""

    @property
    def started_at(self) -> float:
        return NOW.timestamp() + self.number


def attempt(number: int = 0) -> Started:
    return Started(Path(str(number)))


def ended(code: int, number: int = 0) -> Exit:
    return Exit(code, NOW.timestamp() + number + 10)


def observed(code: int | None = None, *, number: int = 0, ready: bool = True) -> ObservedContainer:
    """A container that runs, or has ended with a code."""
    exit_ = None if code is None else ended(code, number)
    return ObservedContainer(attempt=attempt(number), exit=exit_, is_started=True, is_ready=ready)


WAITING = ObservedContainer()


def status(
    spec: Pod, *, is_over: bool = False, failure: PodFailure | None = None, **seen: Any
) -> JsonObject:
    runtime: Any = FakeRuntime()
    patch = pod_status.status(
        spec, seen, is_over=is_over, address="10.0.0.1", runtime=runtime, now=NOW, failure=failure
    )
    assert patch["metadata"] == {"uid": spec.metadata.uid}
    body: JsonObject = patch["status"]
    return body


def conditions(body: JsonObject) -> dict[str, tuple[str, str | None]]:
    return {
        condition["type"]: (condition["status"], condition["reason"])
        for condition in body["conditions"]
    }


@pytest.mark.parametrize(
    ("a", "b", "is_over", "phase"),
    [
        pytest.param(WAITING, WAITING, False, "Pending", id="nothing-has-started"),
        pytest.param(observed(), WAITING, False, "Running", id="one-runs"),
        pytest.param(observed(1), observed(0), False, "Running", id="ended-but-not-over"),
        pytest.param(observed(0), observed(0), True, "Succeeded", id="all-succeeded"),
        pytest.param(observed(0), observed(1), True, "Failed", id="one-failed"),
        pytest.param(observed(0), WAITING, True, "Failed", id="one-never-started"),
    ],
)
def test_phases(a: ObservedContainer, b: ObservedContainer, is_over: bool, phase: str) -> None:
    body = status(pod(container("a"), container("b")), is_over=is_over, a=a, b=b)
    assert body["phase"] == phase


def test_a_container_that_waits_for_its_restart_keeps_the_pod_running() -> None:
    main = observed(1)
    main.waits("CrashLoopBackOff", "back-off")
    assert status(pod(), main=main)["phase"] == "Running"


def test_a_failure_of_the_pod_wins_over_its_containers_once_it_is_over() -> None:
    failure = PodFailure("DeadlineExceeded", "too long")
    assert status(pod(), failure=failure, main=observed())["phase"] == "Running"
    body = status(pod(), is_over=True, failure=failure, main=observed(0))
    assert (body["phase"], body["reason"], body["message"]) == (
        "Failed",
        "DeadlineExceeded",
        "too long",
    )


def test_the_addresses_are_those_of_the_node() -> None:
    body = status(pod(), main=observed())
    assert body["hostIP"] == body["podIP"] == "10.0.0.1"
    assert body["hostIPs"] == body["podIPs"] == [{"ip": "10.0.0.1"}]


def test_the_start_time_is_set_once() -> None:
    assert status(pod(), main=WAITING)["startTime"] == TIME
    assert status(pod(status={"startTime": EARLIER}), main=WAITING)["startTime"] == EARLIER


def test_conditions_of_a_running_pod() -> None:
    assert conditions(status(pod(), main=observed())) == {
        "PodReadyToStartContainers": ("True", None),
        "Initialized": ("True", None),
        "Ready": ("True", None),
        "ContainersReady": ("True", None),
    }


def test_one_unready_container_makes_the_pod_unready() -> None:
    spec = pod(container("a"), container("b"))
    found = conditions(status(spec, a=observed(), b=observed(ready=False)))
    assert found["Ready"] == found["ContainersReady"] == ("False", "ContainersNotReady")


@pytest.mark.parametrize(
    ("code", "reason"),
    [pytest.param(0, "PodCompleted", id="succeeded"), pytest.param(1, "PodFailed", id="failed")],
)
def test_conditions_of_a_pod_that_is_over(code: int, reason: str) -> None:
    found = conditions(status(pod(), is_over=True, main=observed(code)))
    assert found == {
        "PodReadyToStartContainers": ("False", None),
        "Initialized": ("True", None),
        "Ready": ("False", reason),
        "ContainersReady": ("False", reason),
    }


@pytest.mark.parametrize(
    ("init", "sidecar", "initialized"),
    [
        pytest.param(WAITING, WAITING, "False", id="nothing-has-started"),
        pytest.param(observed(), WAITING, "False", id="init-runs"),
        pytest.param(observed(1), observed(), "False", id="init-failed"),
        pytest.param(observed(0), WAITING, "False", id="sidecar-waits"),
        pytest.param(observed(0), observed(), "True", id="sidecar-runs"),
    ],
)
def test_initialized_is_after_init_containers_have_succeeded_and_sidecars_have_started(
    init: ObservedContainer, sidecar: ObservedContainer, initialized: str
) -> None:
    inits = [container("init"), container("sidecar", restartPolicy="Always")]
    body = status(pod(initContainers=inits), init=init, sidecar=sidecar, main=WAITING)
    assert conditions(body)["Initialized"][0] == initialized
    assert [entry["name"] for entry in body["initContainerStatuses"]] == ["init", "sidecar"]


def test_init_containers_that_are_incomplete_are_named() -> None:
    inits = [container("first"), container("second")]
    body = status(pod(initContainers=inits), first=observed(0), second=observed(1), main=WAITING)
    (found,) = (entry for entry in body["conditions"] if entry["type"] == "Initialized")
    assert found["reason"] == "ContainersNotInitialized"
    assert found["message"] == "containers with incomplete status: [second]"


@pytest.mark.parametrize(("gate", "ready"), [("True", "True"), ("False", "False"), (None, "False")])
def test_a_readiness_gate_must_be_open_for_the_pod_to_be_ready(
    gate: str | None, ready: str
) -> None:
    kind = "example.com/open"
    now = {"conditions": [{"type": kind, "status": gate}]} if gate else None
    found = conditions(
        status(pod(status=now, readinessGates=[{"conditionType": kind}]), main=observed())
    )
    assert found["Ready"][0] == ready
    assert found["ContainersReady"][0] == "True"


def test_a_condition_keeps_its_time_while_its_status_does_not_change() -> None:
    before = [
        {"type": "Ready", "status": "True", "lastTransitionTime": EARLIER},
        {"type": "ContainersReady", "status": "False", "lastTransitionTime": EARLIER},
    ]
    body = status(pod(status={"conditions": before}), main=observed())
    times = {condition["type"]: condition["lastTransitionTime"] for condition in body["conditions"]}
    assert times["Ready"] == EARLIER
    assert times["ContainersReady"] == TIME


def test_a_waiting_container() -> None:
    (entry,) = status(pod(), main=ObservedContainer("ErrImagePull", "no image"))[
        "containerStatuses"
    ]
    assert entry["state"] == {"waiting": {"reason": "ErrImagePull", "message": "no image"}}
    assert (entry["ready"], entry["started"], entry["restartCount"]) == (False, False, 0)
    assert entry["containerID"] == ""


def test_a_running_container() -> None:
    (entry,) = status(pod(), main=observed(number=2, ready=False))["containerStatuses"]
    assert entry["state"] == {"running": {"startedAt": "2026-01-01T00:00:02Z"}}
    assert (entry["ready"], entry["started"], entry["restartCount"]) == (False, True, 2)
    assert entry["containerID"] == "fake://u/main/2"
    assert entry["imageID"] == "fake://i"


@pytest.mark.parametrize(
    ("exit_", "reason"),
    [
        pytest.param(ended(0), "Completed", id="success"),
        pytest.param(ended(3), "Error", id="failure"),
        pytest.param(Exit(137, NOW.timestamp() + 10, "OOMKilled"), "OOMKilled", id="reason"),
    ],
)
def test_an_ended_container(exit_: Exit, reason: str) -> None:
    main = ObservedContainer(attempt=attempt(), exit=exit_)
    (entry,) = status(pod(), main=main)["containerStatuses"]
    assert entry["state"]["terminated"] == {
        "exitCode": exit_.code,
        "reason": reason,
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:00:10Z",
    }


def test_the_last_exit_is_kept_while_a_container_waits_and_runs_again() -> None:
    main = observed(1)
    main.waits("CrashLoopBackOff")
    (entry,) = status(pod(), main=main)["containerStatuses"]
    assert entry["restartCount"] == 1
    assert entry["lastState"]["terminated"]["exitCode"] == 1
    main.attempt = attempt(1)
    (entry,) = status(pod(), main=main)["containerStatuses"]
    assert entry["restartCount"] == 1
    assert entry["lastState"]["terminated"]["exitCode"] == 1
    assert "running" in entry["state"]


def test_the_patch_says_which_generation_was_observed() -> None:
    document = msgspec.to_builtins(pod())
    document["metadata"]["generation"] = 7
    body = status(msgspec.convert(document, Pod), main=observed())
    assert body["observedGeneration"] == 7
    assert "initContainerStatuses" not in body
