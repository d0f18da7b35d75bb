"""The progress of a pod as text: its obstacles, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from dray.api.semantics import quota
from dray.api.well_known import ADMIN_ACCESS_LABEL
from dray.explain.pod import obstacles
from dray.explain.pod.node_eligibility import CONDITION_TAINTS
from dray.explain.pod.obstacles import Obstacle
from dray.explain.pod.pod_changes import TEMPLATE
from dray.explain.pod.pod_context import OTHER_NAMESPACES
from dray.explain.pod.pod_progress import PodProgress, StageState, StageStatus
from dray.explain.text import phrases

_MARKS = {
    StageState.PASSED: "✓",
    StageState.WARNING: "!",
    StageState.BLOCKED: "✗",
    StageState.UNKNOWN: "?",
    StageState.PENDING: "·",
}
_PREDICATES = {"Failed": "has failed", "Running": "is failing"}
_EXITS = {
    126: "the command cannot be executed",
    127: "the command does not exist",
    137: "killed, for example because it was out of memory",
    139: "segmentation fault",
    143: "terminated by a signal",
}
_LIMITS = {
    "ResourceQuota": "a quota may block the pod",
    "ResourceClaim": "which devices are taken, and by whom, is not known",
    "ResourceClaimTemplate": "templates may be missing",
    "ResourceSlice": "which devices there are is not known",
    "DeviceClass": "what classes select is not known",
    "DeviceTaintRule": "devices may be tainted by rules",
    "Node": "the state of nodes is not known",
    "Event": "messages of the node agent are not known",
    "Pod": "other pods are not known",
}


def text(progress: PodProgress) -> str:
    """Return the obstacle, what to do, and the stages."""
    return "\n".join(lines(progress)) + "\n"


def headline(progress: PodProgress) -> str:
    blocked = progress.blocked
    if blocked is not None:
        predicate = _PREDICATES.get(progress.phase, "waits")
        for item in blocked.obstacles:
            if isinstance(item, obstacles.Terminating):
                evicted = f"is being evicted ({item.disruption})"
                predicate = evicted if item.disruption else "is being deleted"
        return f"pod {progress.pod} {predicate}: {sentence(blocked.obstacles[0])}"
    if progress.phase == "Succeeded":
        return f"pod {progress.pod} has succeeded"
    if progress.is_complete:
        return f"pod {progress.pod} runs{_but(progress)}"
    if progress.unread:
        return f"pod {progress.pod}: no obstacle was found, but not everything could be read"
    state = "is starting" if progress.is_bound else "can be scheduled"
    return f"pod {progress.pod} {state}{_but(progress)}"


def _but(progress: PodProgress) -> str:
    return f", but {sentence(progress.warnings[0])}" if progress.warnings else ""


def lines(progress: PodProgress, fixes: Sequence[str] = ()) -> Iterator[str]:
    """Yield the verdict, the fixes, the stages, and the other obstacles with what to do."""
    yield headline(progress)
    findings = progress.findings
    for place in (item for item in findings if isinstance(item, obstacles.BehindOthers)):
        yield f"  {sentence(place)}"
    findings = tuple(item for item in findings if not isinstance(item, obstacles.BehindOthers))
    for words in fixes:
        yield f"  {words}"
    has_headline = progress.blocked is not None or bool(progress.warnings)
    first = advice(findings[0]) if findings and has_headline else ""
    if first and not fixes:
        yield f"  {first}"
    yield f"  {stages(progress)}"
    others = list(_details(findings[1:] if has_headline else findings))
    others += [limit(kind) for kind in progress.unread]
    for words in dict.fromkeys(others):
        yield f"  {words}"


def stages(progress: PodProgress) -> str:
    return "  ".join(f"{_MARKS[step.state]} {step.stage}" for step in progress.steps)


def _details(found: Sequence[Obstacle]) -> Iterator[str]:
    for obstacle in found:
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
            return f"the claim for {obstacle.pod_claim} was not created{detail}"
        case obstacles.DeviceUnhealthy():
            return f"device {obstacle.device} is unhealthy{_detail(obstacle.message)}"
        case obstacles.DeviceTainted():
            return f"device {obstacle.device} is tainted {obstacle.taint}{_taint_details(obstacle)}"
        case obstacles.NodeOutOfReach():
            nodes = phrases.limited(obstacle.nodes, len(obstacle.nodes), "node")
            excluded = "which the pod's node selector excludes"
            return f"claim {obstacle.claim} has devices on {nodes}, {excluded}"
        case obstacles.ConditionAwaited():
            names = phrases.listed(obstacle.conditions)
            return f"device {obstacle.device} of claim {obstacle.claim} waits for condition {names}"
        case obstacles.Terminating():
            return _about_deletion(obstacle)
        case obstacles.ClaimsDoNotFit(reason=reason):
            return f"there are no devices for its claims{_detail(reason)}"
        case obstacles.BehindOthers(pods=pods):
            ahead = "1 pod is" if len(pods) == 1 else f"{len(pods)} pods are"
            names = phrases.limited(pods, len(pods), "pod")
            return f"{ahead} ahead of it in the queue for these devices: {names}"
        case obstacles.BindingFailed():
            detail = f"failed: {obstacle.message}" if obstacle.message else "took too long"
            return f"the last attempt to attach the devices of claim {obstacle.claim} {detail}"
    return _about_nodes(obstacle) or _about_start(obstacle)


def _about_deletion(obstacle: obstacles.Terminating) -> str:
    if obstacle.driver:
        gone = f"driver {obstacle.driver} is not registered on node {obstacle.node}"
        return f"{gone}, so its devices cannot be released"
    if obstacle.message:
        return f"its devices cannot be released on node {obstacle.node}: {obstacle.message}"
    if obstacle.finalizers:
        return f"it has the finalizers {phrases.listed(obstacle.finalizers)}"
    return "its containers have to end first"


def _about_nodes(obstacle: Obstacle) -> str:
    """Return why nodes are excluded; empty for other obstacles."""
    match obstacle:
        case obstacles.NodeSelectorUnmatched(selector=selector, label=label, values=values):
            asked = [f"{key}={value}" for key, value in selector.items()]
            if not label:
                return f"no node has all labels of the pod's nodeSelector: {', '.join(asked)}"
            without = f"no node matches the pod's nodeSelector {label}={selector[label]}"
            if not values:
                return f"{without}; no node has the label {label}"
            return f"{without}; nodes have {label}={phrases.listed(values, 'or')}"
        case obstacles.NodeAffinityUnmatched(terms=terms, nodes=nodes):
            return f"the pod's node affinity excludes {_nodes(nodes)}: it requires {terms}"
        case obstacles.NodesCordoned(nodes=nodes):
            return f"{_nodes(nodes)} {_are(nodes)} cordoned (unschedulable)"
        case obstacles.NodesTainted(nodes=nodes, taint=taint):
            return f"{_nodes(nodes)} {_have(nodes)} the taint {taint}, which it does not tolerate"
        case obstacles.ResourceUnknown(resource=resource, similar=similar):
            close = f"; did you mean {similar}?" if similar else ""
            return f"no node and no DeviceClass provides the resource {resource}{close}"
        case obstacles.ResourceShort(resource=resource, nodes=nodes):
            left = f"at most {obstacle.most} is left (on {obstacle.node})"
            short = f"{_nodes(nodes)} {_have(nodes)} too little {resource}"
            return f"{short}: {obstacle.needed} is requested, {left}"
        case obstacles.NodesFull(reason=reason, nodes=nodes):
            return f"{_nodes(nodes)} cannot be used: {reason}"
    return ""


def _nodes(names: Sequence[str]) -> str:
    listed = phrases.limited(names, len(names), "node")
    return f"node {listed}" if len(names) == 1 else f"nodes {listed}"


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _have(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _about_start(obstacle: Obstacle) -> str:
    match obstacle:
        case obstacles.DriverNotRegistered(was_there=True):
            published = "although it has published devices there"
            return (
                f"driver {obstacle.driver} is not registered on node {obstacle.node}, {published}"
            )
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
    obstacles.KindConfused: "{name} is a {actual}, not a {named}",
    obstacles.GroupGateOff: ("it belongs to PodGroup {group}, and the feature gate {gate} is off"),
    obstacles.ClaimUnused: (
        "no container uses the claim {pod_claim}, so its devices are reserved for nothing"
    ),
    obstacles.RequestUnknown: (
        "container {container} uses request {request}, which claim {pod_claim} does not have"
    ),
    obstacles.NotLookedAt: "no scheduler has considered it; it names {scheduler}",
    obstacles.NodeRefused: "the scheduler says: {message}",
    obstacles.ConditionFailed: (
        "device {device} of claim {claim} cannot be attached: {condition}: {message}"
    ),
    obstacles.SchedulerBypassed: (
        "nodeName: {node} bypasses the scheduler, which allocates the devices of its claims"
    ),
    obstacles.NodeGone: "its node {node} does not exist",
    obstacles.NodeNotReady: "its node {node} is not ready: {message}",
    obstacles.DriverNotRegistered: "driver {driver} is not registered on node {node}",
    obstacles.PrepareFailed: "its claims cannot be prepared on node {node}: {message}",
    obstacles.NotReady: "container {container} runs but is not ready",
    obstacles.PodEnded: "it was ended: {reason}: {message}",
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
        return (
            "A pod and its claims must be in the same namespace: create the "
            f"{obstacle.kind} in {obstacle.namespace}, or the pod in {obstacle.elsewhere[0]}."
        )
    noun = "template" if obstacle.kind == TEMPLATE else "claim"
    once = f"he pod will be scheduled once the {noun} exists."
    return f"Did you mean {obstacle.similar}? If not, t{once}" if obstacle.similar else f"T{once}"


def advice(obstacle: Obstacle) -> str:
    """Return what to do; empty if the sentence says it."""
    match obstacle:
        case obstacles.ObjectMissing():
            return _about_missing(obstacle)
        case obstacles.ClaimNotMade(message=message):
            if "dmin" in message and ADMIN_ACCESS_LABEL in message:
                return f"Label the namespace with {ADMIN_ACCESS_LABEL}=true, or drop adminAccess."
            return "" if message else "Check that the controllers are running."
        case obstacles.DriverNotRegistered(was_there=True, node=node):
            return (
                "It was stopped, or it runs with another --folder than the node's agent: see its "
                f"log on {node}. The pod continues when the driver is registered again."
            )
        case obstacles.RequestUnknown(similar=similar, known=known):
            return f"Did you mean {similar}?" if similar else f"It has {phrases.listed(known)}."
        case obstacles.Terminating():
            return _deletion_advice(obstacle)
        case obstacles.NodesTainted(taint=taint, nodes=nodes):
            if not taint.startswith(CONDITION_TAINTS):
                return ""
            problem = "Kubernetes sets this taint while a node has a problem"
            return f"{problem}: dray describe node {nodes[0]}"
        case obstacles.ContainerExited():
            before = " --previous" if obstacle.restarts else ""
            which = f"{obstacle.pod} -n {obstacle.namespace} -c {obstacle.container}"
            return f"See what it printed: dray logs {which}{before}"
    return phrases.filled(_ADVICE.get(type(obstacle), ""), obstacle)


def _deletion_advice(obstacle: obstacles.Terminating) -> str:
    if obstacle.driver:
        return f"Start {obstacle.driver} on {obstacle.node} again; the pod is deleted then."
    if obstacle.message:
        return "It is retried; see the driver's log on that node."
    if obstacle.finalizers:
        return "The controllers that set the finalizers remove them when they are done."
    return ""


_OTHER_NODE = "Delete the pod to have it placed on another node."
_ADVICE: dict[type[Obstacle], str] = {
    obstacles.QuotaExceeded: (
        "Delete what is not needed, or raise the quota: "
        "dray describe resourcequota {quota} -n {namespace}"
    ),
    obstacles.GroupGateOff: (
        "Turn on {gate} in the API server, the controllers and the scheduler "
        "(--feature-gates={gate}=true), or remove spec.schedulingGroup from the pod."
    ),
    obstacles.ClaimUnused: (
        "Add to the container that needs it: resources: {{claims: [{{name: {pod_claim}}}]}}"
    ),
    obstacles.KindConfused: "Use the pod's field for a {actual}.",
    obstacles.GateSet: "The controller that set it removes it when the pod may be scheduled.",
    obstacles.ClaimBeingDeleted: "It goes when no pod uses it any more; then create it again.",
    obstacles.DeviceUnhealthy: (
        "For another device, delete the pod, and its claim if no template made it."
    ),
    obstacles.ResourceShort: "Request at most {most} of {resource}, or wait until {node} has more.",
    obstacles.NotLookedAt: "Check that a scheduler with the name {scheduler} is running.",
    obstacles.NodeOutOfReach: (
        "Change the pod's node selector, or delete the claim so that it is allocated again."
    ),
    obstacles.ConditionAwaited: (
        "The driver {driver} sets it on the claim's status; look at its log."
    ),
    obstacles.ConditionFailed: "The scheduler retries with other devices.",
    obstacles.BindingFailed: "The scheduler retries; see the driver's log.",
    obstacles.SchedulerBypassed: (
        "Create the pod without nodeName, with nodeSelector: {{kubernetes.io/hostname: {node}}}."
    ),
    obstacles.NodeGone: _OTHER_NODE,
    obstacles.NodeNotReady: _OTHER_NODE,
    obstacles.DriverNotRegistered: (
        "Start {driver} on {node}, or look at its log; the pod continues then."
    ),
    obstacles.PrepareFailed: ("It is retried; see the driver's log on that node."),
    obstacles.CdiUnresolved: (
        "The driver's CDI file is missing on {node}, or the runtime does not look there."
    ),
    obstacles.NotReady: "Its readiness probe has not succeeded.",
}
