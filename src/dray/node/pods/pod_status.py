"""What is known of a running pod, made into the status that the API shows."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from dray.api.formats import gotime
from dray.api.types.containers import Container
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.node.containers.container_attempts import Attempt, Exit
from dray.node.pods import status_patches
from dray.node.runtimes.interface import Runtime

IMAGE_IGNORED: Final = "image-ignored"


@dataclass
class ObservedContainer:
    """One container: why it does not run, or its latest start and how that ended."""

    waiting: str = "PodInitializing"
    message: str = ""
    attempt: Attempt | None = None
    exit: Exit | None = None
    previous: tuple[Attempt, Exit] | None = None
    is_started: bool = False
    is_ready: bool = False

    @property
    def is_running(self) -> bool:
        return self.attempt is not None and self.exit is None

    def waits(self, reason: str, message: str = "") -> None:
        """It does not run now; how it ended last is kept."""
        if self.attempt is not None and self.exit is not None:
            self.previous = (self.attempt, self.exit)
        self.attempt = self.exit = None
        self.is_started = self.is_ready = False
        self.waiting, self.message = reason, message


Containers = Mapping[str, ObservedContainer]


class PodFailure(NamedTuple):
    """Why a pod as a whole has failed, whatever its containers say."""

    reason: str
    message: str


def phase(
    pod: Pod, containers: Containers, is_over: bool, failure: PodFailure | None = None
) -> str:
    if is_over and failure is not None:
        return status_patches.FAILED
    if is_over:
        exits = [containers[container.name].exit for container in pod.spec.containers]
        failed = any(exit_ is None or exit_.code for exit_ in exits)
        return status_patches.FAILED if failed else status_patches.SUCCEEDED
    begun = (containers[container.name] for container in pod.spec.containers)
    is_begun = any(each.attempt is not None or each.previous is not None for each in begun)
    return status_patches.RUNNING if is_begun else "Pending"


def status(
    pod: Pod, containers: Containers, *, is_over: bool, address: str, runtime: Runtime,
    now: datetime.datetime, failure: PodFailure | None = None,
) -> JsonObject:  # fmt: skip
    """The patch of the pod's status."""
    current = phase(pod, containers, is_over, failure)
    time = gotime.write(now)
    made: JsonObject = {
        "phase": current,
        "startTime": pod.status.start_time or time,
        "hostIP": address,
        "hostIPs": [{"ip": address}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": list(_conditions(pod, containers, current, time)),
    }
    if failure is not None:
        made |= {"reason": failure.reason, "message": failure.message}
    for field, group in (
        ("initContainerStatuses", pod.spec.init_containers),
        ("containerStatuses", pod.spec.containers),
    ):
        made[field] = [_container(pod, each, containers[each.name], runtime) for each in group]
    return status_patches.patch(pod, made)


def _conditions(pod: Pod, containers: Containers, current: str, time: str) -> Iterable[JsonObject]:
    is_over = current in (status_patches.SUCCEEDED, status_patches.FAILED)
    ready = all(_is_ready(containers[container.name]) for container in pod.spec.containers)
    initialized = all(
        _is_initialized(container, containers) for container in pod.spec.init_containers
    )
    reason = "" if ready else "ContainersNotReady"
    if is_over:
        reason = "PodCompleted" if current == status_patches.SUCCEEDED else "PodFailed"
    values = {
        "PodReadyToStartContainers": not is_over,
        "Initialized": initialized,
        "Ready": ready and status_patches.gates_are_open(pod),
        "ContainersReady": ready,
    }
    for type_, holds in values.items():
        why = reason if type_ in ("Ready", "ContainersReady") and not holds else ""
        yield status_patches.condition(pod, type_, "True" if holds else "False", time, why)


def _is_ready(seen: ObservedContainer) -> bool:
    return seen.is_running and seen.is_ready


def _is_initialized(container: Container, containers: Containers) -> bool:
    seen = containers[container.name]
    if status_patches.is_sidecar(container):
        return seen.attempt is not None
    return seen.exit is not None and seen.exit.code == 0


def _container(
    pod: Pod, container: Container, seen: ObservedContainer, runtime: Runtime
) -> JsonObject:
    number = _number(seen)
    made = status_patches.container_status(pod, container, _state(seen))
    identity = f"{runtime.name}://{pod.metadata.uid}/{container.name}/{number}"
    made["containerID"] = identity if seen.attempt else ""
    made["restartCount"] = number
    image = container.image if runtime.has_images else IMAGE_IGNORED
    made["imageID"] = f"{runtime.name}://{image}"
    if seen.is_running:
        made["ready"], made["started"] = _is_ready(seen), seen.is_started
    if seen.previous is not None:
        made["lastState"] = {"terminated": _terminated(*seen.previous)}
    return made


def _number(seen: ObservedContainer) -> int:
    """How often it was started before."""
    if seen.attempt is not None:
        return seen.attempt.number
    return seen.previous[0].number + 1 if seen.previous else 0


def _state(seen: ObservedContainer) -> JsonObject:
    if seen.attempt is None:
        return {"waiting": {"reason": seen.waiting, "message": seen.message}}
    if seen.exit is None:
        return {"running": {"startedAt": _time(seen.attempt.started_at)}}
    return {"terminated": _terminated(seen.attempt, seen.exit)}


def _terminated(attempt: Attempt, ended: Exit) -> JsonObject:
    return {
        "exitCode": ended.code,
        "reason": ended.reason or ("Error" if ended.code else "Completed"),
        "startedAt": _time(attempt.started_at),
        "finishedAt": _time(ended.finished_at),
    }


def _time(seconds: float) -> str:
    return gotime.write(datetime.datetime.fromtimestamp(seconds, datetime.UTC))
