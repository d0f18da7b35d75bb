"""Builds patches of a pod's status: phase, conditions and container states.

The patches are strategic: conditions that others own stay, and each names the pod's uid, so that
it cannot reach another pod of the same name.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable, Iterator

from dray.api.formats import gotime
from dray.api.semantics.conditions import find_condition, is_condition_true
from dray.api.semantics.pod_resources import is_sidecar
from dray.api.semantics.pod_status import FAILED, RUNNING, SUCCEEDED
from dray.api.types.containers import Container
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod

TERMINATED_BY_SIGNAL = 143
_ORDER = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


def running(pod: Pod, host_ip: str, now: datetime.datetime) -> JsonObject:
    """Return the patch for a pod whose containers have all started and are ready."""
    time = gotime.write(now)
    state: JsonObject = {"running": {"startedAt": time}}
    ready = gates_are_open(pod)
    address = pod_address(pod.metadata.uid)
    return patch(
        pod,
        {
            "phase": RUNNING,
            "startTime": time,
            "hostIP": host_ip,
            "hostIPs": [{"ip": host_ip}],
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": list(_conditions(pod, ready, time)),
            "initContainerStatuses": list(_init_statuses(pod, state, time)),
            "containerStatuses": [
                container_status(pod, container, state) for container in pod.spec.containers
            ],
        },
    )


def restarted(pod: Pod, exit_code: int, now: datetime.datetime) -> JsonObject:
    """Return the patch for a pod whose containers ended with a code and run again."""
    time = gotime.write(now)
    before = {status.name: status for status in pod.status.container_statuses}
    entries = []
    for container in pod.spec.containers:
        entry = container_status(pod, container, {"running": {"startedAt": time}})
        last = before.get(container.name)
        running_since = last.state.running.started_at if last and last.state.running else None
        entry["restartCount"] = (last.restart_count if last else 0) + 1
        entry["lastState"] = _terminated(exit_code, running_since or time, time)
        entries.append(entry)
    return patch(pod, {"containerStatuses": entries})


def ended(pod: Pod, exit_code: int, now: datetime.datetime) -> JsonObject:
    """Return the patch for a pod whose containers have all ended with a code."""
    time = gotime.write(now)
    started = pod.status.start_time or time
    terminated = _terminated(exit_code, started, time)
    reason = "PodFailed" if exit_code else "PodCompleted"
    sidecars = (container for container in pod.spec.init_containers if is_sidecar(container))
    finished = [container for container in pod.spec.init_containers if not is_sidecar(container)]
    completed = _terminated(0, started, started)
    return patch(
        pod,
        {
            "phase": FAILED if exit_code else SUCCEEDED,
            "startTime": started,
            "conditions": [
                condition(pod, "PodReadyToStartContainers", "False", time),
                *(condition(pod, type_, "False", time, reason) for type_ in _ORDER[2:]),
            ],
            "initContainerStatuses": [
                *(container_status(pod, container, completed) for container in finished),
                *(container_status(pod, sidecar, terminated) for sidecar in sidecars),
            ],
            "containerStatuses": [
                container_status(pod, container, terminated) for container in pod.spec.containers
            ],
        },
    )


def container_status(pod: Pod, container: Container, state: JsonObject) -> JsonObject:
    is_running = "running" in state
    is_complete = (state.get("terminated") or {}).get("exitCode") == 0
    return {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "containerID": f"none://{pod.metadata.uid}/{container.name}",
        "ready": is_running or (is_complete and container in pod.spec.init_containers),
        "started": is_running,
        "restartCount": 0,
        "state": state,
    }


def pod_address(uid: str) -> str:
    """Return an address in 10.64.0.0/10 that is computed from the pod's uid."""
    digest = hashlib.blake2s(uid.encode(), digest_size=3).digest()
    return f"10.{64 + digest[0] % 64}.{digest[1]}.{digest[2]}"


def patch(pod: Pod, status: JsonObject) -> JsonObject:
    status["observedGeneration"] = pod.metadata.generation
    filled = {name: value for name, value in status.items() if value != []}
    return {"metadata": {"uid": pod.metadata.uid}, "status": filled}


def _conditions(pod: Pod, ready: bool, time: str) -> Iterator[JsonObject]:
    for type_ in _ORDER:
        if type_ == "Ready" and not ready:
            message = "corresponding condition of pod readiness gate does not exist or is not True"
            yield condition(pod, type_, "False", time, "ReadinessGatesNotReady", message)
        else:
            yield condition(pod, type_, "True", time)


def condition(
    pod: Pod, type_: str, status: str, time: str, reason: str = "", message: str = ""
) -> JsonObject:
    before = find_condition(pod.status.conditions, type_)
    unchanged = before is not None and before.status == status
    since = before.last_transition_time if before is not None and unchanged else time
    return {
        "type": type_,
        "status": status,
        "observedGeneration": pod.metadata.generation,
        "lastProbeTime": None,
        "lastTransitionTime": since or time,
        "reason": reason or None,
        "message": message or None,
    }


def gates_are_open(pod: Pod) -> bool:
    conditions = pod.status.conditions
    return all(
        is_condition_true(conditions, gate.condition_type) for gate in pod.spec.readiness_gates
    )


def _init_statuses(pod: Pod, running_state: JsonObject, time: str) -> Iterable[JsonObject]:
    for container in pod.spec.init_containers:
        state = running_state if is_sidecar(container) else _terminated(0, time, time)
        yield container_status(pod, container, state)


def _terminated(exit_code: int, started: str, finished: str) -> JsonObject:
    return {
        "terminated": {
            "exitCode": exit_code,
            "reason": "Error" if exit_code else "Completed",
            "startedAt": started,
            "finishedAt": finished,
        }
    }
