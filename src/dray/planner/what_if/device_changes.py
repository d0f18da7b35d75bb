"""Changes of devices: one that fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from dray.allocator.checks import taints
from dray.api.formats import quantity
from dray.api.ids import DeviceId, PoolId
from dray.api.semantics import pod_claims, pod_status, pools
from dray.api.types.dra import (
    CounterSet,
    Device,
    DeviceCounterConsumption,
    DeviceTaint,
    ResourceClaim,
    ResourceSlice,
)
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.api.well_known import NO_EXECUTE, UNHEALTHY_TAINT
from dray.planner.cluster_model import ClusterModel
from dray.planner.what_if.changes import Changed, ImpossibleChange, evict, unknown


@dataclass(frozen=True, slots=True)
class FailDevice:
    """A device that breaks: its driver taints it with NoExecute, and its pods are evicted.

    With a whole GPU, its partitions break too. `place` is a node, or a pool that belongs to none.
    """

    place: str
    device: str
    driver: str = ""
    """Tells devices of the same name apart; empty if only one driver has it."""

    def apply(self, cluster: ClusterModel) -> Changed:
        pool, found = self._find(cluster)
        if any(taint.key == _taint(pool.driver).key for taint in found.taints):
            raise ImpossibleChange(f"device {self.place}/{self.device} has failed already")
        slices = [item for item in _current(cluster) if item.pool_id == pool]
        failed = {found.name, *_partitions(found, slices)}
        tainted = [_with_failed(item, failed) for item in slices]
        broken = {DeviceId(pool.driver, pool.pool, name) for name in failed}
        return evict(cluster.with_objects(tainted), list(_users(cluster, broken)))

    def _find(self, cluster: ClusterModel) -> tuple[PoolId, Device]:
        """Return the device and its pool. Raises ImpossibleChange if there is not exactly one."""
        here = [(published.pool_id, device) for published, device in self._devices_here(cluster)]
        if not here:
            places = {node.metadata.name for node in cluster.of(Node)}
            if self.place in places:
                raise ImpossibleChange(f"node {self.place} has no devices")
            raise unknown("node", self.place, places)
        named = [(pool, device) for pool, device in here if device.name == self.device]
        if not named:
            names = {device.name for _, device in here}
            raise unknown("device", self.device, names, f" on {self.place}")
        chosen = [item for item in named if self.driver in ("", item[0].driver)]
        drivers = sorted(pool.driver for pool, _ in named)
        if not chosen:
            raise unknown(f"device {self.device} of driver", self.driver, drivers)
        if len(chosen) > 1:
            options = " or ".join(f"{self.place}/{driver}/{self.device}" for driver in drivers)
            raise ImpossibleChange(f"several drivers have a device {self.device}: write {options}")
        return chosen[0]

    def _devices_here(self, cluster: ClusterModel) -> Iterator[tuple[ResourceSlice, Device]]:
        for published in _current(cluster):
            spec = published.spec
            of_pool = spec.node_name is None and spec.pool.name == self.place
            for device in spec.devices:
                if of_pool or self.place in (spec.node_name, device.node_name):
                    yield published, device


def _current(cluster: ClusterModel) -> Iterator[ResourceSlice]:
    return pools.current_slices_of_pools(cluster.of(ResourceSlice))


def _taint(driver: str) -> DeviceTaint:
    """Return the taint that a driver gives an unhealthy device."""
    return DeviceTaint(key=f"{driver}/{UNHEALTHY_TAINT}", effect=NO_EXECUTE)


def _partitions(device: Device, slices: list[ResourceSlice]) -> Iterator[str]:
    """Yield the devices that use what this one uses, if it uses all of a counter set."""
    sets = {counters.name: counters for item in slices for counters in item.spec.shared_counters}
    whole = {
        used.counter_set
        for used in device.consumes_counters
        if used.counter_set in sets and _amounts(used) == _amounts(sets[used.counter_set])
    }
    for item in slices:
        for other in item.spec.devices:
            if any(used.counter_set in whole for used in other.consumes_counters):
                yield other.name


def _amounts(counters: CounterSet | DeviceCounterConsumption) -> dict[str, int]:
    return {name: quantity.parse(item.value).nano for name, item in counters.counters.items()}


def _with_failed(published: ResourceSlice, failed: set[str]) -> ResourceSlice:
    taint = _taint(published.spec.driver)
    devices = tuple(
        msgspec.structs.replace(device, taints=(*device.taints, taint))
        if device.name in failed
        else device
        for device in published.spec.devices
    )
    spec = msgspec.structs.replace(published.spec, devices=devices)
    return msgspec.structs.replace(published, spec=spec)


def _users(cluster: ClusterModel, broken: set[DeviceId]) -> Iterator[Pod]:
    """Yield the pods that a claim gives a broken device, unless the claim tolerates that."""
    claims = {claim.key: claim for claim in cluster.of(ResourceClaim)}
    accepts_groups = cluster.features.workload_resource_claims
    for pod in cluster.of(Pod):
        if not pod.spec.node_name or not pod_status.is_active(pod):
            continue
        used = (claims.get(key) for key in pod_claims.used_claims(pod))
        if any(
            _loses(claim, broken)
            for claim in used
            if claim is not None and pod_claims.is_reserved_for(claim, pod, accepts_groups)
        ):
            yield pod


def _loses(claim: ResourceClaim, broken: set[DeviceId]) -> bool:
    """Return whether the users of a claim are evicted, at once or when its tolerations end."""
    allocation = claim.status.allocation
    return allocation is not None and any(
        taints.tolerated_seconds(_taint(result.driver), result.tolerations) is not None
        for result in allocation.devices.results
        if DeviceId(result.driver, result.pool, result.device) in broken
    )
