"""Finds nodes, devices, drivers and components of a cluster that do not work."""

from __future__ import annotations

import datetime
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from dray.api import well_known
from dray.api.formats import gotime
from dray.api.ids import ClaimKey, DeviceId
from dray.api.semantics import pod_claims, pools
from dray.api.semantics.conditions import find_condition
from dray.api.types import dra
from dray.api.types.core import CoreEvent
from dray.api.types.dra import ResourceClaim, ResourceSlice
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.clock import utc_now
from dray.drivers.simulated.fleet import FLEET_LABEL
from dray.explain.pod import device_problems, message_patterns, obstacles
from dray.explain.text import phrases
from dray.health.examined_objects import ExaminedObjects
from dray.health.problems import Checks, ClusterProblem

WAITING_SECONDS = 30.0
"""The time after which something should have happened that components do at once."""
CREATION_FAILED = "FailedResourceClaimCreation"
_GATE_OFF = re.compile(r"feature gate (\w+) is off|the (\w+) feature is disabled")
_ENDED = ("Succeeded", "Failed")


def nodes_not_ready(objects: ExaminedObjects) -> Iterator[ClusterProblem]:
    """Find nodes whose agent does not report."""
    for node in objects.of(Node):
        ready = find_condition(node.status.conditions, "Ready")
        if ready is not None and ready.status == "True":
            continue
        name = node.metadata.name
        why = (ready.message or ready.reason) if ready else "it has never reported its status"
        advice = f"Start its node agent, or look at its log. See: dray describe node {name}"
        yield ClusterProblem("node-not-ready", f"node {name}", f"is not ready: {why}", (), advice)


def devices_of_pods(objects: ExaminedObjects) -> Iterator[ClusterProblem]:
    """Find unhealthy devices, and devices with a NoExecute taint, that pods have."""
    claims = _claims(objects)
    slices, rules = objects.of(ResourceSlice), objects.of(dra.DeviceTaintRule)
    for pod in objects.of(Pod):
        if pod.status.phase in _ENDED or not pod.spec.node_name:
            continue
        about = f"pod {_name(pod.metadata)}"
        for problem in device_problems.device_problems(pod, claims, slices, rules):
            if isinstance(problem, obstacles.DeviceUnhealthy):
                message = f"has device {problem.device}, which is unhealthy: {problem.message}"
                advice = f"Move it to another device: dray delete {_arguments(pod)}"
                yield ClusterProblem("device-unhealthy", about, message, (), advice)
            elif isinstance(problem, obstacles.DeviceTainted) and problem.evicts:
                message = f"has device {problem.device} with the taint {problem.taint}"
                advice = f"{_eviction(problem)} {_untaint(problem.rule, problem.device, slices)}"
                yield ClusterProblem("device-tainted", about, message, (), advice)


def tainted_devices(objects: ExaminedObjects) -> Iterator[ClusterProblem]:
    """Find free devices with a NoExecute taint of their driver: few pods tolerate it."""
    used = {result.device_id for claim in objects.of(ResourceClaim) for result in _results(claim)}
    slices = objects.of(ResourceSlice)
    for resource_slice in pools.current_slices_of_pools(slices):
        for device in resource_slice.spec.devices:
            identity = DeviceId(*resource_slice.pool_id, device.name)
            for taint in device.taints:
                if taint.effect == well_known.NO_EXECUTE and identity not in used:
                    text = phrases.taint(taint)
                    message = f"has the taint {text}: only claims that tolerate it can get it"
                    advice = _untaint("", str(identity), slices)
                    about = f"device {identity}"
                    yield ClusterProblem("device-tainted", about, message, (), advice)


def missing_devices(objects: ExaminedObjects) -> Iterator[ClusterProblem]:
    """Find claims with devices that no driver publishes any more."""
    published = {DeviceId(*pool, device.name) for pool, device in objects.devices()}
    for claim in objects.of(ResourceClaim):
        gone = [result for result in _results(claim) if result.device_id not in published]
        if not gone:
            continue
        names = ", ".join(str(result.device_id) for result in gone)
        pods = [item.name for item in claim.status.reserved_for if pod_claims.is_pod(item)]
        advice = f"Is the driver {gone[0].driver} running, and the hardware there?"
        if pods:
            users = " ".join(f"pod/{name}" for name in pods)
            advice += f" To give the devices up: dray delete {users} -n {claim.metadata.namespace}"
        about = f"resourceclaim {claim.key}"
        message = f"has {names}, which is not published any more"
        yield ClusterProblem("device-missing", about, message, (), advice)


