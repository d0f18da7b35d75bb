"""The way of a pod in words: what stands in it, and what to do about that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from dray.api.semantics import quota
from dray.explain.pod import obstacles
from dray.explain.pod.obstacles import Obstacle
from dray.explain.pod.pod_progress import ELSEWHERE, PodProgress, StageState, StageStatus
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


def text(way: PodProgress) -> str:
    """What the pod waits for, how far it has come, and what to do."""
    return "\n".join(_lines(way)) + "\n"


def headline(way: PodProgress) -> str:
    here = way.blocked
    if here is not None:
        return f"pod {way.pod} {_PREDICATES.get(way.phase, 'waits')}: {sentence(here.obstacles[0])}"
    if way.phase == "Succeeded":
        return f"pod {way.pod} has done its work"
    if way.is_at_its_end:
        but = f", but {sentence(way.warnings[0])}" if way.warnings else ""
        return f"pod {way.pod} runs{but}"
    if way.unread:
        return f"pod {way.pod}: no obstacle is known, but not everything could be read"
    return f"pod {way.pod}: nothing is in its way"


def _lines(way: PodProgress) -> Iterator[str]:
    yield headline(way)
    yield "  " + "  ".join(f"{_MARKS[step.state]} {step.stage}" for step in way.steps)
    is_told = way.blocked is not None or way.is_at_its_end
    told = list(_told(way.findings, first_is_told=is_told))
    told += [limit(kind) for kind in way.unread]
    for words in dict.fromkeys(told):
        yield f"  {words}"


def _told(found: Sequence[Obstacle], *, first_is_told: bool) -> Iterator[str]:
    """What the headline does not say: advice, and the other obstacles."""
    for number, each in enumerate(found):
        if number or not first_is_told:
            yield sentence(each)
        if words := advice(each):
            yield words


def limit(kind: str) -> str:
    """What follows from not being allowed to read a kind, everywhere or elsewhere."""
    follows = _LIMITS.get(kind.removesuffix(ELSEWHERE), "the answer may be incomplete")
    return f"{kind} could not be read, so {follows}."


def as_json(way: PodProgress) -> dict[str, Any]:
    return {
        "pod": way.pod,
        "summary": headline(way),
        "steps": [_step(step) for step in way.steps],
        "unread": {kind: limit(kind) for kind in way.unread},
    }


def _step(step: StageStatus) -> dict[str, Any]:
    found = [
        {**msgspec.to_builtins(obstacle), "message": sentence(obstacle), "advice": advice(obstacle)}
        for obstacle in step.obstacles
    ]
    return {"stage": step.stage.value, "state": step.state.value, "obstacles": found}


def sentence(found: Obstacle) -> str:
    """What is in the way, in one line."""
    return " ".join(_words(found).split())


def _words(found: Obstacle) -> str:
    match found:
        case obstacles.QuotaExceeded():
            what = _counted_by_quota(found.resource, found.hard)
            return (
                f"quota {found.quota} allows {found.hard} {what}, "
                f"{found.used} {phrases.to_be(found.used)} used, "
                f"{found.needed} more {phrases.to_be(found.needed)} needed"
            )
        case obstacles.GateSet(gate=gate):
            return f"the scheduling gate {gate} is set"
        case obstacles.ObjectMissing():
            where = f"namespace {found.namespace}"
            return f"there is no {found.kind} {found.name} in {where}{_elsewhere(found)}"
        case obstacles.ClaimBeingDeleted(claim=claim):
            return f"claim {claim} is being deleted"
        case obstacles.ClaimNotMade():
            said = f": {found.message}" if found.message else " yet"
            return f"the claim for {found.pod_claim} was not made{said}"
        case obstacles.ClaimsDoNotFit():
            return "there are no devices for its claims"
        case obstacles.DeviceUnhealthy():
            said = f": {found.message}" if found.message else ""
            return f"device {found.device} is unhealthy{said}"
        case obstacles.DeviceTainted():
            return f"device {found.device} is tainted {found.taint}{_taint_details(found)}"
    return _about_node(found)


def _elsewhere(found: obstacles.ObjectMissing) -> str:
    if not found.elsewhere:
        return ""
    return f"; one of that name exists in namespace {phrases.listed(found.elsewhere)}"


def _taint_details(found: obstacles.DeviceTainted) -> str:
    rule = f" by DeviceTaintRule {found.rule}" if found.rule else ""
    since = f" since {found.since}" if found.since else ""
    if not found.evicts:
        return f"{rule}{since}; the pod keeps it"
    when = f" at {found.evicted_at}" if found.evicted_at else ""
    return f"{rule}{since}; the pod is evicted{when}"


def _counted_by_quota(resource: str, amount: str) -> str:
    device_class = resource.removesuffix(quota.DEVICES_SUFFIX)
    noun = "device" if amount == "1" else "devices"
    return resource if device_class == resource else f"{noun} of class {device_class}"


def _about_node(found: Obstacle) -> str:
    match found:
        case obstacles.NotLookedAt(scheduler=scheduler):
            return f"no scheduler has looked at it; it asks for {scheduler}"
        case obstacles.NodeRefused(message=message):
            return f"the scheduler says: {message}"
        case obstacles.NodeOutOfReach():
            nodes = phrases.limited(found.nodes, len(found.nodes), "node")
            return f"claim {found.claim} has devices on {nodes}, where the pod may not go"
        case obstacles.ConditionAwaited():
            names = phrases.listed(found.conditions)
            return f"device {found.device} of claim {found.claim} waits for condition {names}"
        case obstacles.ConditionFailed():
            return (
                f"device {found.device} of claim {found.claim} cannot be attached: "
                f"{found.condition}: {found.message}"
            )
        case obstacles.BindingFailed():
            said = f"failed: {found.message}" if found.message else "took too long"
            return f"the last attempt to attach the devices of claim {found.claim} {said}"
        case obstacles.NodeGone(node=node):
            return f"its node {node} does not exist"
        case obstacles.NodeNotReady():
            return f"its node {found.node} is not ready: {found.message}"
    return _about_start(found)


def _about_start(found: Obstacle) -> str:
    match found:
        case obstacles.DriverNotRegistered(was_there=True):
            gone = "has published devices there, but is not registered any more"
            return f"driver {found.driver} is gone from node {found.node}: it {gone}"
        case obstacles.DriverNotRegistered():
            return f"driver {found.driver} is not registered on node {found.node}"
        case obstacles.PrepareFailed():
            return f"its claims cannot be prepared on node {found.node}: {found.message}"
        case obstacles.CdiUnresolved():
            who = _container(found.container)
            return f"{who} needs a CDI device that is not there: {found.message}"
        case obstacles.StartFailed():
            said = f": {found.message}" if found.message else ""
            return f"{_container(found.container)} cannot start: {found.reason}{said}"
        case obstacles.ContainerExited():
            return f"{_container(found.container)} ended with exit code {found.code}{_exit(found)}"
        case obstacles.NotReady(container=container):
            return f"container {container} runs and is not ready"
        case obstacles.PodEnded():
            return f"the pod was ended: {found.reason}: {found.message}"
    raise AssertionError(found)


def _container(name: str) -> str:
    return f"container {name}" if name else "a container"


def _exit(found: obstacles.ContainerExited) -> str:
    known = found.reason if found.reason not in ("", "Error") else _EXITS.get(found.code, "")
    restarts = phrases.counted(found.restarts, "restart") if found.restarts else ""
    details = ", ".join(filter(None, (known, restarts)))
    return f" ({details})" if details else ""


def _about_missing(found: obstacles.ObjectMissing) -> str:
    if found.elsewhere:
        return "A pod and its claims are in one namespace."
    if found.similar:
        return f"Did you mean {found.similar}? If not, the pod goes on as soon as it is created."
    return "The pod goes on as soon as it is created."


def advice(found: Obstacle) -> str:
    """What to do; empty where the sentence says it all."""
    match found:
        case obstacles.QuotaExceeded():
            return (
                f"Delete what is not needed, or raise it: dray describe resourcequota {found.quota}"
            )
        case obstacles.GateSet():
            return "Whoever set the gate removes it when the pod may be scheduled."
        case obstacles.ObjectMissing():
            return _about_missing(found)
        case obstacles.ClaimBeingDeleted():
            return "It goes when nobody uses it any more; then create it anew."
        case obstacles.ClaimNotMade(message=message):
            return "" if message else "Do the controllers run?"
        case obstacles.DeviceUnhealthy():
            return "For another device, delete the pod, and its claim if no template made it."
        case obstacles.NotLookedAt(scheduler=scheduler):
            return f"Does a scheduler of the name {scheduler} run?"
        case obstacles.NodeOutOfReach():
            return (
                "Change the pod's node selector, or delete the claim so that it is allocated anew."
            )
        case obstacles.ConditionAwaited(driver=driver):
            return f"The driver {driver} sets it on the claim's status; look at its log."
        case obstacles.ConditionFailed():
            return "The scheduler tries again with other devices."
        case obstacles.BindingFailed():
            return "The scheduler tries again by itself; the driver's log says more."
        case obstacles.NodeGone() | obstacles.NodeNotReady():
            return "Delete the pod to have it placed on another node."
        case obstacles.DriverNotRegistered(was_there=True, node=node):
            return (
                f"It crashed or was stopped: its log on {node} says why; "
                "the pod goes on by itself when the driver is back and stays."
            )
        case obstacles.DriverNotRegistered(driver=driver, node=node):
            return f"Start {driver} on {node}, or look at its log; the pod goes on by itself."
        case obstacles.PrepareFailed():
            return "It is tried again and again; the driver's log on that node says more."
        case obstacles.CdiUnresolved(node=node):
            return (
                f"The driver's CDI file is missing on {node}, or the runtime does not look there."
            )
        case obstacles.ContainerExited():
            before = " --previous" if found.restarts else ""
            which = f"{found.pod} -n {found.namespace} -c {found.container}"
            return f"See what it printed: dray logs {which}{before}"
        case obstacles.NotReady():
            return "Its readiness probe has not succeeded."
    return ""
