"""The summary of a pod in tables: ready containers, status and restarts.

The rules are those of kubectl's server-side table: pkg/printers/internalversion, printPod.
"""

from __future__ import annotations

from typing import NamedTuple

from dray.api.types.meta import JsonObject


class PodSummary(NamedTuple):
    ready: int
    total: int
    reason: str
    restarts: int
    last_restart: str | None


class _Restarts(NamedTuple):
    number: int = 0
    last: str | None = None

    def plus(self, status: JsonObject) -> _Restarts:
        terminated = status.get("lastState", {}).get("terminated") or {}
        finished = terminated.get("finishedAt")
        last = max(filter(None, (self.last, finished)), default=None)
        return _Restarts(self.number + status.get("restartCount", 0), last)


def summarize(pod: JsonObject) -> PodSummary:
    spec, status = pod.get("spec", {}), pod.get("status", {})
    sidecars = {
        container["name"]
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    total = len(spec.get("containers") or ()) + len(sidecars)
    init = _init_phase(spec, status, sidecars)
    reason = init.reason or _phase_reason(status)
    ready, restarts = init.ready_sidecars, init.restarts
    if not init.reason or _condition(status, "Initialized"):
        reason, running, restarts = _main_phase(status, reason, init.sidecar_restarts)
        ready += running
    return PodSummary(ready, total, _deletion_reason(pod, reason), *restarts)


def _phase_reason(status: JsonObject) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return str(status.get("reason") or status.get("phase", ""))


class _InitPhase(NamedTuple):
    """The state of init containers; `reason` is empty once all have completed."""

    reason: str
    ready_sidecars: int
    restarts: _Restarts
    sidecar_restarts: _Restarts


def _init_phase(spec: JsonObject, status: JsonObject, sidecars: set[str]) -> _InitPhase:
    ready, restarts, sidecar_restarts = 0, _Restarts(), _Restarts()
    total = len(spec.get("initContainers") or ())
    for number, container in enumerate(status.get("initContainerStatuses") or ()):
        is_sidecar = container["name"] in sidecars
        restarts = restarts.plus(container)
        if is_sidecar:
            sidecar_restarts = sidecar_restarts.plus(container)
        terminated = container.get("state", {}).get("terminated")
        if terminated and terminated.get("exitCode", 0) == 0:
            continue
        if is_sidecar and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        reason = _init_reason(container.get("state", {}), f"Init:{number}/{total}")
        return _InitPhase(reason, ready, restarts, sidecar_restarts)
    return _InitPhase("", ready, restarts, sidecar_restarts)


def _init_reason(state: JsonObject, otherwise: str) -> str:
    if terminated := state.get("terminated"):
        return f"Init:{_end_reason(terminated)}"
    waiting = (state.get("waiting") or {}).get("reason", "")
    return f"Init:{waiting}" if waiting not in ("", "PodInitializing") else otherwise


def _end_reason(terminated: JsonObject) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _main_phase(status: JsonObject, reason: str, restarts: _Restarts) -> tuple[str, int, _Restarts]:
    running, failure = 0, ""
    for container in reversed(status.get("containerStatuses") or ()):
        restarts = restarts.plus(container)
        state = container.get("state", {})
        if waiting := (state.get("waiting") or {}).get("reason"):
            reason = waiting
        elif terminated := state.get("terminated"):
            reason = _end_reason(terminated)
            failure = reason if terminated.get("exitCode", 0) else failure
        elif container.get("ready") and state.get("running") is not None:
            running += 1
    if reason == "Completed":
        reason = _after_completion(status, running, failure)
    return reason, running, restarts


def _after_completion(status: JsonObject, running: int, failure: str) -> str:
    """Return the status of a pod with a completed container."""
    if running and _condition(status, "Ready"):
        return "Running"
    return failure or ("NotReady" if running else "Completed")


def _condition(status: JsonObject, type_: str) -> bool:
    return any(
        condition.get("type") == type_ and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )


def _deletion_reason(pod: JsonObject, reason: str) -> str:
    if not pod.get("metadata", {}).get("deletionTimestamp"):
        return reason
    status = pod.get("status", {})
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return reason if status.get("phase") in ("Succeeded", "Failed") else "Terminating"