def silent_drivers(objects: ExaminedObjects) -> Iterator[ClusterProblem]:
    """Find drivers that are registered on a node and publish no device for it."""
    specs = [item.spec for item in objects.of(ResourceSlice) if item.spec.devices]
    elsewhere = {spec.driver for spec in specs if not spec.node_name}
    published = {(spec.driver, spec.node_name) for spec in specs}
    for node in objects.of(Node):
        name = node.metadata.name
        registered = node.metadata.annotations.get(well_known.DRIVERS_ANNOTATION, "")
        for driver in filter(None, registered.split(",")):
            if driver not in elsewhere and (driver, name) not in published:
                message = f"is registered on node {name} and publishes no device"
                advice = f"Look at its log: is the hardware there, and does --node name {name}?"
                about = f"driver {driver}"
                yield ClusterProblem("driver-publishes-nothing", about, message, (), advice)


def stuck_pods(objects: ExaminedObjects) -> Iterator[ClusterProblem]:
    """Find pods that should have ended by now."""
    claims = _claims(objects)
    for pod in objects.of(Pod):
        # The timestamp is the time at which the grace period ends.
        deleted = pod.metadata.deletion_timestamp
        if deleted is None or _seconds_since(deleted) < WAITING_SECONDS:
            continue
        node = pod.spec.node_name
        message = f"is being deleted since {deleted} and still exists"
        drivers = {
            result.driver
            for key in pod_claims.used_claims(pod)
            for result in _results(claims.get(key))
        }
        why, advice = _why_stuck(pod, drivers, objects)
        message += f": {why}" if why else ""
        if pod.metadata.finalizers:
            advice = f"It has finalizers: {', '.join(pod.metadata.finalizers)}. {advice}"
        advice += f" If node {node} is gone for good: dray delete node {node}" if node else ""
        about = f"pod {_name(pod.metadata)}"
        yield ClusterProblem("pod-stuck-terminating", about, message, (), advice.strip())


def _why_stuck(pod: Pod, drivers: set[str], objects: ExaminedObjects) -> tuple[str, str]:
    """Return why a pod does not end, and what to do."""
    errors = [
        event.message
        for event in objects.of(CoreEvent)
        if event.reason == well_known.FAILED_UNPREPARE_REASON
        and event.involved_object.uid == pod.metadata.uid
    ]
    if not errors:
        return "", f"Does the agent of node {pod.spec.node_name} run?"
    absent = [name for name in drivers if message_patterns.is_unregistered(name, errors[-1])]
    names = ", ".join(sorted(absent or drivers))
    start = f"Start the driver {names} on node {pod.spec.node_name}; the pod then ends by itself."
    return errors[-1], start


def gates_that_are_off(objects: ExaminedObjects) -> Iterator[ClusterProblem]:
    """Find pods that use a field whose feature gate is off."""
    messages: dict[str, list[str]] = defaultdict(list)
    for event in objects.of(CoreEvent):
        messages[event.involved_object.uid].append(event.message)
    for pod in objects.of(Pod):
        scheduled = find_condition(pod.status.conditions, "PodScheduled")
        if pod.spec.node_name or pod.status.phase in _ENDED:
            continue
        texts = [*messages[pod.metadata.uid], scheduled.message if scheduled else ""]
        gates = {
            next(filter(None, found.groups())) for found in map(_GATE_OFF.search, texts) if found
        }
        for gate in sorted(gates):
            message = f"uses what the feature gate {gate} allows, which is off"
            advice = f"Start the cluster with: dray up --feature-gates {gate}=true"
            yield ClusterProblem("gate-off", f"pod {_name(pod.metadata)}", message, (), advice)


