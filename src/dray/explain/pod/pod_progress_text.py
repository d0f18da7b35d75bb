"""The progress of a pod as text: its obstacles, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from dray.api.semantics import quota
from dray.explain.pod import obstacles
from dray.explain.pod.obstacles import Obstacle
from dray.explain.pod.pod_progress import OTHER_NAMESPACES, PodProgress, StageState, StageStatus
from dray.explain.text import phrases

_MARKS = {
    StageState.PASSED: "✓",
    StageState.WARNING: "!",
    StageState.BLOCKED: "✗",
    StageState.UNKNOWN: "?",
    StageState.PENDING: "·",
}
_PREDICATES = {"Failed": "has failed", "Running": "is not well"}
_EXITS = {
    126: "the command cannot be executed",
    127: "the command does not exist",
    137: "it was killed; out of memory, if nobody did that on purpose",
    139: "it crashed (segmentation fault)",
    143: "it was asked to end",
}
_LIMITS = {
    "ResourceQuota": "a quota may be in the way",
    "ResourceClaim": "which devices are taken, and by whom, is not known",
    "ResourceClaimTemplate": "templates may be missing",
    "ResourceSlice": "which devices there are is not known",
    "DeviceClass": "what classes select is not known",
    "DeviceTaintRule": "devices may be tainted by rules",
    "Node": "the state of nodes is not known",
    "Event": "what the node agent said about preparing and starting is not known",
    "Pod": "other pods are not known",
}


def text(progress: PodProgress) -> str:
    """Return the obstacle, the stages, and what to do."""
    return "\n".join(_lines(progress)) + "\n"


def headline(progress: PodProgress) -> str:
    blocked = progress.blocked
    if blocked is not None:
        predicate = _PREDICATES.get(progress.phase, "waits")
        return f"pod {progress.pod} {predicate}: {sentence(blocked.obstacles[0])}"
    if progress.phase == "Succeeded":
        return f"pod {progress.pod} has done its work"
    if progress.is_complete:
        but = f", but {sentence(progress.warnings[0])}" if progress.warnings else ""
        return f"pod {progress.pod} runs{but}"
    if progress.unread:
        return f"pod {progress.pod}: no obstacle is known, but not everything could be read"
    return f"pod {progress.pod}: nothing is in its way"


def _lines(progress: PodProgress) -> Iterator[str]:
    yield headline(progress)
    yield "  " + "  ".join(f"{_MARKS[step.state]} {step.stage}" for step in progress.steps)
    in_headline = progress.blocked is not None or progress.is_complete
    lines = list(_details(progress.findings, first_in_headline=in_headline))
    lines += [limit(kind) for kind in progress.unread]
    for words in dict.fromkeys(lines):
        yield f"  {words}"


def _details(found: Sequence[Obstacle], *, first_in_headline: bool) -> Iterator[str]:
    """Yield what the headline leaves out: advice, and the other obstacles."""
    for number, obstacle in enumerate(found):
        if number or not first_in_headline:
            yield sentence(obstacle)
        if words := advice(obstacle):
            yield words


def limit(kind: str) -> str:
    """Return what cannot be explained because a kind could not be read."""
    follows = _LIMITS.get(kind.removesuffix(OTHER_NAMESPACES), "the answer may be incomplete")
    return f"{kind} could not be read, so {follows}."


def as_json(progress: PodProgress) -> dict[str, Any]:
    return {
        "pod": progress.pod,
        "summary": headline(progress),
        "steps": [_step(step) for step in progress.steps],
        "unread": {kind: limit(kind) for kind in progress.unread},
    }


def _step(step: StageStatus) -> dict[str, Any]:
    described = [
        {**msgspec.to_builtins(obstacle), "message": sentence(obstacle), "advice": advice(obstacle)}
        for obstacle in step.obstacles
    ]
    return {"stage": step.stage.value, "state": step.state.value, "obstacles": described}


def sentence(obstacle: Obstacle) -> str:
    """Return the obstacle in one line."""
    return " ".join(_words(obstacle).split())


def _words(obstacle: Obstacle) -> str:
    match obstacle:
        case obstacles.QuotaExceeded():
            what = _counted_by_quota(obstacle.resource, obstacle.hard)
            return (
                f"quota {obstacle.quota} allows {obstacle.hard} {what}, "
                f"{obstacle.used} {phrases.to_be(obstacle.used)} used, "
                f"{obstacle.needed} more {phrases.to_be(obstacle.needed)} needed"
            )
        case obstacles.ObjectMissing():
            where = f"namespace {obstacle.namespace}"
            return f"there is no {obstacle.kind} {obstacle.name} in {where}{_elsewhere(obstacle)}"
        case obstacles.ClaimNotMade():
            detail = f": {obstacle.message}" if obstacle.message else " yet"
            return f"the claim for {obstacle.pod_claim} was not made{detail}"
        case obstacles.DeviceUnhealthy():
            return f"device {obstacle.device} is unhealthy{_detail(obstacle.message)}"
        case obstacles.DeviceTainted():
            return f"device {obstacle.device} is tainted {obstacle.taint}{_taint_details(obstacle)}"
        case obstacles.NodeOutOfReach():
            nodes = phrases.limited(obstacle.nodes, len(obstacle.nodes), "node")
            return f"claim {obstacle.claim} has devices on {nodes}, where the pod may not go"
        case obstacles.ConditionAwaited():
            names = phrases.listed(obstacle.conditions)
            return f"device {obstacle.device} of claim {obstacle.claim} waits for condition {names}"
        case obstacles.BindingFailed():
            detail = f"failed: {obstacle.message}" if obstacle.message else "took too long"
            return f"the last attempt to attach the devices of claim {obstacle.claim} {detail}"
    return _about_start(obstacle)


def _about_start(obstacle: Obstacle) -> str:
    match obstacle:
        case obstacles.DriverNotRegistered(was_there=True):
            gone = "has published devices there, but is not registered any more"
            return f"driver {obstacle.driver} is gone from node {obstacle.node}: it {gone}"
        case obstacles.CdiUnresolved():
            who = _container(obstacle.container)
            return f"{who} needs a CDI device that is not there: {obstacle.message}"
        case obstacles.StartFailed():
            who, detail = _container(obstacle.container), _detail(obstacle.message)
            return f"{who} cannot start: {obstacle.reason}{detail}"
        case obstacles.ContainerExited():
            who = _container(obstacle.container)
            return f"{who} ended with exit code {obstacle.code}{_exit(obstacle)}"
    return phrases.filled(_SENTENCES[type(obstacle)], obstacle)


_SENTENCES: dict[type[Obstacle], str] = {
    obstacles.GateSet: "the scheduling gate {gate} is set",
    obstacles.ClaimBeingDeleted: "claim {claim} is being deleted",
    obstacles.ClaimsDoNotFit: "there are no devices for its claims",
    obstacles.NotLookedAt: "no scheduler has looked at it; it asks for {scheduler}",
    obstacles.NodeRefused: "the scheduler says: {message}",
    obstacles.ConditionFailed: (
        "device {device} of claim {claim} cannot be attached: {condition}: {message}"
    ),
    obstacles.NodeGone: "its node {node} does not exist",
    obstacles.NodeNotReady: "its node {node} is not ready: {message}",
    obstacles.DriverNotRegistered: "driver {driver} is not registered on node {node}",
    obstacles.PrepareFailed: "its claims cannot be prepared on node {node}: {message}",
    obstacles.NotReady: "container {container} runs and is not ready",
    obstacles.PodEnded: "the pod was ended: {reason}: {message}",
}


def _detail(message: str) -> str:
    return f": {message}" if message else ""


def _elsewhere(obstacle: obstacles.ObjectMissing) -> str:
    if not obstacle.elsewhere:
        return ""
    return f"; one of that name exists in namespace {phrases.listed(obstacle.elsewhere)}"


def _taint_details(obstacle: obstacles.DeviceTainted) -> str:
    rule = f" by DeviceTaintRule {obstacle.rule}" if obstacle.rule else ""
    since = f" since {obstacle.since}" if obstacle.since else ""
    if not obstacle.evicts:
        return f"{rule}{since}; the pod keeps it"
    when = f" at {obstacle.evicted_at}" if obstacle.evicted_at else ""
    return f"{rule}{since}; the pod is evicted{when}"


def _counted_by_quota(resource: str, amount: str) -> str:
    device_class = resource.removesuffix(quota.DEVICES_SUFFIX)
    noun = "device" if amount == "1" else "devices"
    return resource if device_class == resource else f"{noun} of class {device_class}"


def _container(name: str) -> str:
    return f"container {name}" if name else "a container"


def _exit(obstacle: obstacles.ContainerExited) -> str:
    reason = obstacle.reason
    if reason in ("", "Error"):
        reason = _EXITS.get(obstacle.code, "")
    restarts = phrases.counted(obstacle.restarts, "restart") if obstacle.restarts else ""
    details = ", ".join(filter(None, (reason, restarts)))
    return f" ({details})" if details else ""


def _about_missing(obstacle: obstacles.ObjectMissing) -> str:
    if obstacle.elsewhere:
        return "A pod and its claims are in one namespace."
    if obstacle.similar:
        return f"Did you mean {obstacle.similar}? If not, the pod goes on as soon as it is created."
    return "The pod goes on as soon as it is created."


def advice(obstacle: Obstacle) -> str:
    """Return what to do; empty if the sentence says it."""
    match obstacle:
        case obstacles.ObjectMissing():
            return _about_missing(obstacle)
        case obstacles.ClaimNotMade(message=message):
            return "" if message else "Do the controllers run?"
        case obstacles.DriverNotRegistered(was_there=True, node=node):
            return (
                f"It crashed or was stopped: its log on {node} says why; "
                "the pod goes on by itself when the driver is back and stays."
            )
        case obstacles.ContainerExited():
            before = " --previous" if obstacle.restarts else ""
            which = f"{obstacle.pod} -n {obstacle.namespace} -c {obstacle.container}"
            return f"See what it printed: dray logs {which}{before}"
    return phrases.filled(_ADVICE.get(type(obstacle), ""), obstacle)


_OTHER_NODE = "Delete the pod to have it placed on another node."
_ADVICE: dict[type[Obstacle], str] = {
    obstacles.QuotaExceeded: (
        "Delete what is not needed, or raise it: dray describe resourcequota {quota}"
    ),
    obstacles.GateSet: "Whoever set the gate removes it when the pod may be scheduled.",
    obstacles.ClaimBeingDeleted: "It goes when nobody uses it any more; then create it anew.",
    obstacles.DeviceUnhealthy: (
        "For another device, delete the pod, and its claim if no template made it."
    ),
    obstacles.NotLookedAt: "Does a scheduler of the name {scheduler} run?",
    obstacles.NodeOutOfReach: (
        "Change the pod's node selector, or delete the claim so that it is allocated anew."
    ),
    obstacles.ConditionAwaited: (
        "The driver {driver} sets it on the claim's status; look at its log."
    ),
    obstacles.ConditionFailed: "The scheduler tries again with other devices.",
    obstacles.BindingFailed: "The scheduler tries again by itself; the driver's log says more.",
    obstacles.NodeGone: _OTHER_NODE,
    obstacles.NodeNotReady: _OTHER_NODE,
    obstacles.DriverNotRegistered: (
        "Start {driver} on {node}, or look at its log; the pod goes on by itself."
    ),
    obstacles.PrepareFailed: (
        "It is tried again and again; the driver's log on that node says more."
    ),
    obstacles.CdiUnresolved: (
        "The driver's CDI file is missing on {node}, or the runtime does not look there."
    ),
    obstacles.NotReady: "Its readiness probe has not succeeded.",
}
