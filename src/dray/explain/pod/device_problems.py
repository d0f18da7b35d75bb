"""Problems of the devices that a pod has: their health in the pod's status, and their taints."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence

from dray.allocator.checks import taints
from dray.api.formats import gotime
from dray.api.ids import ClaimKey
from dray.api.semantics import pod_claims, pools
from dray.api.types import dra
from dray.api.types.dra import DeviceRequestAllocationResult, ResourceClaim, ResourceSlice
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
    rules: Sequence[dra.DeviceTaintRule],
) -> Iterator[Obstacle]:
    """Yield the problems of the devices that a pod has; the pod may run nevertheless."""
    allocated = _allocated_devices(pod, claims)
    yield from _unhealthy(pod, allocated)
    for results in allocated.values():
        for result in results:
            yield from _tainted(result, slices, rules)


def _allocated_devices(pod: Pod, claims: Mapping[ClaimKey, ResourceClaim]) -> dict[str, Results]:
    """Return the devices of the pod, by the pod's own names of its claims."""
    allocated: dict[str, Results] = {}
    for used in pod_claims.claims_of_pod(pod):
        claim = claims.get(ClaimKey(pod.metadata.namespace, used.name or ""))
        if claim is not None and claim.status.allocation is not None:
            allocated[used.pod_claim] = claim.status.allocation.devices.results
    return allocated


def _unhealthy(pod: Pod, allocated: Mapping[str, Results]) -> Iterator[Obstacle]:
    """Yield the unhealthy devices, each once."""
    unhealthy: dict[str, Obstacle] = {}
    for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        for status in container.allocated_resources_status:
            for resource in status.resources:
                if resource.health == UNHEALTHY:
                    name = _device_name(resource, status.name, allocated)
                    message = resource.message or ""
                    unhealthy[name] = obstacles.DeviceUnhealthy(device=name, message=message)
    yield from unhealthy.values()


def _device_name(health: ResourceHealth, resource: str, allocated: Mapping[str, Results]) -> str:
    """Return the device id for a CDI name, or the CDI name if that is not certain.

    By convention a CDI name ends with the name of its device.
    """
    pod_claim, _, request = resource.removeprefix(_CLAIM_PREFIX).partition("/")
    devices = [
        result.device_id
        for result in allocated.get(pod_claim, ())
        if not request or result.request.partition("/")[0] == request
    ]
    matching = [device for device in devices if health.resource_id.endswith(device.device)]
    for candidates in (devices, matching):
        if len(candidates) == 1:
            return str(candidates[0])
    return health.resource_id


def _tainted(
    result: DeviceRequestAllocationResult,
    slices: Sequence[ResourceSlice],
    rules: Sequence[dra.DeviceTaintRule],
) -> Iterator[Obstacle]:
    for taint in _published_taints(result, slices):
        yield from _taint_problems(result, taint)
    for rule in taints.rules_for_pool(result.driver, result.pool, rules):
        for taint in taints.with_rules((), result.device, [rule]):
            # A rule without selector keeps new pods away from all devices, and evicts none:
            # pkg/controller/devicetainteviction, ruleMatchesDevice.
            may_evict = rule.spec.device_selector is not None
            yield from _taint_problems(result, taint, rule.metadata.name, may_evict=may_evict)


def _published_taints(
    result: DeviceRequestAllocationResult, slices: Sequence[ResourceSlice]
) -> Iterator[dra.DeviceTaint]:
    of_pool = [published for published in slices if published.pool_id == result.pool_id]
    for resource_slice in pools.current_slices(of_pool):
        for device in resource_slice.spec.devices:
            if device.name == result.device:
                yield from device.taints


def _taint_problems(
    result: DeviceRequestAllocationResult,
    taint: dra.DeviceTaint,
    rule: str = "",
    *,
    may_evict: bool = True,
) -> Iterator[Obstacle]:
    if not taints.prevents_allocation(taint):
        return
    seconds = taints.tolerated_seconds(taint, result.tolerations) if may_evict else None
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