def idle_scheduler(objects: ExaminedObjects) -> Iterator[ClusterProblem]:
    """Find schedulers for which pods wait that none has looked at."""
    waiting: dict[str, list[str]] = defaultdict(list)
    for pod in objects.of(Pod):
        is_done = pod.spec.node_name or pod.spec.scheduling_gates or pod.status.phase in _ENDED
        is_seen = find_condition(pod.status.conditions, "PodScheduled") is not None
        if not is_done and not is_seen and _is_old(pod):
            waiting[pod.spec.scheduler_name or "default-scheduler"].append(_name(pod.metadata))
    for scheduler, pods in waiting.items():
        names = phrases.limited(sorted(pods), len(pods), "pod")
        message = f"has not looked at {names}; does it run?"
        advice = "Start it: dray scheduler, or choose another one in spec.schedulerName."
        yield ClusterProblem("scheduler-not-running", f"scheduler {scheduler}", message, (), advice)


def idle_controllers(objects: ExaminedObjects) -> Iterator[ClusterProblem]:
    """Find pods whose claims nobody creates from their templates."""
    templates = set(map(_template_key, objects.of(dra.ResourceClaimTemplate)))
    reported = {
        event.involved_object.uid
        for event in objects.of(CoreEvent)
        if event.reason == CREATION_FAILED
    }
    waiting = [
        _name(pod.metadata)
        for pod in objects.of(Pod)
        if pod.status.phase not in _ENDED
        and pod.metadata.deletion_timestamp is None
        and pod.metadata.uid not in reported
        and _is_old(pod)
        and any(
            not pod_claims.claim_of(pod, source).is_made
            and ClaimKey(pod.metadata.namespace, source.resource_claim_template_name or "")
            in templates
            for source in pod.spec.resource_claims
        )
    ]
    if waiting:
        names = phrases.limited(sorted(waiting), len(waiting), "pod")
        message = f"have created no claims for {names}; do they run?"
        advice = "Start them: dray controllers"
        yield ClusterProblem("controllers-not-running", "controllers", message, (), advice)


CHECKS: Checks = {
    nodes_not_ready: frozenset({"Node"}),
    devices_of_pods: frozenset({"Pod", "ResourceClaim", "ResourceSlice"}),
    tainted_devices: frozenset({"ResourceClaim", "ResourceSlice"}),
    missing_devices: frozenset({"ResourceClaim", "ResourceSlice"}),
    silent_drivers: frozenset({"Node", "ResourceSlice"}),
    gates_that_are_off: frozenset({"Pod", "Event"}),
}
LIVE_CHECKS: Checks = {
    stuck_pods: frozenset({"Pod", "ResourceClaim", "Event"}),
    idle_scheduler: frozenset({"Pod"}),
    idle_controllers: frozenset({"Pod", "ResourceClaimTemplate", "Event"}),
}
"""Checks of what should have happened by now: not for a snapshot."""


def _claims(objects: ExaminedObjects) -> dict[ClaimKey, ResourceClaim]:
    return {claim.key: claim for claim in objects.of(ResourceClaim)}


def _results(claim: ResourceClaim | None) -> tuple[dra.DeviceRequestAllocationResult, ...]:
    allocation = claim.status.allocation if claim else None
    return tuple(allocation.devices.results) if allocation else ()


def _name(metadata: ObjectMeta) -> str:
    return f"{metadata.namespace}/{metadata.name}"


def _arguments(pod: Pod) -> str:
    return f"pod {pod.metadata.name} -n {pod.metadata.namespace}"


def _template_key(template: dra.ResourceClaimTemplate) -> ClaimKey:
    return ClaimKey(template.metadata.namespace, template.metadata.name)


def _eviction(problem: obstacles.DeviceTainted) -> str:
    return f"It is evicted at {problem.evicted_at}." if problem.evicted_at else "It is evicted."


def _untaint(rule: str, device: str, slices: Sequence[ResourceSlice]) -> str:
    """Return how the taint of a device is removed."""
    if rule:
        return f"The taint is that of a rule: dray delete devicetaintrule {rule}"
    for resource_slice in slices:
        prefix = f"{resource_slice.pool_id}/"
        node = resource_slice.spec.node_name
        if device.startswith(prefix) and node and FLEET_LABEL in resource_slice.metadata.labels:
            return f"Heal it: dray fleet heal {node} {device.removeprefix(prefix)}"
    return "Its driver removes the taint when the device works again."


def _is_old(pod: Pod) -> bool:
    return _seconds_since(pod.metadata.creation_timestamp or "") >= WAITING_SECONDS


def _seconds_since(time: str) -> float:
    if not time:
        return 0.0
    age: datetime.timedelta = utc_now() - gotime.parse(time)
    return age.total_seconds()
