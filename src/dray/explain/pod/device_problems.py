"""How the devices are that a pod has: their health as its status tells it, and their taints."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence

from dray.allocator.checks import taints
from dray.api.formats import gotime
from dray.api.ids import ClaimKey
from dray.api.semantics import pod_claims, pools
from dray.api.types.dra import (
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from dray.api.types.pods import Pod, ResourceHealth
from dray.explain.pod import obstacles
from dray.explain.pod.obstacles import Obstacle
from dray.explain.text import phrases

UNHEALTHY = "Unhealthy"
_CLAIM_PREFIX = "claim:"

Results = Sequence[DeviceRequestAllocationResult]


def device_problems(
    pod: Pod,
    claims: Mapping[ClaimKey, ResourceClaim],
    slices: Sequence[ResourceSlice],
    rules: Sequence[DeviceTaintRule],
) -> Iterator[Obstacle]:
    """What is wrong with the devices that a pod has; unlike obstacles, it may run with that."""
    held = _held(pod, claims)
    yield from _unhealthy(pod, held)
    for results in held.values():
        for result in results:
            yield from _tainted(result, slices, rules)


def _held(pod: Pod, claims: Mapping[ClaimKey, ResourceClaim]) -> dict[str, Results]:
    """What was allocated for the pod, by the name that it has for the claim."""
    held: dict[str, Results] = {}
    for used in pod_claims.claims_of_pod(pod):
        claim = claims.get(ClaimKey(pod.metadata.namespace, used.name or ""))
        if claim is not None and claim.status.allocation is not None:
            held[used.pod_claim] = claim.status.allocation.devices.results
    return held


def _unhealthy(pod: Pod, held: Mapping[str, Results]) -> Iterator[Obstacle]:
    """Each device once, whatever containers use it."""
    found: dict[str, Obstacle] = {}
    for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        for status in container.allocated_resources_status:
            for resource in status.resources:
                if resource.health == UNHEALTHY:
                    name = _device_name(resource, status.name, held)
                    found[name] = obstacles.DeviceUnhealthy(
                        device=name, message=resource.message or ""
                    )
    yield from found.values()


def _device_name(health: ResourceHealth, resource: str, held: Mapping[str, Results]) -> str:
    """The device behind a CDI name, which ends with the name of its device as a rule."""
    pod_claim, _, request = resource.removeprefix(_CLAIM_PREFIX).partition("/")
    among = [
        each.device_id
        for each in held.get(pod_claim, ())
        if not request or each.request.partition("/")[0] == request
    ]
    alike = [each for each in among if health.resource_id.endswith(each.device)]
    certain = next((each for each in (among, alike) if len(each) == 1), None)
    return str(certain[0]) if certain else health.resource_id


def _tainted(
    result: DeviceRequestAllocationResult,
    slices: Sequence[ResourceSlice],
    rules: Sequence[DeviceTaintRule],
) -> Iterator[Obstacle]:
    for taint in _published_taints(result, slices):
        yield from _concern(result, taint)
    for rule in taints.rules_for_pool(result.driver, result.pool, rules):
        for taint in taints.with_rules((), result.device, [rule]):
            yield from _concern(result, taint, rule.metadata.name)


def _published_taints(
    result: DeviceRequestAllocationResult, slices: Sequence[ResourceSlice]
) -> Iterator[DeviceTaint]:
    of_pool = [
        resource_slice for resource_slice in slices if resource_slice.pool_id == result.pool_id
    ]
    for resource_slice in pools.current_slices(of_pool):
        for device in resource_slice.spec.devices:
            if device.name == result.device:
                yield from device.taints


def _concern(
    result: DeviceRequestAllocationResult, taint: DeviceTaint, rule: str = ""
) -> Iterator[Obstacle]:
    if not taints.prevents_allocation(taint):
        return
    seconds = taints.tolerated_seconds(taint, result.tolerations)
    yield obstacles.DeviceTainted(
        device=str(result.device_id),
        taint=phrases.taint(taint),
        rule=rule,
        since=taint.time_added or "",
        evicts=seconds is not None,
        evicted_at=_later(taint.time_added, seconds),
    )


def _later(time: str | None, seconds: int | None) -> str:
    if time is None or seconds is None:
        return ""
    return gotime.write(gotime.parse(time) + datetime.timedelta(seconds=seconds))
