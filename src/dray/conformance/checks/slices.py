"""Checks of published ResourceSlices: rules that the API server cannot enforce."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from dray.api import kinds
from dray.api.formats import quantity
from dray.api.types.dra import Device, ResourceSlice
from dray.conformance.check import CheckFailed, Group, NotApplicable
from dray.conformance.site import Site

GROUP = Group("slices", "api/resource/v1: types.go, ResourceSlice")
QUIET_SECONDS: Final = 2.0
WINDOWS: Final = 3
STANDARD: Final = "resource.kubernetes.io/"
STANDARD_ATTRIBUTES: Final = ("numaNode", "pciBusID", "pcieRoot")


@GROUP.check(
    "published",
    "The driver publishes at least one device for its node.",
    "Create ResourceSlices with the driver's name and nodeName {node}; the checks need a device.",
)
async def published(site: Site) -> None:
    await site.registration()
    try:
        await site.published()
    except NotApplicable:
        found = await site.slices()
        seen = f"there are {len(found)} slices of the driver, and none has a device"
        raise CheckFailed(f"{seen}; {site.state}") from None


@GROUP.check(
    "node",
    "Slices of devices of the node have its name in nodeName.",
    "Use the node's name that the driver was given ({node} or $NODE_NAME).",
)
async def node(site: Site) -> None:
    site.need_process()
    for one in await site.slices_of_every_node():
        if one.spec.node_name not in (None, site.node):
            raise CheckFailed(f"slice {one.metadata.name} has the nodeName {one.spec.node_name}")


@GROUP.check(
    "owner",
    "Slices of a node are owned by its Node, so that they go away with it.",
    "Set an ownerReference to the Node, with its uid, in metadata of each slice.",
    source="dynamic-resource-allocation/kubeletplugin: draplugin.go, PublishResources",
)
async def owner(site: Site) -> None:
    uid = (await site.client.get(kinds.NODE, site.node))["metadata"]["uid"]
    for one in await site.published():
        if one.spec.node_name and uid not in [
            owner.uid for owner in one.metadata.owner_references if owner.kind == "Node"
        ]:
            raise CheckFailed(f"slice {one.metadata.name} has no owner {site.node} ({uid})")


def _pools(slices: Iterable[ResourceSlice]) -> Mapping[str, list[ResourceSlice]]:
    pools: dict[str, list[ResourceSlice]] = defaultdict(list)
    for one in slices:
        pools[one.spec.pool.name].append(one)
    return pools


@GROUP.check(
    "generation",
    "All slices of a pool have the same generation, and that is at least 1.",
    "Write the new generation into every slice of the pool, and delete the old slices.",
)
async def generation(site: Site) -> None:
    await site.published()
    for pool, slices in _pools(await site.slices()).items():
        found = {one.spec.pool.generation for one in slices}
        if len(found) > 1 or min(found) < 1:
            raise CheckFailed(f"the slices of pool {pool} have the generations {sorted(found)}")


@GROUP.check(
    "count",
    "A pool's resourceSliceCount is the number of its slices: incomplete pools are ignored.",
    "Set spec.pool.resourceSliceCount to the number of slices of this generation.",
)
async def count(site: Site) -> None:
    await site.published()
    for pool, slices in _pools(await site.slices()).items():
        said = {one.spec.pool.resource_slice_count for one in slices}
        if said != {len(slices)}:
            raise CheckFailed(f"pool {pool} has {len(slices)} slices and says {sorted(said)}")


@GROUP.check(
    "unique",
    "Device names are unique in a pool.",
    "Give each device of a pool its own name; nothing of the pool is allocated otherwise.",
)
async def unique(site: Site) -> None:
    for pool, slices in _pools(await site.published()).items():
        names = Counter(device.name for one in slices for device in one.spec.devices)
        if twice := [name for name, number in names.items() if number > 1]:
            raise CheckFailed(f"pool {pool} has these devices more than once: {', '.join(twice)}")


@GROUP.check(
    "attributes",
    "Attributes below resource.kubernetes.io/ are those that Kubernetes defines.",
    f"Use a domain of your own; the standard ones are {', '.join(STANDARD_ATTRIBUTES)}.",
    source="dynamic-resource-allocation/deviceattribute: attribute.go",
)
async def attributes(site: Site) -> None:
    for one in await site.published():
        for device in one.spec.devices:
            for name in device.attributes:
                if name.startswith(STANDARD) and name[len(STANDARD) :] not in STANDARD_ATTRIBUTES:
                    raise CheckFailed(f"device {device.name} has the attribute {name}")


@GROUP.check(
    "counters",
    "Counters that a device consumes exist in its pool, and one device fits into them alone.",
    "Publish the counter set in a slice of the same pool, with at least what a device consumes.",
    source="api/resource/v1: types.go, Device.consumesCounters",
)
async def counters(site: Site) -> None:
    pools = _pools(await site.published())
    if not any(one.spec.shared_counters for slices in pools.values() for one in slices):
        raise NotApplicable("the driver publishes no shared counters")
    for slices in pools.values():
        offered = {
            (group.name, name): quantity.parse(counter.value).value()
            for one in slices
            for group in one.spec.shared_counters
            for name, counter in group.counters.items()
        }
        for one in slices:
            for device in one.spec.devices:
                _check_counters(device, offered)


def _check_counters(device: Device, offered: Mapping[tuple[str, str], int]) -> None:
    for consumption in device.consumes_counters:
        for name, counter in consumption.counters.items():
            available = offered.get((consumption.counter_set, name))
            needed = quantity.parse(counter.value).value()
            if available is None or needed > available:
                raise CheckFailed(
                    f"device {device.name} consumes {needed} of {consumption.counter_set}/{name}; "
                    f"there is {available if available is not None else 'no such counter'}"
                )


@GROUP.check(
    "stable",
    "Slices are not written while nothing changes.",
    "Compare with what is published before writing: each write wakes every scheduler.",
    source="dynamic-resource-allocation/resourceslice: resourceslicecontroller.go",
)
async def stable(site: Site) -> None:
    await site.published()
    # What is written just after the start is a part of publishing.
    for _ in range(WINDOWS):
        before = _versions(await site.slices())
        await asyncio.sleep(QUIET_SECONDS)
        changed = before.items() ^ _versions(await site.slices()).items()
        if not changed:
            return
    names = ", ".join(sorted({name for name, _ in changed}))
    times = f"{WINDOWS} times within {QUIET_SECONDS:g} s"
    raise CheckFailed(f"written without a reason, {times}: {names}")


def _versions(slices: Iterable[ResourceSlice]) -> dict[str, str]:
    return {one.metadata.name: one.metadata.resource_version for one in slices}
