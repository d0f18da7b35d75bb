"""Builds the status of a pod from the observed state of its containers."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from dray.api.formats import gotime
from dray.api.semantics import pod_resources
from dray.api.semantics.pod_status import FAILED, PENDING, RUNNING, SUCCEEDED
from dray.api.types.containers import Container
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.node.containers.container_attempts import ContainerAttempt, Exit
from dray.node.pods import status_patches
from dray.node.runtimes.interface import Runtime
from dray.node.specs import termination_messages

IMAGE_IGNORED: Final = "image-ignored"


@dataclass
class ObservedContainer:
    """One container: the reason why it does not run, or its latest start and exit."""

    waiting: str = "PodInitializing"
    message: str = ""
    attempt: ContainerAttempt | None = None
    exit: Exit | None = None
    previous: tuple[ContainerAttempt, Exit] | None = None
    is_started: bool = False
    is_ready: bool = False

    @property
    def is_running(self) -> bool:
        return self.attempt is not None and self.exit is None

    def waits(self, reason: str, message: str = "") -> None:
        """Mark it as waiting; its last exit is kept as the previous one."""
        if self.attempt is not None and self.exit is not None:
            self.previous = (self.attempt, self.exit)
        self.attempt = self.exit = None
        self.is_started = self.is_ready = False
        self.waiting, self.message = reason, message


Containers = Mapping[str, ObservedContainer]


class PodFailure(NamedTuple):
    """The reason why a pod as a whole has failed, whatever its containers did."""

    reason: str
    message: str


def phase(
    pod: Pod, containers: Containers, is_over: bool, failure: PodFailure | None = None
) -> str:
    observed = [containers[container.name] for container in pod.spec.containers]
    if is_over:
        failed = any(container.exit is None or container.exit.code for container in observed)
        return FAILED if failed or failure is not None else SUCCEEDED
    has_begun = any(container.attempt or container.previous for container in observed)
    return RUNNING if has_begun else PENDING


def status(
    pod: Pod, containers: Containers, *, is_over: bool, address: str, runtime: Runtime,
    now: datetime.datetime, failure: PodFailure | None = None,
) -> JsonObject:  # fmt: skip
    """Return the patch of the pod's status."""
    current = phase(pod, containers, is_over, failure)
    time = gotime.write(now)
    body: JsonObject = {
        "phase": current,
        "startTime": pod.status.start_time or time,
        "hostIP": address,
        "hostIPs": [{"ip": address}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": list(_conditions(pod, containers, current, time)),
    }
    if failure is not None:
        body |= {"reason": failure.reason, "message": failure.message}
    for field, group in (
        ("initContainerStatuses", pod.spec.init_containers),
        ("containerStatuses", pod.spec.containers),
    ):
        body[field] = [
            _container(pod, container, containers[container.name], runtime) for container in group
        ]
    return status_patches.patch(pod, body)


def _conditions(pod: Pod, containers: Containers, current: str, time: str) -> Iterable[JsonObject]:
    is_over = current in (SUCCEEDED, FAILED)
    ready = all(_is_ready(containers[container.name]) for container in pod.spec.containers)
    incomplete = [
        container.name
        for container in pod.spec.init_containers
        if not _is_initialized(container, containers)
    ]
    reason = "" if ready else "ContainersNotReady"
    if is_over:
        reason = "PodCompleted" if current == SUCCEEDED else "PodFailed"
    values = {
        "PodReadyToStartContainers": not is_over,
        "Initialized": not incomplete,
        "Ready": ready and status_patches.gates_are_open(pod),
        "ContainersReady": ready,
    }
    for type_, holds in values.items():
        why, message = "", ""
        if type_ == "Initialized" and incomplete:
            why = "ContainersNotInitialized"
            message = f"containers with incomplete status: [{' '.join(incomplete)}]"
        elif type_ in ("Ready", "ContainersReady") and not holds:
            why = reason
        yield status_patches.condition(pod, type_, "True" if holds else "False", time, why, message)


def _is_ready(observed: ObservedContainer) -> bool:
    return observed.is_running and observed.is_ready


def _is_initialized(container: Container, containers: Containers) -> bool:
    observed = containers[container.name]
    if pod_resources.is_sidecar(container):
        return observed.attempt is not None
    return observed.exit is not None and observed.exit.code == 0


def _container(
    pod: Pod, container: Container, observed: ObservedContainer, runtime: Runtime
) -> JsonObject:
    number = _number(observed)
    policy = container.termination_message_policy
    entry = status_patches.container_status(pod, container, _state(observed, policy))
    identity = f"{runtime.name}://{pod.metadata.uid}/{container.name}/{number}"
    entry["containerID"] = identity if observed.attempt else ""
    entry["restartCount"] = number
    image = container.image if runtime.has_images else IMAGE_IGNORED
    entry["imageID"] = f"{runtime.name}://{image}"
    if observed.is_running:
        entry["ready"], entry["started"] = _is_ready(observed), observed.is_started
    if observed.previous is not None:
        entry["lastState"] = {"terminated": _terminated(*observed.previous, policy)}
    return entry


def _number(observed: ObservedContainer) -> int:
    """Return how often it was started before."""
    if observed.attempt is not None:
        return observed.attempt.number
    return observed.previous[0].number + 1 if observed.previous else 0


def _state(observed: ObservedContainer, policy: str) -> JsonObject:
    if observed.attempt is None:
        return {"waiting": {"reason": observed.waiting, "message": observed.message}}
    if observed.exit is None:
        return {"running": {"startedAt": _time(observed.attempt.started_at)}}
    return {"terminated": _terminated(observed.attempt, observed.exit, policy)}


def _terminated(attempt: ContainerAttempt, ended: Exit, policy: str) -> JsonObject:
    message = termination_messages.read(attempt.folder, policy, ended.code)
    return {
        **({"message": message} if message else {}),
        "exitCode": ended.code,
        "reason": ended.reason or ("Error" if ended.code else "Completed"),
        "startedAt": _time(attempt.started_at),
        "finishedAt": _time(ended.finished_at),
    }


def _time(seconds: float) -> str:
    return gotime.write(datetime.datetime.fromtimestamp(seconds, datetime.UTC))
